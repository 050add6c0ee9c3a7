"""Runner: the engine inside the runtime, on its store. See the head of this package."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from hermes_core import processes
from hermes_core.errors import JobError, NoSuchJob, StoreError, StoreUnwritable
from hermes_core.job import Job, JobEnd, JobRequest, JobState, Page, event, job_id
from hermes_core.jobs import Told
from hermes_core.jobs.accept import checked, made, same
from hermes_core.jobs.live import Board, Live
from hermes_core.jobs.machine import Happening, step
from hermes_core.jobs.output import page
from hermes_core.jobs.places import Places
from hermes_core.jobs.retention import Retention, size
from hermes_core.jobs.work import FunctionWork, Outcome, ProcessWork
from hermes_core.messages import Address, Entry
from hermes_core.router import Services, Tasks
from hermes_core.tools import AsyncTool, Scope
from hermes_core.trace import Trace, enter

__all__ = ["EmbeddedJobs"]

log = logging.getLogger("hermes.jobs")

CLOSING: Final = 1.3  # seconds that functions have to end when the runtime does, and to be abandoned
HOOKS: Final = 0.4  # seconds for what else is under way then


class EmbeddedJobs:
    """`Jobs` inside one runtime. `deliver` takes an event that is committed, for its conversation."""

    def __init__(
        self,
        services: Services,
        tools: Mapping[str, AsyncTool],
        folder: Path,
        deliver: Callable[[Entry], None],
    ) -> None:
        self._services = services
        self._settings = services.config.jobs
        self._tools = tools
        self._places = Places(folder)
        self._deliver = deliver
        self._tasks = Tasks()
        self._live: dict[str, Live] = {}
        self._dependents: dict[str, set[str]] = {}
        self._queue: deque[Live] = deque()
        self._running = 0
        self._accepting: set[asyncio.Task[Job]] = set()
        self._board = Board(services, self._tasks)
        keep, limit = self._settings.keep_results, self._settings.keep_bytes
        self._retention = Retention(
            services.store, services.wall, self._places.output, keep, limit, self._tasks.spawn
        )
        self._closing = False

    # -- the interface

    async def start(self, request: JobRequest) -> Job:
        """See `Jobs`. A cancellation of the caller does not take the start back: it is under way."""
        tool = self._tools.get(request.tool)
        if tool is None:
            raise JobError(f"There is no async tool {request.tool!r}.")
        if self._closing:
            raise JobError("The program is stopping: nothing new is started.")
        request = checked(request, tool)
        live = self._live.get(job_id(request.address, request.key))
        if live is not None:
            return same(live.job, request)
        job = made(request, tool, self._services.wall(), self._settings.deadline)
        # In a task of its own: who is cancelled while the write is on its way must not leave a job behind
        # that is stored and never begun.
        accepting = asyncio.ensure_future(self._accept(job, request))
        self._accepting.add(accepting)
        accepting.add_done_callback(self._accepted)
        return await asyncio.shield(accepting)

    def _accepted(self, accepting: asyncio.Task[Job]) -> None:
        self._accepting.discard(accepting)
        if not accepting.cancelled():
            accepting.exception()  # looked at: it goes to who started the job, if that one is still there

    async def _accept(self, job: Job, request: JobRequest) -> Job:
        added = await self._services.store.add_job(job)
        if added.unknown:
            raise JobError(f"There is no job {added.unknown[0]!r} to depend on.")
        if not added.fresh:
            live = self._live.get(job.id)
            return same(live.job if live is not None else added.job, request)
        live = self._take_in(added.job)
        self._board.post(live.job)
        await self._order(live)
        return live.job

    async def status(self, id: str) -> Job:
        """See `Jobs`. What has not ended is answered from memory, so an end is never seen before its event."""
        live = self._live.get(id)
        if live is not None:
            return live.job
        job = await self._services.store.job(id)
        if job is None:
            raise NoSuchJob(f"There is no job {id[:40]!r}.")
        return job

    async def stop(self, id: str, patience: float = 0.0) -> Job:
        """See `Jobs`."""
        live = self._live.get(id)
        if live is None:
            return await self.status(id)
        if not live.job.stop:
            live.job = replace(live.job, stop=True)
            with contextlib.suppress(StoreUnwritable):  # the wish is stored for the case of a crash only
                await self._services.store.stop_job(id)
        self._bring_down(live, "stop")
        if patience > 0 and not live.ended.done():
            await asyncio.wait({live.ended}, timeout=patience)
        return live.ended.result() if live.ended.done() else live.job

    async def result(self, id: str, cursor: str = "", chars: int | None = None) -> Page:
        """See `Jobs`."""
        job = await self.status(id)
        if job.purged is None and self._retention.due(job):
            await self._retention.look()
            job = await self.status(id)
        kept = job.process and job.state is JobState.DONE
        read = page(job, self._places.output(id), cursor, chars or self._settings.page_chars, kept=kept)
        return replace(read, text=self._services.config.secrets.hide(read.text))

    def events(self, told: Told) -> Callable[[], None]:
        """See `Jobs`."""
        return self._board.listen(told)

    def counts(self) -> dict[str, int]:
        """How many have not ended, by state."""
        states = [live.job.state.value for live in self._live.values()]
        return {state: states.count(state) for state in (JobState.QUEUED.value, JobState.RUNNING.value)}

    async def recent(self, address: Address, limit: int = 20) -> list[Job]:
        """See `Jobs`."""
        stored = await self._services.store.jobs(address, limit=limit)
        known = {job.id: job for job in stored}
        known.update(
            {id_: one.job for id_, one in self._live.items() if one.job.address == address or id_ in known}
        )
        return sorted(known.values(), key=lambda job: job.created, reverse=True)

    # -- start and end of the runtime

    async def load(self) -> None:
        """Read what a former run left; from here on it can be looked at, and nothing of it runs yet."""
        for job in await self._services.store.open_jobs():
            self._take_in(job, ready=False)
        self._places.forget_others(self._live)

    async def restore(self) -> None:
        """Take up what was loaded: end what has ended, watch what lives, begin what waits (J12)."""
        for live in list(self._live.values()):
            if not live.ready:
                await self._restore(live)
        self._retention.begin()

    async def _restore(self, live: Live) -> None:
        job, live.ready = live.job, True
        late = self._services.wall() >= job.deadline
        self._time(live)
        if live.tool is None and job.state is JobState.QUEUED:
            self._conclude(live, Outcome(Happening.FAILED, f"The tool start_{job.tool} is no longer there."))
            return
        if job.state is JobState.QUEUED:
            if late or live.why:
                self._bring_down(live, live.why or "deadline")
            else:
                await self._order(live)
            return
        record = self._places.record(job)
        found = self._places.attach(job) if job.process else None
        if isinstance(found, processes.Kept) or (isinstance(found, processes.KeptEnd) and found.known):
            live.work = ProcessWork(
                job, live.tool, record, self._places.output(job.id), self._kill_after, found
            )
            self._begin(live)
            if late and isinstance(found, processes.Kept):
                self._bring_down(live, "deadline")
            return
        never = job.process and found is None
        if live.tool is None or not (live.tool.idempotent or never):
            gone = f", and its tool start_{job.tool} is no longer there" if live.tool is None else ""
            self._conclude(live, Outcome(Happening.DIED, f"The program was restarted while it ran{gone}."))
        elif (live.why or late) and not _elsewhere(live):
            what = Happening.STOPPED if live.why else Happening.EXPIRED
            self._conclude(live, Outcome(what, "It was not begun again after a restart."))
        else:
            log.warning("job %s is begun again after a restart", job.id)
            live.why = live.why or ("deadline" if late else "")
            self._queue.append(live)
            self._pump()

    async def close(self) -> None:
        """Let processes run on; end functions, of which the repeatable ones stay for the next start (J12)."""
        self._closing = True
        for live in self._live.values():
            live.unwind()
            if live.work is not None:
                live.work.let_go()
        functions = {
            live.task
            for live in self._live.values()
            if live.task is not None and isinstance(live.work, FunctionWork)
        }
        if functions:
            await asyncio.wait(functions, timeout=CLOSING)
        await self._tasks.close(HOOKS)

    # -- order

    def _take_in(self, job: Job, *, ready: bool = True) -> Live:
        live = self._live[job.id] = Live(job, self._tools.get(job.tool), ready=ready)
        if ready:
            self._time(live)
        return live

    def _time(self, live: Live) -> None:
        wait = max(0.0, live.job.deadline - self._services.wall())
        live.deadline = asyncio.get_running_loop().call_later(wait, self._bring_down, live, "deadline")

    async def _order(self, live: Live) -> None:
        """Begin it when all that it depends on is done (J4)."""
        states: dict[str, str] = {}
        while missing := [id_ for id_ in live.job.depends_on if id_ not in self._live and id_ not in states]:
            for id_ in missing:
                other = await self._services.store.job(id_)
                states[id_] = other.state.value if other is not None else "unknown"
        # From here on nothing is awaited: of what has not ended now, the end will be told to us.
        if live.ending or live.task is not None:
            return
        for id_ in live.job.depends_on:
            if id_ in self._live:
                live.waits.add(id_)
                self._dependents.setdefault(id_, set()).add(live.job.id)
            elif states[id_] != JobState.DONE:
                self._unmet(live, id_, states[id_])
                return
        if not live.waits:
            self._queue.append(live)
            self._pump()

    def _unmet(self, live: Live, id_: str, state: str) -> None:
        self._conclude(live, Outcome(Happening.UNMET, f"It depends on job {id_}, which ended as {state}."))

    def _pump(self) -> None:
        while self._queue and self._running < self._settings.max_running and not self._closing:
            live = self._queue.popleft()
            if not live.ending:
                self._begin(live)

    def _begin(self, live: Live) -> None:
        self._running += 1
        live.task = self._tasks.spawn(self._conduct(live), f"job {live.job.id}")

    async def _conduct(self, live: Live) -> None:
        """One job from its beginning to its end."""
        enter(Trace(live.job.address, job=live.job.id))
        try:
            if live.work is None:
                await self._claim(live)
            if live.work is None:
                return  # it was ended before it began
            outcome = await live.work.run()
            if self._closing and outcome.what is not Happening.FINISHED:
                if isinstance(live.work, FunctionWork) and not (live.tool and live.tool.idempotent):
                    await self._end(live, outcome)
                return
            await self._end(live, outcome)
        finally:
            self._running -= 1
            self._pump()

    async def _claim(self, live: Live) -> None:
        """Note durably that it runs, and only then make its work (J12)."""
        services, runs, elsewhere = self._services, live.job.runs + 1, _elsewhere(live)
        job = replace(live.job, state=JobState.RUNNING, started=services.wall(), runs=runs)
        await services.durably(lambda: services.store.run_job(job.id, job.started or 0.0, runs), _ignore)
        live.job = replace(job, stop=live.job.stop)
        self._board.post(live.job)
        if live.why and not elsewhere:
            await self._end(live, _never_begun(live.why))
            return
        assert live.tool is not None
        if live.tool.process:
            record = self._places.record(job)
            live.work = ProcessWork(
                live.job,
                live.tool,
                record,
                self._places.output(job.id),
                self._kill_after,
                secrets=services.config.secrets.forms,
            )
        else:
            live.work = FunctionWork(
                live.job,
                live.tool,
                self._places.output(job.id),
                lambda: Scope(services.folder),
                lambda fraction, text: self._board.progressed(live, fraction, text),
                services.config.secrets.forms,
            )
            live.work.why = live.why

    def _bring_down(self, live: Live, why: str) -> None:
        """Its end is wanted, for the first reason that came."""
        live.why = live.why or why
        if live.ending or self._closing or not live.ready:
            return
        if live.work is not None:
            live.work.stop(live.why)
        elif live.task is None and not _elsewhere(live):
            self._conclude(live, _never_begun(live.why))

    # -- ends

    def _conclude(self, live: Live, outcome: Outcome) -> None:
        """End one that no task conducts."""
        if not live.ending:
            live.ending = True
            self._tasks.spawn(self._end(live, outcome), f"end {live.job.id}")

    async def _end(self, live: Live, outcome: Outcome) -> None:
        """Final state and event in one transaction; then everybody is told, in one go."""
        live.ending = True
        services, job = self._services, live.job
        hide = services.config.secrets.hide
        summary, result = hide(outcome.summary), hide(outcome.result)
        bytes_ = size(self._places.output(job.id), result)
        state = step(job.state, outcome.what)
        end = JobEnd(state, services.wall(), summary, result, outcome.cut, bytes_)
        job = replace(job, state=end.state, ended=end.at, summary=end.summary, result=end.result, cut=end.cut)
        entry = event(job) if job.notify else None
        ended = await services.durably(lambda: services.store.end_job(job.id, end, entry), _ignore)
        del self._live[job.id]
        live.job = ended.job
        live.unwind()
        live.ended.set_result(ended.job)
        self._board.post(live.job)
        if ended.entry is not None and not self._closing:
            self._deliver(ended.entry)
        self._places.tidy(ended.job)
        self._retention.ended(bytes_)
        for id_ in self._dependents.pop(job.id, set()):
            self._released(id_, ended.job)

    def _released(self, id_: str, by: Job) -> None:
        live = self._live.get(id_)
        if live is None or live.ending:
            return
        if by.state is not JobState.DONE:
            self._unmet(live, by.id, by.state.value)
            return
        live.waits.discard(by.id)
        if not live.waits and live.task is None and live not in self._queue:
            self._queue.append(live)
            self._pump()

    @property
    def _kill_after(self) -> float:
        return self._services.config.interrupt.kill_after


def _elsewhere(live: Live) -> bool:
    """Whether it may be under way on another server, so that its end must be asked for there."""
    return live.tool is not None and live.tool.remote and live.job.runs > 0


def _never_begun(why: str) -> Outcome:
    if why == "stop":
        return Outcome(Happening.STOPPED, "It was stopped before it began.")
    return Outcome(Happening.EXPIRED, "Its deadline passed before it began.")


def _ignore(error: StoreError) -> None:
    """The log has it; nobody waits in a chat for this very write."""
