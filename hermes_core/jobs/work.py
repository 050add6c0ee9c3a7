"""Work: one job under way, as a function in the event loop or as a kept process."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from hermes_core.errors import HermesError, ToolError, told
from hermes_core.job import ABANDONED, Job, one_line
from hermes_core.jobs.machine import Happening
from hermes_core.jobs.output import tail
from hermes_core.processes import Exit, Kept, KeptEnd, Program, keep
from hermes_core.processes.spool import Spool
from hermes_core.tools import AsyncTool, Scope
from hermes_core.tools.scope import plain, render
from hermes_core.veil import ByteVeil

__all__ = ["FunctionWork", "Outcome", "ProcessWork", "Work"]

log = logging.getLogger("hermes.jobs")

RESULT_LIMIT: Final = 256 * 1024  # characters of what a function gives back
OUTPUT_LIMIT: Final = 1024 * 1024  # bytes of what it puts out meanwhile
ROUNDS: Final = 3  # cancellations that a function may swallow before it is abandoned (I3)
ROUND: Final = 0.2  # seconds for each
KILL_AFTER: Final = 1.0  # seconds between SIGTERM and SIGKILL for the programs of a function
KILL_AT_CLOSE: Final = 0.3  # the same when the runtime ends
TAIL: Final = 16 * 1024  # bytes of a process's output that its summary is made from
WANTED: Final = {
    "stop": "It was asked to stop.",
    "deadline": "Its deadline passed.",
    "close": "The program ended while it ran.",
}


class Outcome(msgspec.Struct, frozen=True):
    """How work ended."""

    what: Happening
    summary: str = ""
    result: str = ""
    cut: int = 0


class Work(Protocol):
    """What the runner holds of a running job. `why` is "stop" or "deadline" once its end is wanted."""

    why: str

    async def run(self) -> Outcome:
        """Do it, once. Cancelled only when the runtime lets go."""

    def stop(self, why: str) -> None:
        """Ask for its end; `run` gives it. Does not wait."""

    def let_go(self) -> None:
        """The runtime ends: a process goes on, a function is cancelled."""


class FunctionWork:
    """A coroutine function, and the `JobContext` that it may take.

    One that swallows three cancellations is abandoned as a tool is (I3): its job ends as what was asked of
    it, and says so; whatever it does, writes or gives afterwards changes nothing any more (J2).
    """

    def __init__(
        self,
        job: Job,
        tool: AsyncTool,
        output: Path,
        scope: Callable[[], Scope],
        progressed: Callable[[float | None, str], None],
        secrets: Iterable[str] = (),
    ) -> None:
        self.job = job
        self.why = ""
        self._tool = tool
        self._path = output
        self._spool: Spool | None = None
        self._veil = ByteVeil(secrets)
        self._open_scope = scope
        self._scope: Scope | None = None
        self._progressed = progressed
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._left = asyncio.get_running_loop().create_future()  # done: it is abandoned
        self._ended = False
        self._closing = False

    # -- as the function's context

    def progress(self, now: float | str, text: str = "") -> None:
        """How far it is."""
        if self._ended:
            return
        if isinstance(now, str):
            self._progressed(None, one_line(now))
        else:
            self._progressed(min(1.0, max(0.0, float(now))), one_line(text))

    def output(self, text: str) -> None:
        """Partial output."""
        if self._ended:
            return
        if self._spool is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._spool = Spool(str(self._path), OUTPUT_LIMIT)
        self._spool.add(self._veil.feed(text.encode("utf-8", "replace")))

    async def run_program(self, program: Program) -> Exit:
        """Run a program that ends with this job."""
        if self._ended:
            raise ToolError("Not started: the job has ended.")
        if self._scope is None:
            self._scope = self._open_scope()
        return await self._scope.run(program, self._tool.name)

    # -- as work

    async def run(self) -> Outcome:
        """Run the function in a task of its own, so that what it does with a cancellation is its own affair."""
        self._task = asyncio.create_task(self._call(), name=f"job {self.job.id}")
        if self.why:
            if self._tool.remote:
                await asyncio.sleep(0)  # it must have begun, to hand the stop on
            self._press(ROUNDS)
        try:
            await asyncio.wait({self._task, self._left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self._timer is not None:
                self._timer.cancel()
        if self._scope is not None:
            await self._scope.stop(KILL_AT_CLOSE if self._closing else KILL_AFTER)
        self._ended = True
        cut = 0
        if self._spool is not None:
            self._spool.add(self._veil.rest())
            self._spool.close()
            cut = self._spool.cut
        return msgspec.structs.replace(self._outcome(self._task), cut=cut)

    async def _call(self) -> Any:
        arguments = self._tool.check(self.job.arguments)
        if self._tool.context is not None:
            arguments[self._tool.context] = _Context(self)
        try:
            return await self._tool.function(**arguments)
        except SystemExit:
            raise ToolError("The tool tried to end the program.") from None

    def _outcome(self, task: asyncio.Task[Any]) -> Outcome:
        if self._left.done():
            end = stopped(self.why)
            assert end is not None, "nothing is abandoned that was not to end"
            return Outcome(end.what, f"{WANTED[self.why]} {ABANDONED}")
        if task.cancelled():
            return stopped(self.why) or Outcome(Happening.FAILED, "It cancelled itself.")
        error = task.exception()
        if error is None:
            try:
                text = render(self._tool.name, task.result()) if task.result() is not None else ""
            except ToolError as fault:
                return Outcome(Happening.FAILED, one_line(str(fault)))
            text = text.encode("utf-8", "replace").decode()
            if len(text) > RESULT_LIMIT:
                text = f"{text[:RESULT_LIMIT]}\n[… {len(text) - RESULT_LIMIT} characters left out …]"
            return Outcome(Happening.FINISHED, one_line(text.strip().partition("\n")[0]) or "done", text)
        said = told(error) if isinstance(error, HermesError) else _said(error)
        return Outcome(Happening.FAILED, one_line(said))

    def stop(self, why: str) -> None:
        """Cancel it, three times if need be; the first reason stands."""
        if not self.why:
            self.why = why
            if self._task is not None:
                self._press(ROUNDS)

    def _press(self, rounds: int) -> None:
        if self._task is None or self._task.done():
            return
        if not rounds:
            if not self._tool.remote or self._closing:  # a remote one waits for the true end elsewhere
                self._abandon(self._task)
            return
        if self._scope is not None:
            self._scope.terminate()
        self._task.cancel("close" if self._closing else self.why)
        self._timer = asyncio.get_running_loop().call_later(ROUND, self._press, rounds - 1)

    def _abandon(self, task: asyncio.Task[Any]) -> None:
        if not self._left.done():
            name = f"job {self.job.id} (start_{self._tool.name})"
            log.error("%s does not let itself be ended and is abandoned; its result is discarded", name)
            task.add_done_callback(_look)
            self._left.set_result(None)

    def let_go(self) -> None:
        """A function cannot outlive the runtime; one that is being stopped already hears of that too."""
        self._closing = True
        self.why = self.why or "close"
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._press(ROUNDS)


def _look(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # looked at, so that an abandoned one does not complain when it is collected


class _Context:
    """`JobContext` for a function."""

    __slots__ = ("job", "output", "progress", "run")

    def __init__(self, work: FunctionWork) -> None:
        self.job = work.job
        self.progress = work.progress
        self.output = work.output
        self.run = work.run_program


class ProcessWork:
    """A kept process: started here, or taken up again as `kept`; the latter also if its tool is no longer there."""

    def __init__(
        self,
        job: Job,
        tool: AsyncTool | None,
        record: Path,
        output: Path,
        kill_after: float,
        kept: Kept | KeptEnd | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        self.why = "stop" if job.stop else ""
        self._job = job
        self._tool = tool
        self._record = record
        self._output = output
        self._kill_after = kill_after
        self._kept = kept
        self._secrets = secrets

    async def run(self) -> Outcome:
        """Start it where it does not run yet, and wait for its end."""
        kept = self._kept
        if kept is None:
            try:
                kept = self._kept = await self._start()
            except HermesError as error:
                return Outcome(Happening.FAILED, one_line(told(error)))
            except Exception as error:  # noqa: BLE001 - the edge of a plugin call: its fault stays its own (P2)
                return Outcome(Happening.FAILED, one_line(_said(error)))
        if isinstance(kept, Kept):
            if self.why:
                kept.stop(self._kill_after)
            return self._outcome(await kept.wait())
        return self._outcome(kept)

    async def _start(self) -> Kept:
        assert self._tool is not None, "only what runs already is conducted without its tool"
        arguments = self._tool.check(self._job.arguments)
        program = self._tool.function(**arguments)
        if inspect.isawaitable(program):
            program = await program
        if not isinstance(program, Program):
            raise ToolError(f"{self._tool.name} gave back no program.")
        return keep(
            program,
            self._record,
            self._output,
            kill_after=self._kill_after,
            deadline=self._job.deadline,
            label=f"job {self._job.id} {self._job.tool}",
            secrets=self._secrets,
        )

    def _outcome(self, end: KeptEnd) -> Outcome:
        if end.failed:
            return Outcome(Happening.FAILED, f"The command cannot be started: {os.strerror(end.failed)}.")
        if end.stopped == "deadline":
            return stopped("deadline", end.cut) or Outcome(Happening.EXPIRED)
        ours = stopped(self.why, end.cut)
        if end.stopped and ours is not None:
            return ours
        if not end.begun:
            return ours or Outcome(Happening.FAILED, "It was ended before it began.")
        if not end.known:
            return Outcome(Happening.DIED, "The process that watched over it was killed; its end is unknown.")
        if end.stopped:
            return Outcome(Happening.FAILED, "It was ended from outside.", cut=end.cut)
        good = end.code in (self._tool.done_codes if self._tool is not None else {0})
        summary = self._summary(end)
        return Outcome(Happening.FINISHED if good else Happening.FAILED, summary, cut=end.cut)

    def _summary(self, end: KeptEnd) -> str:
        text = tail(self._output, TAIL)
        if self._tool is not None and self._tool.summary is not None:
            try:
                return one_line(self._tool.summary(end.code, text))
            except Exception as error:  # noqa: BLE001 - the edge of a plugin call: its fault stays its own (P2)
                return one_line(f"exit code {end.code} (no summary: {_said(error)})")
        how = f"ended by signal {end.signal}" if end.signal else f"exit code {end.code}"
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
        return one_line(f"{how}: {last}" if last else how)

    def stop(self, why: str) -> None:
        """SIGTERM to its tree, SIGKILL later (I3); the first reason stands."""
        if not self.why:
            self.why = why
        if isinstance(self._kept, Kept):
            self._kept.stop(self._kill_after)

    def let_go(self) -> None:
        """It goes on without us."""
        if isinstance(self._kept, Kept):
            self._kept.let_go()


def stopped(why: str, cut: int = 0) -> Outcome | None:
    """The end of something that was asked to end."""
    match why:
        case "stop":
            return Outcome(Happening.STOPPED, "It was stopped on request.", cut=cut)
        case "deadline":
            return Outcome(Happening.EXPIRED, "It was stopped at its deadline.", cut=cut)
        case "close":
            return Outcome(Happening.DIED, "The program ended while it ran.", cut=cut)
    return None


def _said(error: BaseException) -> str:
    return plain(error) if isinstance(error, Exception) else type(error).__name__
