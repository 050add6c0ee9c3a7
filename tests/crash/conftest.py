"""`--crash-kills 5000`: as many kills as one has patience for."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A kill takes a fifth of a second on an idle machine: the time limit goes with their number."""
    kills = config.getoption("--crash-kills")
    for item in items:
        if item.path == Path(__file__).with_name("test_crash.py"):
            item.add_marker(pytest.mark.timeout(200 + 2 * kills))


@pytest.fixture
def kills(pytestconfig: pytest.Config) -> int:
    """How often the gateway is to be killed."""
    return int(pytestconfig.getoption("--crash-kills"))
