"""What jobs put out is removed some day; the jobs stay, and whoever asks is told (H)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import hermes_core
from hermes_core.errors import ResultGone
from hermes_core.job import Job, JobEnd, JobState
from hermes_core.jobs.retention import SELDOM, Retention
from hermes_core.messages import Address, Author
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.virtual import run
from tests.http.inside import Inside, problem
from tests.jobs.test_job_flows import Work, bed, call, job_of, result, start

DAY = 86400.0
HERE = Address("test", "me", "1")


def ended_job(key: str) -> Job:
    return Job(f"j{key}", HERE, Author("ann"), "talk", "{}", key, "d", 0.0, 9.0)


async def fill(store: Any, folder: Path, ends: dict[str, float | None], text: str = "much") -> None:
    """Jobs that ended then, each with a file; None: it runs."""
    folder.mkdir(parents=True, exist_ok=True)
    for key, at in ends.items():
        job = (await store.add_job(ended_job(key))).job
        (folder / f"{job.id}.out").write_text(text)
        if at is None:
            await store.run_job(job.id, 1.0, 1)
        else:
            await store.end_job(job.id, JobEnd(JobState.DONE, at, "s", "given", size=len(text) + 5))


def retention(store: Any, folder: Path, now: float, *, keep: float = DAY, limit: int = 10**9) -> Retention:
    def spawn(coroutine: Any, name: str) -> object:
        return asyncio.ensure_future(coroutine)

    return Retention(store, lambda: now, lambda id_: folder / f"{id_}.out", keep, limit, spawn)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.out")}


def test_what_is_too_old_goes_with_its_file_and_what_runs_stays_whatever_its_age(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        await fill(store, tmp_path, {"old": 1.0, "new": 2 * DAY, "runs": None})
        await retention(store, tmp_path, 2.5 * DAY).look()
        assert files(tmp_path) == {"jnew.out", "jruns.out"}
        assert [(one.id, one.purged, one.result) for one in await store.jobs()] == [
            ("jruns", None, ""),
            ("jnew", None, "given"),
            ("jold", 2.5 * DAY, ""),
        ]

    run(story())


def test_of_too_much_the_oldest_goes_first(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        await fill(store, tmp_path, {str(n): 100.0 - n for n in range(10)}, "x" * 95)
        one = retention(store, tmp_path, 101.0, limit=450)
        await one.look()
        assert files(tmp_path) == {f"j{n}.out" for n in range(4)}
        await fill(store, tmp_path, {"more": 101.0}, "x" * 95)
        one.ended(100)
        await asyncio.sleep(1)
        assert len(files(tmp_path)) == 4, "a tenth of the limit has come in: it is looked at again"

    run(story())


def test_while_much_goes_on_age_is_looked_at_once_an_hour(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        one = retention(store, tmp_path, 2 * DAY)
        one.begin()
        await asyncio.sleep(1)
        await fill(store, tmp_path, {"old": 1.0})
        one.ended(9)
        await asyncio.sleep(1)
        assert files(tmp_path) == {"jold.out"}
        await asyncio.sleep(SELDOM)
        one.ended(9)
        await asyncio.sleep(1)
        assert files(tmp_path) == set()

    run(story())


def test_a_file_that_cannot_be_removed_is_tried_again_and_its_job_says_removed(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        await fill(store, tmp_path, {"a": 1.0, "b": 1.0})
        (tmp_path / "ja.out").unlink()
        (tmp_path / "ja.out").mkdir()
        one = retention(store, tmp_path, 2 * DAY)
        await one.look()
        assert {job.purged for job in await store.jobs()} == {2 * DAY}
        assert files(tmp_path) == {"ja.out"}
        (tmp_path / "ja.out").rmdir()
        await one.look()
        assert await store.purged_jobs() == []

    run(story())


def test_the_model_and_people_are_told_that_it_was_removed_and_when(tmp_path: Path) -> None:
    async def story() -> None:
        store, work = MemoryStore(), Work()
        scripts = [start("talk", lines=3), "ok", "it ended"]
        async with bed(tmp_path, scripts, work, store=store) as b:
            await b.say("talk")
            id_ = job_of(b.model.requests[1], "start_talk")
            await asyncio.sleep(5)
            await b.platform.settled()
            assert (tmp_path / "jobs" / f"{id_}.out").exists()
            assert "line 2" in await b.say(f"/job {id_}")
        config = {"jobs": {"keep_results": 0}}
        scripts = [[call("get_job_result", "c2", job_id=id_)], "I see"]
        async with bed(tmp_path, scripts, work, store=store, config=config) as b:
            await asyncio.sleep(1)
            assert not (tmp_path / "jobs" / f"{id_}.out").exists(), "removed at the start"
            await b.say("read it")
            text = result(b.model.requests[-1], "get_job_result")
            assert text.startswith(f"The output of job {id_} was removed at 20")
            told = await b.say(f"/job {id_}")
            assert f"{id_} talk “3” done: done" in told
            assert f"- The output of job {id_} was removed at 20" in told
            assert f"{id_} talk “3” done" in await b.say("/jobs")

    run(story())


async def test_over_http_it_is_410_and_the_job_says_since_when(tmp_path: Path) -> None:
    """(H) Also where it is only too old and nothing has removed it yet."""
    async with Inside(tmp_path, config={"jobs": {"keep_results": 2}}) as house:
        id_ = await house.job("echo", text="hello")
        facts = await house.until(id_, "done")
        assert facts["output_removed_at"] is None
        assert (await house.client.get(f"/jobs/{id_}/result")).json()["output"] == "hello"
        async with asyncio.timeout(20):
            while (answer := await house.client.get(f"/jobs/{id_}/result")).status_code == 200:
                await asyncio.sleep(0.05)
        assert f"The output of job {id_} was removed at " in problem(answer, 410)["detail"]
        problem(await house.client.get(f"/jobs/{id_}/result?cursor=3"), 410)
        facts = (await house.client.get(f"/jobs/{id_}")).json()
        assert facts["status"] == "done"
        assert facts["output_removed_at"].startswith("20")
        with pytest.raises(ResultGone):
            await house.runtime.jobs.result(id_)


PURGE = """
import asyncio, sys, pathlib
sys.path.insert(0, {tests!r})
from tests.jobs.test_retention import retention
from hermes_core.store.sqlite import SQLiteStore
async def main():
    store = await SQLiteStore.open(pathlib.Path({data!r}))
    one = retention(store, pathlib.Path({folder!r}), 1e6)
    print("begin", flush=True)
    await one.look()
    print("end", flush=True)
    await store.close()
asyncio.run(main())
"""


@pytest.mark.parametrize("moment", [0.0, 0.002, 0.005, 0.01, 0.02, 0.05])
def test_a_removal_that_is_killed_leaves_all_of_it_or_a_job_that_says_so_and_the_next_start_the_rest(
    tmp_path: Path, moment: float
) -> None:
    data, folder = tmp_path / "data", tmp_path / "jobs"

    async def prepare() -> None:
        store = await SQLiteStore.open(data)
        await fill(store, folder, {str(n): float(n) for n in range(1000)})
        await fill(store, folder, {"runs": None})
        await store.close()

    asyncio.run(prepare())
    code = PURGE.format(tests=str(Path(hermes_core.__file__).parents[1]), data=str(data), folder=str(folder))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begin\n"
    try:
        process.wait(moment)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
    process.wait(20)
    process.stdout.close()

    async def look() -> None:
        store = await SQLiteStore.open(data)
        there = files(folder)
        for job in await store.jobs(limit=2000):
            if job.purged is None and job.id != "jruns":
                assert job.result == "given"
                assert f"{job.id}.out" in there, "what is not said to be removed is there"
            elif job.purged is not None:
                assert job.result == ""
        await retention(store, folder, 1e6).look()
        assert files(folder) == {"jruns.out"}
        left = [job.id for job in await store.jobs(limit=2000) if job.purged is None]
        assert left == ["jruns"]
        await store.close()

    asyncio.run(look())
