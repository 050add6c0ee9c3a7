"""How long the soak test lasts."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """One option."""
    parser.addoption("--soak-seconds", default="30", help="for how long people write in the soak test")
