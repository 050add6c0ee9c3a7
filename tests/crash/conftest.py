"""`pytest tests/crash --crash-kills 5000 --timeout 0`: as many kills as one has patience for."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Seen by pytest where this folder is named on its command line."""
    group = parser.getgroup("hermes crash tests")
    group.addoption("--crash-kills", type=int, default=None, help="how often the gateway is killed")
    group.addoption("--crash-seed", type=int, default=None, help="repeat a run by the seed that it printed")
