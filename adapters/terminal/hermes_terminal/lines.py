"""Lines in and out over file descriptors of any kind, without blocking the event loop.

A regular file cannot be watched by epoll, a pipe's reader may be slow and a terminal stopped: so one
daemon thread reads and one writes. A thread that hangs in the kernel is left behind; the process ends
without it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import queue
import select
import threading
from typing import Final

__all__ = ["LineReader", "LineWriter", "Unwritten"]

_CHUNK: Final = 1 << 16
_AHEAD: Final = 64  # lines that are read before they are wanted
LONGEST: Final = 64 << 20  # bytes of one line; what is longer is cut here and goes on as the next line


class LineReader:
    """The lines of `fd` in order, without their ends, as text; bytes that are no UTF-8 become U+FFFD."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._room = threading.Semaphore(_AHEAD)
        self._stopped = threading.Event()
        threading.Thread(target=self._read, name="hermes-stdin", daemon=True).start()

    async def next(self) -> str | None:
        """The next line, or None at the end of input. Cancelling it loses no line."""
        line = await self._lines.get()
        if line is None:
            self._lines.put_nowait(None)
        self._room.release()
        return line

    def stop(self) -> None:
        """Read no further; what was read and not taken is dropped. The thread ends at the next byte."""
        self._stopped.set()
        self._room.release()

    def _read(self) -> None:
        try:
            self._split()
        except (OSError, ValueError):  # the descriptor was closed under us: the input is over
            pass
        finally:
            self._put(None)

    def _split(self) -> None:
        pending: list[bytes] = []
        length = 0
        while not self._stopped.is_set() and self._fd is not None:
            data = _read_some(self._fd)
            if not data:
                break
            *whole, rest = data.split(b"\n")
            for line in whole:
                pending.append(line)
                self._put_line(b"".join(pending))
                pending, length = [], 0
            pending.append(rest)
            length += len(rest)
            if length >= LONGEST:
                self._put_line(b"".join(pending))
                pending, length = [], 0
        if any(pending):
            self._put_line(b"".join(pending))

    def _put_line(self, line: bytes) -> None:
        self._room.acquire()
        if not self._stopped.is_set():
            self._put(line.decode("utf-8", "replace").removesuffix("\r"))

    def _put(self, line: str | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
        except RuntimeError:  # the loop is closed: nobody wants lines any more
            self._stopped.set()


def _read_some(fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, _CHUNK)
        except BlockingIOError:  # somebody who shares it made it non-blocking
            select.select([fd], [], [])


class Unwritten(Exception):
    """A text did not go out whole: `written` bytes did. `closed`: nobody is there to read any."""

    def __init__(self, error: OSError, written: int = 0) -> None:
        super().__init__(error.strerror or str(error))
        self.written = written
        self.closed = error.errno in (errno.EPIPE, errno.EBADF, errno.EIO)


class LineWriter:
    """Writes whole texts to `fd`, one after the other."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd
        self._jobs: queue.SimpleQueue[tuple[bytes, asyncio.Future[None], asyncio.AbstractEventLoop]]
        self._jobs = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def write(self, text: str) -> None:
        """Return when the kernel has all of `text`.

        `Unwritten` when it does not take all. Cancelling the wait does not take the text back.
        """
        if self._fd is None:
            raise Unwritten(BrokenPipeError(errno.EPIPE, "closed"))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=f"hermes-fd{self._fd}", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._jobs.put((text.encode("utf-8", "replace"), done, loop))
        await done

    def _work(self) -> None:
        assert self._fd is not None
        while True:
            data, done, loop = self._jobs.get()
            error: Unwritten | None = None
            written = 0
            try:
                while written < len(data):
                    written += _write_some(self._fd, data[written : written + _CHUNK])
            except OSError as caught:
                error = Unwritten(caught, written)
            try:
                loop.call_soon_threadsafe(_settle, done, error)
            except RuntimeError:  # the loop is closed: nobody waits for the outcome
                return


def _settle(done: asyncio.Future[None], error: Unwritten | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def _write_some(fd: int, data: bytes) -> int:
    while True:
        try:
            return os.write(fd, data)
        except BlockingIOError:
            select.select([], [fd], [])
