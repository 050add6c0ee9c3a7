"""Live: a job that has not ended, as the runner holds it; and the board on which its changes are posted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from hermes_core.adapter import Progress
from hermes_core.errors import StoreError
from hermes_core.job import Job, JobState, one_line
from hermes_core.jobs import Told
from hermes_core.jobs.work import Work
from hermes_core.router import Services, Tasks
from hermes_core.tools import AsyncTool

__all__ = ["Board", "Live"]

SHOWN: Final = 1.0  # seconds between two progress lines of one job, at least


class Live:
    """A job that has not ended. `ready` is False while it is only loaded, and a restart has yet to take it up."""

    __slots__ = (
        "deadline", "ended", "ending", "job", "noted", "ready", "stale", "task", "tool", "waits", "why", "work",
    )  # fmt: skip

    def __init__(self, job: Job, tool: AsyncTool | None, *, ready: bool) -> None:
        self.job = job
        self.tool = tool
        self.ready = ready
        self.waits: set[str] = set()  # dependencies that are not done
        self.work: Work | None = None
        self.task: asyncio.Task[None] | None = None
        self.deadline: asyncio.TimerHandle | None = None
        self.noted: asyncio.TimerHandle | None = None  # until then no further progress line
        self.stale = False  # the progress has changed since the last line
        self.why = "stop" if job.stop else ""
        self.ending = False
        self.ended: asyncio.Future[Job] = asyncio.get_running_loop().create_future()

    def unwind(self) -> None:
        """No timer of it fires any more."""
        for timer in (self.deadline, self.noted):
            if timer is not None:
                timer.cancel()


class Board:
    """Tells listeners, plugins and people of every change."""

    def __init__(self, services: Services, tasks: Tasks) -> None:
        self._services = services
        self._tasks = tasks
        self._listeners: list[Told] = []

    def listen(self, told: Told) -> Callable[[], None]:
        """Tell `told` as well, from now on; gives what ends that."""
        self._listeners.append(told)
        return lambda: self._listeners.remove(told)

    def post(self, job: Job) -> None:
        """The state changed."""
        for told in list(self._listeners):
            told(job)
        plugins = self._services.plugins
        if plugins.asks("hermes_job_event"):
            self._tasks.spawn(plugins.each("hermes_job_event", job=job), f"hermes_job_event {job.id}")
        if job.state is not JobState.QUEUED:
            self._show(job)
        if job.state.final:
            ended = self._services.metrics.jobs
            ended[job.state.value] = ended.get(job.state.value, 0) + 1

    def progressed(self, live: Live, fraction: float | None, text: str) -> None:
        """Keep the progress; show and store it now, or with the latest a second after the last time."""
        if live.ending:
            return
        text = self._services.config.secrets.hide(text)
        live.job = replace(live.job, fraction=fraction, progress=text)
        if live.noted is None:
            self._note(live)
        else:
            live.stale = True

    def _note(self, live: Live) -> None:
        live.stale = False
        self._show(live.job)
        with contextlib.suppress(StoreError):  # closed: a function that was abandoned goes on talking
            self._services.store.note_job(live.job.id, live.job.progress, live.job.fraction)
        live.noted = asyncio.get_running_loop().call_later(SHOWN, self._note_later, live)

    def _note_later(self, live: Live) -> None:
        live.noted = None
        if live.stale:
            self._note(live)

    def _show(self, job: Job) -> None:
        """J13: one line that is edited in place."""
        percent = f"{job.fraction:.0%}" if job.fraction is not None and not job.state.final else ""
        said = job.summary if job.state.final else f"{percent} {job.progress}".strip()
        text = one_line(f"{job.tool}: {job.state.value}{f', {said}' if said else ''}")
        self._services.show(job.address, Progress(job.id, text, job.state.final))
