"""For all tests of the repository: in continuous integration a test that is skipped is a failure.

Elsewhere a test may be skipped where the machine cannot run it (no mounting, no /proc); there it has to
run, or the check would pass without having looked.
"""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Turn a success with skipped tests into a failure where `CI` is set."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if os.environ.get("CI") and skipped and exitstatus == pytest.ExitCode.OK:
        reporter.write_line(f"CI: {len(skipped)} tests were skipped that have to run here", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
