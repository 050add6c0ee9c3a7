"""Jobs under kill -9: none is lost, none runs twice unseen, nothing is left, every statement is true (J7, J12)."""

from __future__ import annotations

import os
import random
import select
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from hermes_core.job import Job, JobState, event_job
from hermes_core.messages import Said, SaidKind
from hermes_core.processes import records, tree
from hermes_core.store.sqlite import SQLiteStore

pytestmark = pytest.mark.skipif(not tree.VISIBLE, reason="kept processes are proven with /proc")

PROGRAM = Path(__file__).with_name("stress_program.py")
ROOT = Path(__file__).parents[2]


def life(folder: Path, count: int, seconds: float) -> bool:
    """One run of the program, killed after so many seconds; whether all had ended by then."""
    with (folder / "errors").open("a") as errors:
        runtime = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(folder), str(count)],
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert runtime.stdout is not None
    try:
        ready, _, _ = select.select([runtime.stdout], [], [], seconds)
        if ready:
            said = runtime.stdout.readline()
            assert said == b"all ended\n", (folder / "errors").read_text()[-2000:]
            return True
        assert runtime.poll() is None
        return False
    finally:
        runtime.kill()
        runtime.wait()
        runtime.stdout.close()


def left(folder: Path) -> list[int]:
    """Living processes that name this folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and any(str(folder) in word for word in process.cmdline()):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def is_true(job: Job, lines: list[str]) -> bool:
    """Whether its final state agrees with what its work has written."""
    begun, ended = lines.count("begun"), lines.count("ended")
    match job.tool, job.state:
        case "process", JobState.DONE | JobState.FAILED:
            failed = job.arguments.find('"code":3') >= 0
            return (begun, ended) == (1, 1) and failed == (job.state is JobState.FAILED)
        case "once", JobState.DONE:
            return (begun, ended) == (1, 1)
        case "once", JobState.LOST:
            return begun <= 1
        case "again", JobState.DONE:
            return 1 <= ended <= begun <= job.runs
    return False


@pytest.mark.parametrize(
    ("count", "least"),
    [pytest.param(25, 4, id="25 jobs"), pytest.param(120, 12, id="120 jobs", marks=pytest.mark.slow)],
)
async def test_j12_random_kills_lose_nothing_and_repeat_nothing(
    tmp_path: Path, count: int, least: int
) -> None:
    chance = random.Random(count)
    kills, limit = 0, time.monotonic() + 100
    while not life(tmp_path, count, chance.uniform(0.4, 1.0) if kills < 3 * least else 30.0):
        kills += 1
        assert time.monotonic() < limit, "it does not come to an end"
    assert kills >= least
    assert left(tmp_path) == []

    store = await SQLiteStore.open(tmp_path / "data")
    try:
        jobs = await store.jobs(limit=1000)
        assert len(jobs) == count
        wrong = {}
        for job in jobs:
            path = tmp_path / "runs" / job.key
            lines = path.read_text().split() if path.exists() else []
            if not is_true(job, lines):
                wrong[job.key] = (job.state.value, job.runs, job.summary, lines)
        assert wrong == {}
        told: Counter[str] = Counter()
        for conversation in await store.conversations():
            for turn in await store.history(conversation.address):
                told.update(
                    word.removeprefix("job_id=")
                    for item in turn.items
                    if isinstance(item, Said) and item.kind is SaidKind.EVENT
                    for word in item.text.split()
                    if word.startswith("job_id=") and not word.endswith('")')
                )
        assert told == dict.fromkeys((job.id for job in jobs), 1), "exactly one event for each"
        assert {event_job(f"job:{job.id}:{job.state.value}") for job in jobs} == set(told)
    finally:
        await store.close()
    life(tmp_path, count, 30.0)
    kept = [records.read(path) for path in (tmp_path / "data" / "jobs").glob("*.process")]
    assert [one for one in kept if "void" not in one] == [], "no record outlives the end of its job"
