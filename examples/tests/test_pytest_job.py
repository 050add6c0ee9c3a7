"""The example pytest_job runs a real project's tests in a whole runtime and reports what came out."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hermes_pytest_job import PytestJobPlugin, PytestSettings, summary

from hermes_core.messages import ToolCall
from hermes_core.testing.bed import Bed

TESTS = """
import pytest

@pytest.mark.parametrize("number", range({passed}))
def test_fine(number): pass

@pytest.mark.parametrize("number", range({failed}))
def test_wrong(number): assert number < 0
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("....\n4 passed in 0.10s\n", "4 passed"),
        ("FAILED t/test_a.py::test_b - assert 0\n1 failed, 412 passed in 9s\n", "412 passed, 1 failed (t/test_a.py)"),
        ("FAILED a.py::x\nFAILED b.py::y\nERROR c.py\n2 failed, 1 error in 1s", "2 failed, 1 error (a.py and 2 more)"),
        ("no tests ran in 0.01s", "no tests ran (exit code 5)"),
        ("", "no tests ran (exit code 5)"),
    ],
)  # fmt: skip
def test_the_summary_is_one_line(text: str, line: str) -> None:
    assert summary(5, text) == line


@pytest.mark.parametrize(
    ("failed", "said"),
    [
        (3, "status=done\nsummary: 12 passed, 3 failed (tests/test_shop.py)"),
        (0, "status=done\nsummary: 12 passed"),
    ],
)
async def test_a_projects_tests_run_as_a_job_and_the_agent_is_told(
    tmp_path: Path, failed: int, said: str
) -> None:
    tests = tmp_path / "project" / "tests"
    tests.mkdir(parents=True)
    (tmp_path / "project" / "pytest.ini").write_text("[pytest]\n")
    (tests / "test_shop.py").write_text(TESTS.format(passed=12, failed=failed))
    scripts: list[Any] = [
        [ToolCall("c", "start_tests", json.dumps({"idempotency_key": "run 1"}))],
        "started",
        "I see",
    ]
    plugin = PytestJobPlugin(PytestSettings(str(tmp_path / "project")))
    async with Bed(tmp_path / "data", scripts, plugins=[plugin]) as bed:
        assert await bed.say("run the tests") == "started"
        limit = time.monotonic() + 60
        while len(bed.platform.sent) < 2:
            assert time.monotonic() < limit
            await asyncio.sleep(0.02)
        assert said in bed.model.texts()[-1]
        (job,) = await bed.store.jobs()
        assert f"{12} passed" in (await bed.runtime.jobs.result(job.id)).text


async def test_an_option_is_no_path(tmp_path: Path) -> None:
    call = ToolCall("c", "start_tests", json.dumps({"idempotency_key": "k", "path": "--pdb"}))
    async with Bed(
        tmp_path, [[call], "started", "I see"], plugins=[PytestJobPlugin(PytestSettings())]
    ) as bed:
        await bed.say("run them")
        await bed.platform.settled()
        (job,) = await bed.store.jobs()
        assert (job.state.value, job.summary) == ("failed", "That is an option, and not a path.")
