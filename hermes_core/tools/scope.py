"""Scope: runs the tools of one turn, holds what runs, and ends it all (I3).

Theory of operation. `call` waits for a tool up to its deadline and past it ends the tool itself. When
the *caller* of `call` is cancelled, it only lets go: the owner of the turn has already called
`terminate` (no await lies between an interrupt and its SIGTERM) and goes on with `stop`, which is
bounded. So no clean-up can delay the end of a cancelled task.

The tasks of async tools are made here and owned here: a tool that swallows its cancellation must not
hold the turn, so it cannot run in the turn's own task.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import re
import signal
import threading
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from hermes_core.errors import HermesError, ToolError, told
from hermes_core.processes import Exit, Process, Program, Stopped, launch
from hermes_core.tools.declare import Kind, Tool, ToolContext

__all__ = ["Ended", "Outcome", "Scope", "plain", "render"]

_log = logging.getLogger(__name__)
_ROUNDS: Final = 3  # cancellations that a tool may swallow before it is abandoned
_ROUND: Final = 0.2  # seconds for each
_PATH: Final = re.compile(r"(?:[A-Za-z]:|~)?(?:[/\\][^\s/\\:'\",;()]+){2,}")
_CUT: Final = "\n[… {} characters left out …]\n"


class Outcome(msgspec.Struct, frozen=True):
    """What the model reads as the result of a call; `error` marks that it failed."""

    text: str
    error: bool = False


class Ended(msgspec.Struct, frozen=True):
    """What a stop did: the tools that it ended, those that would not end, and pids out of reach."""

    killed: tuple[str, ...] = ()
    abandoned: tuple[str, ...] = ()
    unreachable: tuple[int, ...] = ()


class Scope:
    """The running tools of one turn.

    `folder` takes the records of processes. Results have at most `limit` characters, and say how many
    are left out of their middle. `kill_after` seconds lie between SIGTERM and SIGKILL where a deadline
    passed. `mask` takes secrets out of every text (X2). `at_work` is entered around each call.
    """

    def __init__(
        self,
        folder: Path,
        *,
        limit: int = 30_000,
        kill_after: float = 1.0,
        mask: Callable[[str], str] = str,
        at_work: Callable[[Tool], contextlib.AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        self._folder = folder
        self._limit = limit
        self._kill_after = kill_after
        self._mask = mask
        self._at_work = at_work
        self._closed = False
        self._processes: list[Process] = []
        self._tasks: dict[asyncio.Task[Any], str] = {}
        self._threads: dict[threading.Thread, str] = {}
        self._left: set[threading.Thread | asyncio.Task[Any]] = set()  # nobody waits for these any more
        self._killed: list[str] = []

    # -- running

    async def call(self, tool: Tool, arguments_json: str, context: ToolContext) -> Outcome:
        """Run `tool` and give what the model reads; whatever the tool does, this does not raise.

        A cancellation leaves the tool running, for `stop`. After `terminate` nothing is started.
        """
        try:
            if context.role < tool.role:
                raise ToolError(f"{tool.name} is for {tool.role.name.lower()}s.")
            self._check_open()
            arguments = tool.check(arguments_json)
            if tool.context is not None:
                arguments[tool.context] = context
            with self._at_work(tool):
                outcome = await self._run(tool, arguments)
        except HermesError as error:
            outcome = Outcome(told(error), error=True)
        except Exception as error:  # noqa: BLE001 - the edge of a plugin call: its fault stays its own (P2)
            _log.warning("Tool %s failed.", tool.name, exc_info=error)
            outcome = Outcome(f"{tool.name} failed: {plain(error)}", error=True)
        return Outcome(self._bounded(outcome.text), outcome.error)

    async def run(self, program: Program, label: str = "") -> Exit:
        """Run a program on behalf of a tool. It ends with the tool's deadline, with the turn, or its own deadline.

        `ToolError` where it cannot be started or its `deadline` passed. Cancelling ends it: SIGTERM at
        once, SIGKILL later, without waiting.
        """
        process = self._launch(program, label or program.argv[0])
        try:
            async with asyncio.timeout(program.deadline):
                await process.started()
                return await process.wait()
        except TimeoutError:
            await process.stop(self._kill_after)
            raise ToolError(
                f"{process.label} was stopped: it did not end within {program.deadline:g} s."
            ) from None
        except asyncio.CancelledError:
            process.abandon(self._kill_after)
            raise

    async def _run(self, tool: Tool, arguments: dict[str, Any]) -> Outcome:
        match tool.kind:
            case Kind.PROCESS:
                return await self._run_process(tool, arguments)
            case Kind.ASYNC:
                given = await self._in_task(tool, tool.function, arguments)
            case Kind.THREAD:
                given = await self._in_thread(tool, arguments)
        return Outcome(render(tool.name, given))

    async def _in_task(self, tool: Tool, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        # The coroutine is made inside the task: one that is cancelled before its first step leaves none behind.
        task = asyncio.create_task(_contained(function, arguments), name=f"tool {tool.name}")
        self._tasks[task] = tool.name
        task.add_done_callback(self._forget)
        await asyncio.wait({task}, timeout=tool.deadline)
        if not task.done():
            await self._cancel({task})
            raise self._too_late(tool, task.done())
        if task.cancelled():
            raise ToolError(f"{tool.name} was cancelled.")
        return task.result()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        del self._tasks[task]
        self._left.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, so that an abandoned one does not complain when it is collected

    async def _in_thread(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        """Run a function in a daemon thread of its own, which an exit of the program does not wait for."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

        def deliver(value: Any, error: BaseException | None) -> None:
            self._threads.pop(thread, None)
            self._left.discard(thread)
            if not result.done():
                result.set_result((value, error))

        def work() -> None:
            value, failure = None, None
            try:
                value = tool.function(**arguments)
            except BaseException as error:  # noqa: BLE001 - carried to the caller, which tells them apart
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants it any more
                loop.call_soon_threadsafe(deliver, value, failure)

        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(work,), name=f"tool {tool.name}", daemon=True)
        thread.start()
        self._threads[thread] = tool.name
        try:
            await asyncio.wait({result}, timeout=tool.deadline)
        finally:
            if not result.done():
                self._left.add(thread)
        if not result.done():
            result.cancel()
            raise self._too_late(tool, ended=False)
        value, error = result.result()
        if error is not None:
            raise (
                error
                if isinstance(error, Exception)
                else ToolError(f"{tool.name} failed: {type(error).__name__}.")
            )
        return value

    async def _run_process(self, tool: Tool, arguments: dict[str, Any]) -> Outcome:
        if inspect.iscoroutinefunction(tool.function):
            program = await self._in_task(tool, tool.function, arguments)
        else:
            program = await _contained(_at_once, {"function": tool.function, "arguments": arguments})
        if not isinstance(program, Program):
            raise ToolError(f"{tool.name} gave back no program.")
        deadline = tool.deadline if program.deadline is None else program.deadline
        process = self._launch(program, tool.name)
        try:
            async with asyncio.timeout(deadline):
                await process.started()
                ended = await process.wait()
        except TimeoutError:
            return _stopped_text(process, await process.stop(self._kill_after), deadline)
        return _exit_text(ended)

    def _launch(self, program: Program, label: str) -> Process:
        self._check_open()  # again: an async function may have given its program after the interrupt
        self._processes = [one for one in self._processes if one.ended() is None]
        process = launch(program, self._folder, label)
        self._processes.append(process)
        return process

    def _check_open(self) -> None:
        if self._closed:
            raise ToolError("Not started: the turn was interrupted.")

    def _too_late(self, tool: Tool, ended: bool) -> ToolError:
        rest = "" if ended else " It may still be running and take effect; its result will not be seen."
        return ToolError(f"{tool.name} was stopped: it did not end within {tool.deadline:g} s.{rest}")

    def _bounded(self, text: str) -> str:
        # A lone surrogate can be stored and sent nowhere.
        text = self._mask(text.encode("utf-8", "replace").decode())
        if len(text) <= self._limit:
            return text
        kept = max(0, self._limit - len(_CUT) - len(str(len(text))))
        tail = kept // 2
        return text[: kept - tail] + _CUT.format(len(text) - kept) + text[len(text) - tail :]

    # -- ending

    def running(self) -> tuple[str, ...]:
        """Names of the tools that run at this instant, abandoned ones not among them."""
        threads = [name for thread, name in self._threads.items() if thread not in self._left]
        tasks = [name for task, name in self._tasks.items() if task not in self._left]
        return (*self._alive().values(), *tasks, *threads)

    def abandoned(self) -> tuple[str, ...]:
        """Names of the tools that go on although nobody waits: threads, and what swallows its cancellation."""
        threads = [name for one, name in self._threads.items() if one in self._left or self._closed]
        return (*threads, *(name for task, name in self._tasks.items() if task in self._left))

    def terminate(self) -> None:
        """SIGTERM to everything of every process, and a first cancellation to async tools: now, without waiting.

        From here on nothing is started in this scope.
        """
        first = not self._closed
        self._closed = True
        alive = self._alive()
        for process in alive:
            process.terminate()
        if first:
            self._killed = [*alive.values(), *self._tasks.values()]
            for task in self._tasks:
                task.cancel()

    async def stop(self, kill_after: float) -> Ended:
        """End all that runs: processes as in `Process.stop`, async tools in three rounds of 0.2 s, side by side.

        Takes at most `kill_after` + 0.3 s, or 0.6 s where an async tool will not end. Safe to call twice.
        """
        self.terminate()
        stopping: list[Awaitable[Stopped]] = [process.stop(kill_after) for process in self._alive()]
        _, *stopped = await asyncio.gather(self._cancel(self._tasks, begun=True), *stopping)
        abandoned = self.abandoned()
        if abandoned:
            _log.warning("Abandoned, still running: %s.", ", ".join(abandoned))
        unreachable = tuple(pid for one in stopped if one is not None for pid in one.unreachable)
        if unreachable:
            _log.error("Could not be ended: processes %s.", ", ".join(map(str, unreachable)))
        killed = list(self._killed)
        for name in abandoned:
            if name in killed:
                killed.remove(name)
        return Ended(tuple(killed), abandoned, unreachable)

    def _alive(self) -> dict[Process, str]:
        return {one: one.label for one in self._processes if one.ended() is None}

    async def _cancel(self, tasks: Iterable[asyncio.Task[Any]], *, begun: bool = False) -> None:
        """Cancel in bounded rounds; what then still runs is left to itself.

        `begun`: the first cancellation was sent already; a second one at once would cut clean-up short.
        """
        waiting = {task for task in tasks if not task.done() and task not in self._left}
        for number in range(_ROUNDS):
            if not waiting:
                return
            for task in waiting if number or not begun else ():
                task.cancel()
            _, waiting = await asyncio.wait(waiting, timeout=_ROUND)
        self._left |= waiting


async def _contained(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """The result of an async tool; one that calls `sys.exit` ends itself and not the program."""
    try:
        return await function(**arguments)
    except SystemExit:
        raise ToolError("The tool tried to end the program.") from None
    except (Exception, asyncio.CancelledError, KeyboardInterrupt):
        raise
    except BaseException as error:  # what no `except Exception` catches would end the turn
        raise ToolError(f"The tool failed: {type(error).__name__}.") from error


async def _at_once(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    try:
        return function(**arguments)
    except asyncio.CancelledError:  # its own: nothing can cancel us in here
        raise ToolError("The tool was cancelled.") from None


def render(name: str, value: Any) -> str:
    """What a tool gave back, as text; `ToolError` where it cannot be shown."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolError(
            f"{name} gave back something that cannot be shown: {type(value).__name__}."
        ) from error


def _exit_text(ended: Exit) -> Outcome:
    """The output, and how it ended where that was not with code 0."""
    if ended.signal is not None:
        end = f"[ended by {_signal_name(ended.signal)}]"
    elif ended.code is None:
        end = "[killed: it had ended the process that watches over it]"
    else:
        end = f"[exit code {ended.code}]" if ended.code else ""
    return Outcome(_joined(ended.output, end) or "(no output)", error=bool(end))


def _stopped_text(process: Process, stopped: Stopped, deadline: float) -> Outcome:
    output = stopped.exit.output if stopped.exit else process.output_so_far()
    end = f"[stopped: it did not end within {deadline:g} s]"
    if stopped.unreachable:
        pids = ", ".join(map(str, stopped.unreachable))
        end += f"\n[could not be ended and may still run: processes {pids}]"
    return Outcome(_joined(output, end), error=True)


def _joined(output: str, end: str) -> str:
    return f"{output.rstrip()}\n{end}".strip() if end else output.rstrip()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def plain(error: Exception) -> str:
    """What a model may read of an exception: one line, file names without their folders."""
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
        if isinstance(error.filename, str):
            text += f": {Path(error.filename).name}"
    else:
        text = told(error).strip().partition("\n")[0][:300]
    text = _PATH.sub(lambda match: "…/" + re.split(r"[/\\]", match[0])[-1], text)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
