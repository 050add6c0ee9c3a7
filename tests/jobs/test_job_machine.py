"""The life of a job: its table, and that a runner under any sequence of events keeps to it (J2 to J7, J12)."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_core.errors import JobError
from hermes_core.hookspecs import hookimpl
from hermes_core.job import Job, JobRequest, JobState
from hermes_core.jobs.machine import TABLE, Happening, diagram, step
from hermes_core.messages import Author, Said, SaidKind
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.virtual import run
from hermes_core.tools import AsyncTool, async_tool

FINAL = [state for state in JobState if state.final]


@pytest.mark.parametrize("state", FINAL)
@pytest.mark.parametrize("what", list(Happening))
def test_j2_final_states_never_change(state: JobState, what: Happening) -> None:
    assert step(state, what) is state


def test_j2_every_state_can_be_reached_and_every_happening_means_something() -> None:
    assert {JobState.QUEUED, *TABLE.values()} == set(JobState)
    assert {what for _, what in TABLE} == set(Happening)
    assert not any(old.final for old, _ in TABLE)


def test_j12_only_a_running_job_can_be_lost() -> None:
    assert [old for (old, _), new in TABLE.items() if new is JobState.LOST] == [JobState.RUNNING]


def test_the_drawing_has_every_row() -> None:
    assert diagram().count("-->") == len(TABLE) + 1


# ---- the runner, under any sequence of events


class Work:
    """Functions whose behaviour is told in their arguments."""

    def __init__(self) -> None:
        self.begun: dict[str, int] = {}
        self.ended: dict[str, int] = {}

    @hookimpl
    def hermes_async_tools(self) -> Iterable[AsyncTool]:
        @async_tool
        async def once(name: str, seconds: float, end: str) -> str:
            """Work."""
            return await self._work(name, seconds, end)

        @async_tool(idempotent=True)
        async def again(name: str, seconds: float, end: str) -> str:
            """Work, repeatably."""
            return await self._work(name, seconds, end)

        return [once, again]

    async def _work(self, name: str, seconds: float, end: str) -> str:
        self.begun[name] = self.begun.get(name, 0) + 1
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if end != "stubborn":
                raise
        self.ended[name] = self.ended.get(name, 0) + 1
        if end == "fail":
            raise ValueError("as told")
        return "well"


NAMES = st.integers(0, 5)
ACTIONS = st.one_of(
    st.tuples(
        st.just("start"),
        NAMES,
        st.sampled_from(["once", "again"]),
        st.sampled_from([0.0, 5.0, 100.0]),
        st.sampled_from(["well", "fail", "stubborn"]),
        st.sampled_from([None, 20.0]),
        st.lists(NAMES, max_size=2),
    ),
    st.tuples(st.just("stop"), NAMES),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 1.0, 10.0, 60.0])),
    st.tuples(st.just("restart")),
)


class Story:
    """Plays actions against a runtime, and keeps every state that was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = MemoryStore()
        self.work = Work()
        self.told: dict[str, list[JobState]] = {}
        self.jobs: dict[int, Job] = {}
        self.restarts = 0

    def open(self) -> Bed:
        return Bed(
            self.folder,
            [lambda request: ""] * 500,
            plugins=[self.work],
            store=self.store,
            config={"jobs": {"max_running": 2, "deadline": 1000}},
        )

    def listen(self, bed: Bed) -> None:
        bed.runtime.jobs.events(lambda job: self.told.setdefault(job.id, []).append(job.state))

    async def play(self, actions: list[tuple[Any, ...]]) -> None:
        runs = [
            list(part)
            for is_cut, part in itertools.groupby(actions, lambda one: one[0] == "restart")
            if not is_cut
        ]
        for part in runs or [[]]:
            async with self.open() as bed:
                self.listen(bed)
                for action in part:
                    await self.act(bed, *action)
            self.restarts += 1
        async with self.open() as bed:
            self.listen(bed)
            await asyncio.sleep(2000)
            await bed.platform.settled()
            await self.check(bed)

    async def act(self, bed: Bed, what: str, *rest: Any) -> None:
        jobs = bed.runtime.jobs
        match what, rest:
            case "wait", (seconds,):
                await asyncio.sleep(seconds)
            case "stop", (name,):
                if name in self.jobs:
                    await jobs.stop(self.jobs[name].id)
            case "start", (name, tool, seconds, end, deadline, depends):
                needs = tuple(self.jobs[one].id for one in depends if one in self.jobs and one != name)
                request = JobRequest(
                    bed.platform.address(),
                    Author("ann"),
                    tool,
                    {"name": str(name), "seconds": seconds, "end": end},
                    str(name),
                    deadline=deadline,
                    depends_on=needs,
                )
                try:
                    job = await jobs.start(request)
                except JobError:
                    assert name in self.jobs, "only a key that was used for something else is refused"
                else:
                    self.jobs[name] = job

    async def check(self, bed: Bed) -> None:
        jobs = await self.store.jobs()
        assert {job.id for job in jobs} == {job.id for job in self.jobs.values()}
        for job in jobs:
            told, name = self.told[job.id], job.key
            assert job.state.final, "everything ends"
            assert [state for state in told if state.final] in ([job.state], []), "one end, and only one"
            begun, ended = self.work.begun.get(name, 0), self.work.ended.get(name, 0)
            assert begun <= job.runs
            assert begun <= 1 or job.tool == "again"
            if job.state is JobState.DONE:
                assert ended >= 1
            if job.state is JobState.LOST:
                assert job.tool == "once"
            if job.state is JobState.CANCELLED:
                assert job.stop
                assert not ended
        events = [
            word.removeprefix("job_id=")
            for turn in await self.store.history(bed.platform.address())
            for item in turn.items
            if isinstance(item, Said) and item.kind is SaidKind.EVENT
            for word in item.text.split()
            if word.startswith("job_id=")
        ]
        assert sorted(events) == sorted(job.id for job in jobs), "exactly one event for each"
        assert await self.store.open_work() == []


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ACTIONS, max_size=14))
def test_whatever_happens_every_job_ends_once_truly_and_with_one_event(
    actions: list[tuple[Any, ...]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(Story(Path(folder)).play(actions))
