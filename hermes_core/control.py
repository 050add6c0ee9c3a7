"""Control: what the command line asks of a program that runs, through a socket in its data folder.

One connection is one request and one answer, each a line of JSON. Whoever may open the socket may ask:
that is the user who runs the program, for it is made for that user alone. A client learns at once
whether anybody is there, so nothing is asked of a program that does not run, and nobody polls.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from hermes_core.errors import HermesError

__all__ = ["Answer", "Control", "ask"]

log = logging.getLogger("hermes.control")

Answer = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""Takes the arguments of a request; gives what can be written as JSON. `HermesError` is for who asked."""

_NAME: Final = "control.sock"
_LONGEST: Final = 100  # bytes of a path that every system takes for a socket
_LINE: Final = 64 * 1024
_PATIENCE: Final = 10.0  # seconds for a client that connected and says nothing


class _Request(msgspec.Struct):
    what: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class _Reply(msgspec.Struct):
    answer: Any = None
    error: str = ""
    advice: str = ""


class Control:
    """Answers requests by their name, from `open` to `close`; further `answers` may be put in meanwhile.

    Where there is no such socket (another system, a file system without) it answers nobody.
    """

    def __init__(
        self,
        answers: Mapping[str, Answer],
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        self.answers: dict[str, Answer] = dict(answers)
        self._spawn = spawn
        self._server: asyncio.Server | None = None
        self._path: Path | None = None

    async def open(self, folder: Path) -> Self:
        """Listen in this folder, which belongs to this program alone: what another run left is replaced."""
        path = folder / _NAME
        try:
            door = _bound(path)
        except (OSError, AttributeError) as error:
            log.warning("the command line cannot reach this program: %s", error)
            return self
        self._path = path
        self._server = await asyncio.start_unix_server(self._connected, sock=door, limit=_LINE)
        return self

    def close(self) -> None:
        """Answer no more; what is being answered is its task's own."""
        if self._server is not None and self._path is not None:
            self._server.close()
            with contextlib.suppress(OSError):  # a disk that has become read-only keeps it
                self._path.unlink()
            self._server = None

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._spawn(self._serve(reader, writer), "a request of the command line")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                line = await reader.readline()
            reply = await self._reply(line)
            writer.write(msgspec.json.encode(reply, enc_hook=str) + b"\n")
            await writer.drain()
        except (OSError, ValueError, TimeoutError) as error:
            log.info("a request of the command line was not answered: %s", error)
        finally:
            writer.close()

    async def _reply(self, line: bytes) -> _Reply:
        try:
            request = msgspec.json.decode(line, type=_Request)
        except msgspec.MsgspecError as error:
            return _Reply(error=f"This is no request: {error}.")
        answer = self.answers.get(request.what)
        if answer is None:
            return _Reply(
                error=f"The program that runs does not know {request.what[:40]!r}.",
                advice="It is probably an older version: start it again.",
            )
        try:
            return _Reply(await answer(request.arguments))
        except HermesError as error:
            return _Reply(error=error.message, advice=error.advice)
        except (
            Exception
        ) as error:  # the edge: a fault in one request is told to who asked, and the next is taken
            id_ = secrets.token_hex(3)
            log.error("the request %s failed (%s)", request.what, id_, exc_info=error)
            return _Reply(error=f"The program failed at it (error {id_}).", advice="Its log says why.")


def ask(folder: Path, what: str, *, patience: float = 60.0, **arguments: Any) -> Any:
    """Ask the program that has this data folder, and wait for its answer. For processes without a loop.

    `ProcessLookupError` where none runs; `HermesError` where it refuses, or gives no answer in time.
    """
    with contextlib.ExitStack() as stack:
        try:
            line = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            line.settimeout(patience)
            with _short(folder / _NAME) as path:
                line.connect(path)
        except (OSError, AttributeError) as error:
            raise ProcessLookupError("no program runs with this data folder") from error
        try:
            line.sendall(msgspec.json.encode(_Request(what, arguments)) + b"\n")
            text = stack.enter_context(line.makefile("rb")).readline()
            reply = msgspec.json.decode(text, type=_Reply)
        except (OSError, msgspec.MsgspecError) as error:
            raise HermesError(
                "The program that runs gave no answer.", "Its log may say why; try again."
            ) from error
    if reply.error:
        raise HermesError(reply.error, reply.advice)
    return reply.answer


def _bound(path: Path) -> socket.socket:
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.unlink(missing_ok=True)
        with _short(path) as short:
            door.bind(short)
        path.chmod(0o600)  # before it listens: nobody can have come in
        door.setblocking(False)
    except BaseException:
        door.close()
        raise
    return door


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """A way to `path` that is short enough for a socket."""
    if len(os.fsencode(path)) <= _LONGEST:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
