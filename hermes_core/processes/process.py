"""Process: one command and all that comes from it, as the runtime holds it. See `shim` for the other half."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

import msgspec

from hermes_core.errors import ToolError
from hermes_core.processes import tree
from hermes_core.processes.output import Output
from hermes_core.processes.records import path_of

__all__ = ["Exit", "Process", "Program", "Stopped", "launch", "start"]

_SHIM: Final = str(Path(__file__).with_name("shim.py"))
_CHUNK: Final = 65536
_PAUSE: Final = 0.001  # seconds between two reads once the limit is passed: a flood must not fill our time
_HEADSTART: Final = 0.015  # seconds that the shim has for its SIGKILL before we send ours
_GRACE: Final = 0.2  # seconds after SIGKILL until what still lives is reported as unreachable
_STRAYS: Final = 1.0  # seconds for the tree of a shim that was killed itself


class Program(msgspec.Struct, frozen=True):
    """What to run. Also what a tool gives back to have it run under its own control.

    `argv[0]` is looked up on PATH. `env` is added to the environment of this process; None takes a
    variable away. `output_limit` bytes of stdout and stderr together are kept, half of them from
    the beginning and half from the end. `deadline` in seconds, if given, stands above the tool's.
    """

    argv: tuple[str, ...]
    cwd: str | None = None
    env: Mapping[str, str | None] | None = None
    stdin: bytes = b""
    output_limit: int = 64 * 1024
    deadline: float | None = None


class Exit(msgspec.Struct, frozen=True):
    """How it ended: by itself with `code`, or by `signal`; both None if its end was not seen.

    The end is not seen when something killed the shim. `output` has a mark where `cut` bytes are left out.
    """

    code: int | None
    signal: int | None
    output: str
    cut: int
    seconds: float


class Stopped(msgspec.Struct, frozen=True):
    """What a stop found: `killed` if SIGKILL was needed, `unreachable` the pids that live all the same.

    `exit` is None as long as the shim watches over what cannot be reached.
    """

    exit: Exit | None
    killed: bool = False
    unreachable: tuple[int, ...] = ()


class Process:
    """A running command with its whole tree. Made by `launch` and `start`, in a running event loop.

    It ends when its leader has exited *and* nothing that came from it is left: what the leader leaves
    running, also in the background or in another session, gets SIGTERM at the leader's exit and SIGKILL
    half a second later. So nothing hangs on an open stdout, and a blocking tool leaves nothing behind.

    What it holds (three descriptors, one record file) is let go when it ends, whether or not anybody
    waits. When this runtime dies the tree is ended within 0.3 s.
    """

    def __init__(
        self,
        shim: subprocess.Popen[bytes],
        line: socket.socket,
        output: int,
        record: Path,
        label: str,
        limit: int,
    ) -> None:
        self.label = label
        self.pid: int | None = None  # of the leader; None until `started`
        self._loop = asyncio.get_running_loop()
        self._shim = shim
        self._since = tree.start_of(shim.pid) or 0
        self._line: socket.socket | None = line
        self._output_fd: int | None = output
        self._output = Output(limit)
        self._limit = limit
        self._record = record
        self._heard = b""
        self._begun = time.monotonic()
        self._sent: set[tuple[int, int]] = set()
        self._code: int | None = None
        self._whole = False  # the shim has said that nothing is left
        self._killed = False  # SIGKILL was sent
        self._delegated = (
            False  # the shim sends SIGTERM, because it alone knows whether there is a command yet
        )
        self._unreachable: tuple[int, ...] = ()
        self._started: asyncio.Future[int] = self._loop.create_future()  # 0, or the number of the error
        self._ended: asyncio.Future[Exit] = self._loop.create_future()
        self._loop.add_reader(line.fileno(), self._listen)
        self._loop.add_reader(output, self._read)

    # -- looking

    async def started(self) -> None:
        """Wait until the command runs (or has ended); `ToolError` where it cannot be started."""
        await asyncio.wait({self._started})
        if self._started.result():
            raise ToolError(f"The command cannot be started: {os.strerror(self._started.result())}.")

    async def wait(self) -> Exit:
        """Wait for the end of the whole tree. Several may wait; cancelling leaves the process running."""
        await asyncio.wait({self._ended})
        return self._ended.result()

    def ended(self) -> Exit | None:
        """How it ended, None while anything of it runs."""
        return self._ended.result() if self._ended.done() else None

    def output_so_far(self) -> str:
        """What it wrote until now, with the mark of the cut."""
        return self._output.read()[0]

    # -- ending

    def terminate(self) -> None:
        """Send SIGTERM to everything of the tree, now; each process gets it once. Does not wait.

        What ignores it is left to `stop`. After the end, or a second time, it does nothing.
        """
        if self._ended.done() or self._line is None or self._delegated:
            return
        with contextlib.suppress(OSError):  # one that was stopped could not hear us
            self._shim.send_signal(signal.SIGCONT)
        if self.pid is None:
            self._delegated = True
            self._tell("term")
        else:
            self._signal(signal.SIGTERM, self._sent)
            self._tell("termed")

    def abandon(self, kill_after: float) -> None:
        """Begin a stop and leave the rest to the shim: SIGTERM now, SIGKILL in `kill_after` seconds. Does not wait."""
        self.terminate()
        self._tell(f"until {kill_after:f}")

    async def stop(self, kill_after: float) -> Stopped:
        """End the whole tree: SIGTERM, after `kill_after` seconds SIGKILL, and the proof that nothing lives.

        Returns as soon as all is gone, at the latest 0.2 s after the SIGKILL. May be called at any time,
        twice, and by several at once. Cancelling it leaves the stop under way: the shim carries it out.
        """
        self.abandon(kill_after)
        if await self._gone(kill_after + _HEADSTART):
            return self._stopped()
        limit = self._loop.time() + _GRACE
        pause = 0.005
        while self._loop.time() < limit:
            if self._shim_is_useless():
                self._shim.kill()
            self._killed = True
            self._signal(signal.SIGKILL, set())
            if await self._gone(pause):
                break
            pause = min(2 * pause, 0.05)
        else:
            self._unreachable = tuple(sorted(one.pid for one in self._living()))
        return self._stopped()

    def _stopped(self) -> Stopped:
        return Stopped(self.ended(), self._killed, self._unreachable)

    async def _gone(self, seconds: float) -> bool:
        await asyncio.wait({self._ended}, timeout=seconds)
        return self._ended.done()

    def _shim_is_useless(self) -> bool:
        """Nothing lives below it and yet it does not end: something keeps it stopped."""
        seen = tree.look().get(self._shim.pid)
        return seen is not None and seen.state in "Tt" and not tree.below(self._shim.pid)

    def _signal(self, number: int, sent: set[tuple[int, int]]) -> None:
        if self._line is None:
            for one in self._living():
                tree.send(one, number)
        elif tree.VISIBLE:
            tree.signal_below(self._shim.pid, number, sent)
        elif self.pid is not None and self._code is None:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, number)

    def _living(self) -> list[tree.Seen]:
        if self._line is not None:
            return tree.below(self._shim.pid)
        return [] if self._ended.done() else tree.strays(self._record.stem, self.pid, self._since)

    # -- what the shim says

    def _tell(self, word: str) -> None:
        if self._line is not None:
            with contextlib.suppress(OSError):  # it is gone: the end of the line says so in a moment
                self._line.send(word.encode() + b"\n")

    def _listen(self) -> None:
        assert self._line is not None
        try:
            text = self._line.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            text = b""
        *words, self._heard = (self._heard + text).split(b"\n")
        for word in words:
            self._hear(word.decode().split())
        if not text:
            self._loop.remove_reader(self._line.fileno())
            self._line.close()
            self._line = None
            self._reap(self._loop.time() + _STRAYS, 0)

    def _hear(self, words: list[str]) -> None:
        match words:
            case ["started", pid]:
                self.pid = int(pid)
                self._begin(0)
            case ["failed", number]:
                self._begin(int(number))
            case ["exit", code]:
                self._code = int(code)
            case ["killed"]:
                self._killed = True
            case ["end"]:
                self._whole = True

    def _begin(self, error: int) -> None:
        if not self._started.done():
            self._started.set_result(error)

    def _reap(self, limit: float, quiet: int) -> None:
        """After the end of the line: the shim is dead or about to be. Without its word, look for strays.

        A tree that killed its own shim gets SIGKILL, until two looks in a row find nothing.
        """
        dead = self._shim.poll() is not None
        if dead and not self._whole and tree.VISIBLE:
            living = self._living()
            for one in living:
                tree.send(one, signal.SIGKILL)
            self._killed = self._killed or bool(living)
            self._unreachable = tuple(sorted(one.pid for one in living))
            quiet = 0 if living else quiet + 1
            dead = quiet >= 2 or self._loop.time() > limit
        if dead:
            self._end()
        else:
            self._loop.call_later(0.001, self._reap, limit, quiet)

    # -- what the command writes

    def _read(self) -> None:
        """Take one chunk: one, so that a flood leaves the loop to others."""
        if self._output_fd is None:
            return
        try:
            data = os.read(self._output_fd, _CHUNK)
        except BlockingIOError:
            return
        if not data:  # nobody has it open any more; the tree may live on
            self._close_output()
            return
        self._output.add(data)
        if self._output.received > self._limit:
            self._loop.remove_reader(self._output_fd)
            self._loop.call_later(_PAUSE, self._resume)

    def _resume(self) -> None:
        if self._output_fd is not None:
            self._loop.add_reader(self._output_fd, self._read)

    def _close_output(self) -> None:
        if self._output_fd is not None:
            self._loop.remove_reader(self._output_fd)
            os.close(self._output_fd)
            self._output_fd = None

    def _end(self) -> None:
        """All is gone: take what is left in the pipe, let everything go, wake those who wait."""
        for _ in range(64):  # bounded, because something outside the tree may have been handed the pipe
            if self._output_fd is None:
                break
            try:
                data = os.read(self._output_fd, _CHUNK)
            except BlockingIOError:
                break
            if not data:
                break
            self._output.add(data)
        self._close_output()
        self._record.unlink(missing_ok=True)
        self._record.with_name(self._record.name + ".new").unlink(missing_ok=True)
        text, cut = self._output.read()
        code = self._code
        number = -code if code is not None and code < 0 else None
        self._begin(0)
        seconds = time.monotonic() - self._begun
        self._ended.set_result(Exit(None if number else code, number, text, cut, seconds))


def _stdin(data: bytes) -> IO[bytes]:
    """A file to read from: unlike a pipe it needs nobody to fill it while the command runs."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(data)
    file.seek(0)
    return file


def launch(program: Program, folder: Path, label: str = "") -> Process:
    """Start the shim for `program` at once, without waiting for the command itself; see `Process.started`.

    `folder` takes the record, and is made where there is none. `ToolError` where the system refuses (no such working
    folder, too many processes or open files, an argument that no program can get).
    """
    if not program.argv:
        raise ToolError("The program has no name.")
    token = secrets.token_hex(8)
    record = path_of(folder, token)
    changes = {**(program.env or {}), "HERMES_PROCESS": token}
    env = {key: value for key, value in {**os.environ, **changes}.items() if value is not None}
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as ours:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            line, far_line = socket.socketpair()
            ours.callback(line.close)
            stack.callback(far_line.close)
            output, far_output = os.pipe()
            ours.callback(os.close, output)
            stack.callback(os.close, far_output)
            stdin = stack.enter_context(_stdin(program.stdin)) if program.stdin else subprocess.DEVNULL
            words = [str(record.absolute()), str(far_line.fileno()), " ".join(label.split()), token]
            shim = subprocess.Popen(
                [sys.executable, "-I", "-S", _SHIM, *words, *program.argv],
                cwd=program.cwd,
                env=env,
                stdin=stdin,
                stdout=far_output,
                stderr=subprocess.STDOUT,
                pass_fds=(far_line.fileno(),),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ToolError(f"The command cannot be started: {reason}.") from error
        line.setblocking(False)
        os.set_blocking(output, False)
        ours.pop_all()
    return Process(shim, line, output, record, label, program.output_limit)


async def start(program: Program, folder: Path, label: str = "") -> Process:
    """Start `program` and wait until it runs, about 20 ms; `ToolError` where it cannot be started.

    Cancelling leaves nothing behind: what was started is ended, by the shim, within half a second.
    """
    process = launch(program, folder, label)
    try:
        await process.started()
    except asyncio.CancelledError:
        process.abandon(0.5)
        raise
    return process
