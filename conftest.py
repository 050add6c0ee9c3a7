"""For all tests of the repository: flags for long runs; in continuous integration a skipped test is a failure.

Elsewhere a test may be skipped where the machine cannot run it (no mounting, no /proc); there it has to
run, or the check would pass without having looked.
"""

from __future__ import annotations

import os

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long the tests go on that could go on for ever. Here, so that they need no folder beside them."""
    group = parser.getgroup("hermes")
    group.addoption("--crash-kills", type=int, default=200, help="how often the gateway is killed (200)")
    group.addoption(
        "--crash-seed", type=int, default=None, help="repeat a crash test by the seed that it printed"
    )
    group.addoption(
        "--soak-seconds", type=float, default=30.0, help="for how long people write in the soak test (30)"
    )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Turn a success with skipped tests into a failure where `CI` is set."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if os.environ.get("CI") and skipped and exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"CI: {len(skipped)} tests were skipped that have to run here", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
