"""Kept: a process that outlives the runtime, as whichever runtime there is holds it. See `keeper` for the other half.

Theory of operation. `keep` starts a keeper and `attach` finds one by its record; from then on both are
the same: the end of the keeper is waited for with a pidfd, which costs nothing while it runs and works
for a process that is not our child, and what its record says then is how the command ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets as random
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Final

import msgspec

from hermes_core.errors import ToolError
from hermes_core.processes import records, tree
from hermes_core.processes.process import Program

__all__ = ["Kept", "KeptEnd", "attach", "forget", "keep"]

_KEEPER: Final = str(Path(__file__).with_name("keeper.py"))
_AGAIN: Final = 0.05  # seconds between the first two signals of a stop, then twice as many each time
_SELDOM: Final = 1.0
_HEADSTART: Final = 0.3  # seconds that the keeper has for its SIGKILL before we send ours
_LOOK: Final = 0.25  # seconds between two looks where there is no pidfd (macOS)


class KeptEnd(msgspec.Struct, frozen=True):
    """How it ended: by itself with `code`, or by `signal`; both None and `known` False if nobody knows.

    `stopped` is "request" or "deadline" where its end was brought about before it had exited. `failed` is
    the number of the error that kept it from starting; `begun` is False if it never came so far. `cut`
    bytes of its output were left out.
    """

    code: int | None = None
    signal: int | None = None
    stopped: str = ""
    failed: int = 0
    cut: int = 0
    known: bool = True
    begun: bool = True


class Kept:
    """A running keeper. Made by `keep` and `attach`, in a running event loop."""

    def __init__(
        self, record: Path, pid: int, since: int | None, child: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._record = record
        self._pid = pid
        self._since = since
        self._child = child
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._forget: Callable[[], None] = lambda: None
        self._watch()

    async def wait(self) -> KeptEnd:
        """Wait for the end of the whole tree; cancelling leaves it running."""
        await asyncio.wait({self._ended})
        if self._timer is not None:
            self._timer.cancel()
        facts = records.read(self._record)
        if facts and not facts.keys() & {
            "end",
            "void",
        }:  # something killed the keeper: what it watched is ended here
            await asyncio.to_thread(records.end, facts)
            facts = records.read(self._record)
        return _end(facts)

    def stop(self, kill_after: float) -> None:
        """Ask the keeper to end its tree; does not wait, and may be called again.

        The keeper sends SIGKILL `kill_after` seconds later, as it was told at its start. One that does not
        react is helped.
        """
        if not self._ended.done() and self._timer is None:
            self._press(self._loop.time() + kill_after + _HEADSTART, _AGAIN)

    def let_go(self) -> None:
        """Forget about it: it goes on running, for the next runtime."""
        if self._timer is not None:
            self._timer.cancel()
        self._forget()
        if self._child is not None and self._child.poll() is None:
            # Our own end hands it to init. Popen would complain that nobody waited for it.
            self._child.returncode = 0

    def _press(self, kill_at: float, pause: float) -> None:
        if self._ended.done():
            return
        self._signal(signal.SIGCONT)  # one that was stopped could not hear us
        self._signal(signal.SIGTERM)
        if self._loop.time() >= kill_at and tree.VISIBLE:
            tree.signal_below(self._pid, signal.SIGKILL, set())
        self._timer = self._loop.call_later(pause, self._press, kill_at, min(2 * pause, _SELDOM))

    def _signal(self, number: int) -> None:
        if self._child is not None:
            self._child.send_signal(number)  # a child keeps its pid until it is waited for
            return
        seen = tree.look_at(self._pid)
        if seen is not None and seen.start == self._since:
            tree.send(seen, number)

    # -- its end

    def _watch(self) -> None:
        try:
            handle = os.pidfd_open(self._pid)
        except (AttributeError, ProcessLookupError):
            self._look()
            return
        if self._child is None and tree.start_of(self._pid) != self._since:
            os.close(handle)  # it ended before we had it, and its number may be another's
            self._ended.set_result(None)
            return
        self._loop.add_reader(handle, self._is_gone)

        def forget() -> None:
            self._loop.remove_reader(handle)
            os.close(handle)
            self._forget = lambda: None

        self._forget = forget

    def _look(self) -> None:
        gone = (
            self._child.poll() is not None if self._child is not None else not _lives(self._pid, self._since)
        )
        if gone:
            self._is_gone()
        else:
            timer = self._loop.call_later(_LOOK, self._look)
            self._forget = timer.cancel

    def _is_gone(self) -> None:
        self._forget()
        if self._child is not None:
            self._child.wait()
        if not self._ended.done():
            self._ended.set_result(None)


def _lives(pid: int, since: int | None) -> bool:
    if tree.VISIBLE:
        return tree.start_of(pid) == since
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _end(facts: dict[str, str]) -> KeptEnd:
    if not facts or "void" in facts:
        return KeptEnd(begun=False)
    cut = int(facts.get("cut", "0"))
    if "failed" in facts:
        return KeptEnd(failed=int(facts["failed"]), cut=cut)
    code = int(facts["exit"]) if "exit" in facts else None
    number = -code if code is not None and code < 0 else None
    return KeptEnd(None if number else code, number, facts.get("stopped", ""), 0, cut, known=code is not None)


def keep(
    program: Program,
    record: Path,
    output: Path,
    *,
    kill_after: float,
    deadline: float = 0.0,
    label: str = "",
    secrets: Iterable[str] = (),
) -> Kept:
    """Start `program` under a keeper, at once; its end tells whether it could be started.

    `record` must not be there; `output` is made anew, and `secrets` do not come into it. `deadline` in seconds
    since 1970, 0 for none.
    `ToolError` where the system refuses.
    """
    if not program.argv:
        raise ToolError("The program has no name.")
    token = random.token_hex(8)
    changes = {**(program.env or {}), "HERMES_PROCESS": token}
    env = {key: value for key, value in {**os.environ, **changes}.items() if value is not None}
    words = [str(record.absolute()), str(output.absolute()), str(program.output_limit), repr(kill_after)]
    words += [repr(deadline), " ".join(label.split()), token]
    with contextlib.ExitStack() as stack:
        try:
            record.parent.mkdir(parents=True, exist_ok=True)
            stdin: IO[bytes] | int = subprocess.DEVNULL
            if program.stdin:
                stdin = stack.enter_context(tempfile.TemporaryFile())
                stdin.write(program.stdin)
                stdin.seek(0)
            told = stack.enter_context(_telling(secrets))
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", _KEEPER, *words, str(told), *program.argv],
                pass_fds=(told,),
                cwd=program.cwd,
                env=env,
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ToolError(f"The command cannot be started: {reason}.") from error
    return Kept(record, child.pid, tree.start_of(child.pid), child)


@contextlib.contextmanager
def _telling(secrets: Iterable[str]) -> Iterator[int]:
    """A descriptor from which just these can be read; nowhere else, as words or variables would be.

    What a pipe does not take at once is left out, the longest first; it is hidden when the output is read.
    """
    reading, writing = os.pipe()
    try:
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError):
            for one in sorted(secrets, key=len):
                text = one.encode("utf-8", "replace")
                if len(text) < select.PIPE_BUF:  # such a piece is written whole, or not at all
                    os.write(writing, text + b"\0")
    finally:
        os.close(writing)
    try:
        yield reading
    finally:
        os.close(reading)


def attach(record: Path) -> Kept | KeptEnd | None:
    """Take up again what an earlier runtime started under this record.

    A `KeptEnd` where it has ended since. None where it was never begun; from then on it never will be,
    also if its keeper was only just started.
    """
    facts = records.read(record)
    if not facts:
        if _void(record):
            return None
        facts = records.read(record)
    if "void" in facts:
        return None
    if "end" in facts:
        return _end(facts)
    pid, since = records.process(facts.get("shim", ""))
    if facts.get("boot") == tree.boot() and _lives(pid, since):
        return Kept(record, pid, since)
    facts = records.read(record)  # once more: it may have ended between two looks
    if "end" not in facts and facts.get("boot") == tree.boot():
        records.end(facts)  # something killed the keeper: what it kept sight of is ended here
    return _end(facts)


def forget(record: Path) -> None:
    """Remove the record of something that has ended.

    One that was claimed for nothing stays until the machine is started anew: as long as it is there, a
    keeper that is late, however late, begins nothing.
    """
    facts = records.read(record)
    if "void" not in facts or facts.get("boot") != tree.boot():
        record.unlink(missing_ok=True)


def _void(record: Path) -> bool:
    """Claim the record's name for nothing; False where a keeper has it."""
    draft = record.with_name(f"{record.name}.void")
    record.parent.mkdir(parents=True, exist_ok=True)
    draft.write_text(f"void yes\nboot {tree.boot()}\n", encoding="utf-8")
    try:
        os.link(draft, record)
    except FileExistsError:
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True
