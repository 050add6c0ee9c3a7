"""Process jobs in a whole runtime on the real store: races, stops, graphs, restarts, deadlines (J3 to J6, J12, E5)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from hermes_core.errors import JobError, KeyInUse, ToolError
from hermes_core.hookspecs import hookimpl
from hermes_core.job import Job, JobRequest, JobState, job_id
from hermes_core.jobs.control import ask
from hermes_core.messages import Author
from hermes_core.processes import records, tree
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.bed import Bed
from hermes_core.tools import AsyncTool, JobContext, Program, async_tool
from hermes_jobs.plugin import JobsPlugin

pytestmark = pytest.mark.skipif(not tree.VISIBLE, reason="kept processes are proven with /proc")


class Work:
    """command: a process; nap: a function; again: one that may be repeated."""

    def __init__(self, *, gone: Iterable[str] = ()) -> None:
        self.log: list[str] = []
        self.gone = set(gone)

    @hookimpl
    def hermes_async_tools(self) -> Iterable[AsyncTool]:
        @async_tool
        def command(command: str) -> Program:
            """Run a command."""
            return Program(("/bin/sh", "-c", command))

        @async_tool(idempotent=True)
        def repeatable(command: str) -> Program:
            """Run a command that may be repeated."""
            return Program(("/bin/sh", "-c", command))

        @async_tool(done_codes=(0, 1), summary=lambda code, text: f"{code} after {len(text)} characters")
        def counted(command: str) -> Program:
            """Run a command, and count what it says."""
            return Program(("/bin/sh", "-c", command))

        @async_tool
        def broken(command: str) -> Program:
            """Have no program."""
            raise ValueError("no idea what to run")

        @async_tool
        async def nap(name: str, seconds: float) -> str:
            """Sleep."""
            self.log.append(f"begun {name}")
            await asyncio.sleep(seconds)
            self.log.append(f"ended {name}")
            return name

        return [one for one in (command, repeatable, counted, broken, nap) if one.name not in self.gone]


class House:
    """Runtimes one after the other on one data folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = Work()
        self.bed: Bed

    @asynccontextmanager
    async def open(self, **jobs: Any) -> AsyncIterator[Bed]:
        store = await SQLiteStore.open(self.folder / "data")
        plugins = [self.work, JobsPlugin()]
        config = {"jobs": jobs, "interrupt": {"kill_after": 0.3}}
        self.bed = Bed(
            self.folder / "data", [lambda request: ""] * 99, plugins=plugins, store=store, config=config
        )
        try:
            async with self.bed:
                yield self.bed
        finally:
            await store.close()

    def request(
        self,
        tool: str,
        key: str,
        *,
        depends_on: Iterable[str] = (),
        deadline: float | None = None,
        **more: Any,
    ) -> JobRequest:
        address = self.bed.platform.address()
        return JobRequest(
            address, Author("ann"), tool, more, key, deadline=deadline, depends_on=tuple(depends_on)
        )

    async def start(self, tool: str, key: str = "k", **more: Any) -> Job:
        return await self.bed.runtime.jobs.start(self.request(tool, key, **more))

    async def ended(self, id_: str, seconds: float = 20.0) -> Job:
        limit = time.monotonic() + seconds
        while not (job := await self.bed.runtime.jobs.status(id_)).state.final:
            assert time.monotonic() < limit, "it never ended"
            await asyncio.sleep(0.005)
        return job


def bearing(mark: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and mark in process.cmdline():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def keepers(folder: Path) -> list[int]:
    """Living keepers with their files in `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if "keeper.py" in " ".join(words[:4]) and any(str(folder) in word for word in words):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it never came true"
        await asyncio.sleep(0.005)


@pytest.fixture
def mark(tmp_path: Path) -> str:
    return f"{3000 + os.getpid() % 1000}.{abs(hash(str(tmp_path))) % 10**9:09d}"


@pytest.fixture
async def house(tmp_path: Path, mark: str) -> AsyncIterator[House]:
    yield House(tmp_path)
    await until(lambda: not bearing(mark))


# ---- ends


@pytest.mark.parametrize(
    ("tool", "command", "state", "summary"),
    [
        ("command", "echo a; echo b", JobState.DONE, "exit code 0: b"),
        ("command", "exit 0", JobState.DONE, "exit code 0"),
        ("command", "echo no; exit 4", JobState.FAILED, "exit code 4: no"),
        ("command", "kill -9 $$", JobState.FAILED, "ended by signal 9"),
        ("counted", "printf abc; exit 1", JobState.DONE, "1 after 3 characters"),
        ("counted", "printf abc; exit 2", JobState.FAILED, "2 after 3 characters"),
        ("broken", "", JobState.FAILED, "ValueError: no idea what to run"),
    ],
)
async def test_j2_a_process_ends_as_its_exit_code_says(
    house: House, tool: str, command: str, state: JobState, summary: str
) -> None:
    async with house.open():
        job = await house.ended((await house.start(tool, command=command)).id)
        assert (job.state, job.summary) == (state, summary)


async def test_j10_output_can_be_read_before_and_after_the_end_and_after_a_restart(
    house: House, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    async with house.open():
        jobs = house.bed.runtime.jobs
        id_ = (
            await house.start(
                "command", command=f"echo one; while [ ! -e {go} ]; do sleep 0.02; done; echo two"
            )
        ).id
        text = ""
        while not text:
            text = (await jobs.result(id_)).text
            await asyncio.sleep(0.005)
        assert text == "one\n"
        go.touch()
        await house.ended(id_)
        assert (await jobs.result(id_)).text == "one\ntwo\n"
    async with house.open():
        assert (await house.bed.runtime.jobs.result(id_, "4")).text == "two\n"


# ---- keys


async def test_j3_of_fifty_racing_starts_there_is_one_job(house: House, tmp_path: Path) -> None:
    async with house.open():
        script = f"echo x >> {tmp_path}/ran"
        jobs = await asyncio.gather(*(house.start("command", command=script) for _ in range(50)))
        assert len({job.id for job in jobs}) == 1
        await house.ended(jobs[0].id)
        with pytest.raises(KeyInUse):
            await house.start("command", command="something else")
    async with house.open():
        again = await house.start("command", command=script)
        assert again.state is JobState.DONE
    assert (tmp_path / "ran").read_text() == "x\n"


async def test_j3_a_caller_that_is_cancelled_leaves_a_job_that_is_begun_or_none(house: House) -> None:
    async with house.open():
        starting = asyncio.create_task(house.start("nap", name="a", seconds=0.0))
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait({starting})
        job = await house.start("nap", name="a", seconds=0.0)
        assert (await house.ended(job.id)).state is JobState.DONE
        assert house.work.log == ["begun a", "ended a"]


# ---- dependencies


async def test_j4_a_graph_of_a_hundred_jobs_ends_in_a_valid_order(house: House) -> None:
    chance = random.Random(4)
    needs = {n: sorted(chance.sample(range(n), min(n, chance.randrange(4)))) for n in range(100)}
    async with house.open(max_running=7):
        ids: dict[int, str] = {}
        for n, before in needs.items():
            job = await house.start(
                "nap",
                str(n),
                name=str(n),
                seconds=chance.random() / 200,
                depends_on=[ids[one] for one in before],
            )
            ids[n] = job.id
        for id_ in ids.values():
            assert (await house.ended(id_)).state is JobState.DONE
    place = {word: index for index, word in enumerate(house.work.log)}
    assert len(place) == 200
    for n, before in needs.items():
        for one in before:
            assert place[f"ended {one}"] < place[f"begun {n}"]


async def test_j4_a_failure_goes_through_the_graph_and_each_names_its_cause(house: House) -> None:
    async with house.open():
        first = await house.start("command", "a", command="sleep 0.2; exit 1")
        second = await house.start("nap", "b", name="b", seconds=0.0, depends_on=[first.id])
        third = await house.start("nap", "c", name="c", seconds=0.0, depends_on=[second.id])
        assert (
            await house.ended(third.id)
        ).summary == f"It depends on job {second.id}, which ended as failed."
        late = await house.start("nap", "d", name="d", seconds=0.0, depends_on=[first.id])
        assert (await house.ended(late.id)).summary == f"It depends on job {first.id}, which ended as failed."
        assert house.work.log == []


# ---- stops


async def test_j5_a_stop_ends_the_process_with_its_tree(house: House, mark: str) -> None:
    async with house.open():
        script = f"trap '' TERM; setsid sleep {mark} & sleep {mark}"
        job = await house.start("command", command=script)
        await until(lambda: len(bearing(mark)) == 2)
        stopped = await house.bed.runtime.jobs.stop(job.id, 5.0)
        assert (stopped.state, stopped.summary) == (JobState.CANCELLED, "It was stopped on request.")
        assert bearing(mark) == []


async def test_j5_case_30_a_job_that_ends_while_it_is_being_stopped_tells_the_truth(
    house: House, tmp_path: Path
) -> None:
    """Whichever came first: what is told agrees with what the process itself has written."""
    told = set()
    async with house.open():
        for number in range(24):
            path = tmp_path / f"done-{number}"
            job = await house.start("command", str(number), command=f"sleep 0.05; echo yes > {path}")
            await asyncio.sleep(0.055 + 0.0025 * number)
            ended = await house.bed.runtime.jobs.stop(job.id, 5.0)
            assert ended.state in (JobState.DONE, JobState.CANCELLED)
            if ended.state is JobState.DONE:
                assert path.exists(), "it says done: then it had finished"
            told.add(ended.state)
            assert await house.bed.runtime.jobs.status(job.id) == ended
    assert told, "each was either of them"


async def test_a_stop_from_another_process_needs_no_polling(house: House, mark: str, tmp_path: Path) -> None:
    async with house.open():
        job = await house.start("command", command=f"sleep {mark}")
        await until(lambda: bearing(mark))
        assert ask(tmp_path / "data" / "jobs", job.id)
        assert (await house.ended(job.id)).state is JobState.CANCELLED
        assert ask(tmp_path / "data" / "jobs", "junknown"), "it is told, and does nothing"
        assert ask(tmp_path / "data" / "jobs", "x" * 200 + "; rm")
    assert not ask(tmp_path / "data" / "jobs", job.id), "nobody is there"


# ---- restarts


async def test_j12_a_process_goes_on_while_the_program_is_down_and_its_true_end_is_told(
    house: House, tmp_path: Path, mark: str
) -> None:
    async with house.open():
        lives = await house.start("command", "a", command=f"sleep {mark}")
        ends = await house.start(
            "command", "b", command=f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; exit 6"
        )
        await until(lambda: bearing(mark))
        await until(lambda: len(list((tmp_path / "data/jobs").glob("*.process"))) == 2)
    (tmp_path / "go").touch()
    record = tmp_path / "data/jobs" / f"{ends.id}-1.process"
    await until(lambda: "end" in records.read(record))
    assert bearing(mark), "it is nobody's business that the program is down"
    async with house.open():
        assert (await house.ended(ends.id)).summary == "exit code 6"
        assert (await house.bed.runtime.jobs.status(lives.id)).state is JobState.RUNNING
        await house.bed.platform.settled()
        assert any(f"job_failed job_id={ends.id}" in text for text in house.bed.model.texts())
        assert (await house.bed.runtime.jobs.stop(lives.id, 5.0)).state is JobState.CANCELLED


async def test_j6_deadlines_that_pass_during_downtime_are_honoured(
    house: House, mark: str, tmp_path: Path
) -> None:
    async with house.open(max_running=2):
        running = await house.start("command", "a", command=f"sleep {mark}", deadline=1.0)
        function = await house.start("nap", "b", name="b", seconds=60.0, deadline=1.0)
        queued = await house.start("nap", "c", name="c", seconds=0.0, deadline=1.0)
        fine = await house.start("nap", "d", name="d", seconds=0.0, deadline=60.0)
        await until(lambda: bearing(mark))
    await until(lambda: not bearing(mark))  # the keeper ends it, though nobody is there
    until_all = max(running.deadline, queued.deadline)
    await until(lambda: time.time() > until_all)
    async with house.open(max_running=2):
        states = {one.key: (await house.ended(one.id)).state for one in (running, function, queued, fine)}
        assert states == {
            "a": JobState.TIMED_OUT,
            "b": JobState.LOST,
            "c": JobState.TIMED_OUT,
            "d": JobState.DONE,
        }
        assert house.work.log == ["begun b", "begun d", "ended d"]


@pytest.mark.parametrize(
    ("tool", "state", "runs"), [("command", JobState.LOST, 1), ("repeatable", JobState.DONE, 2)]
)
async def test_j12_where_even_the_keeper_was_killed_it_is_lost_or_repeated(
    house: House, tool: str, state: JobState, runs: int, mark: str, tmp_path: Path
) -> None:
    async with house.open():
        script = f"echo x >> {tmp_path}/ran; [ -e {tmp_path}/go ] || sleep {mark}"
        job = await house.start(tool, command=script)
        await until(lambda: bearing(mark))
    (tmp_path / "go").touch()
    os.kill(
        records.process(records.read(tmp_path / "data/jobs" / f"{job.id}-1.process")["shim"])[0],
        signal.SIGKILL,
    )
    async with house.open():
        ended = await house.ended(job.id)
        assert (ended.state, ended.runs) == (state, runs)
        assert (tmp_path / "ran").read_text() == "x\n" * runs
        await house.bed.platform.settled()
        assert sum(f"job_id={job.id}" in text for text in house.bed.model.texts()) == 1


async def test_a_wish_to_stop_survives_a_crash(house: House, mark: str) -> None:
    """(J5) The request is stored; the next run carries it out, also where its tool is gone."""
    async with house.open():
        job = await house.start("command", command=f"sleep {mark}")
        await until(lambda: bearing(mark))
    store = await SQLiteStore.open(house.folder / "data")
    await store.stop_job(job.id)
    await store.close()
    house.work = Work(gone=["command"])
    async with house.open():
        assert (await house.ended(job.id)).state is JobState.CANCELLED


async def test_a_process_whose_tool_is_gone_is_watched_to_its_end_and_a_queued_job_fails(
    house: House, tmp_path: Path
) -> None:
    async with house.open(max_running=1):
        first = await house.start(
            "command", "a", command=f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done"
        )
        second = await house.start("command", "b", command="true")
        await until(lambda: list((tmp_path / "data/jobs").glob("*.process")))
    house.work = Work(gone=["command"])
    async with house.open():
        assert (await house.ended(second.id)).summary == "The tool start_command is no longer there."
        (tmp_path / "go").touch()
        assert (await house.ended(first.id)).state is JobState.DONE


async def test_a_process_that_had_not_claimed_its_record_and_has_no_tool_any_more_never_begins(
    house: House, tmp_path: Path
) -> None:
    """(J12) A restart within the first milliseconds: whoever comes late starts nothing, and that is told."""
    async with house.open():
        job = await house.start("command", command=f"echo x >> {tmp_path}/ran")
        while (await house.bed.runtime.jobs.status(job.id)).state is JobState.QUEUED:
            await asyncio.sleep(0)
    house.work = Work(gone=["command"])
    async with house.open():
        ended = await house.ended(job.id)
        assert ended.state in (JobState.LOST, JobState.DONE)
        if ended.state is JobState.LOST:
            await until(lambda: not keepers(tmp_path))
        assert (tmp_path / "ran").exists() == (ended.state is JobState.DONE)


# ---- functions with programs of their own


class Helper:
    """A function that runs a program."""

    @hookimpl
    def hermes_async_tools(self) -> Iterable[AsyncTool]:
        @async_tool
        async def wrapped(context: JobContext, command: str) -> str:
            """Run a program inside of a function."""
            ended = await context.run(Program(("/bin/sh", "-c", command)))
            return f"code {ended.code}: {ended.output}"

        return [wrapped]


async def test_a_program_of_a_function_ends_with_its_job(house: House, mark: str) -> None:
    house.work = Helper()  # type: ignore[assignment]
    async with house.open():
        good = await house.start("wrapped", "a", command="echo hi; exit 2")
        assert (await house.ended(good.id)).summary == "code 2: hi"
        endless = await house.start("wrapped", "b", command=f"trap '' TERM; sleep {mark} & wait")
        await until(lambda: bearing(mark))
        assert (await house.bed.runtime.jobs.stop(endless.id, 5.0)).state is JobState.CANCELLED
        assert not bearing(mark)
        failing = await house.start("wrapped", "c", command=f"sleep {mark}")
        await until(lambda: bearing(mark))
    assert not bearing(mark), "it cannot outlive the program"
    store = await SQLiteStore.open(house.folder / "data")
    lost = await store.job(failing.id)
    assert lost is not None
    assert lost.state is JobState.LOST
    await store.close()


async def test_arguments_are_checked_also_where_no_model_sent_them(house: House) -> None:
    async with house.open():
        for wrong in ({}, {"command": 1}, {"command": "true", "more": 1}):
            with pytest.raises(ToolError):
                await house.start("command", **wrong)
        with pytest.raises(JobError, match="no async tool"):
            await house.start("nothing")
        with pytest.raises(JobError, match="key is missing"):
            await house.start("command", " ", command="true")
        itself = job_id(house.bed.platform.address(), "k")
        with pytest.raises(JobError, match="depend on itself"):
            await house.start("command", depends_on=[itself], command="true")
        assert await house.bed.store.jobs() == []
