"""A chat platform in the process of the test: loses nothing, delivers again what was not acknowledged.

It takes one adapter at a time, over a real socket (see `wire` for what is said there). On each connect
it delivers, in order, every message that has no acknowledgement; what the agent sends it keeps under
its key, every time it comes, so that a message that was sent twice is seen to stand there twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Self

import msgspec

__all__ = ["Chat", "Written"]

_AGAIN = 0.2  # seconds until what was refused is delivered again


class Written(msgspec.Struct):
    """A message of a person."""

    id: str
    channel: str
    author: str
    text: str
    acked: bool = False


class Chat:
    """The platform. `noticed` is called with the name of everything that happens, and its channel."""

    def __init__(self, noticed: Callable[[str, str], None] = lambda what, channel: None) -> None:
        self.written: dict[str, Written] = {}
        self.sent: list[dict[str, Any]] = []
        self.finds = 0
        self.found = 0
        self.refusals = 0
        self.hold: asyncio.Event | None = None  # holds the answer to each `send` back
        self._noticed = noticed
        self._by_key: dict[str, str] = {}
        self._rounds: dict[str, int] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._turn = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        if self.hold is not None:
            self.hold.set()
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        """Where adapters connect."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def write(self, channel: str, author: str, text: str) -> Written:
        """A person writes; delivered at once where an adapter is connected."""
        new = Written(f"m{len(self.written) + 1}", channel, author, text)
        self.written[new.id] = new
        self._deliver(new)
        return new

    def unacked(self) -> list[Written]:
        """What nobody has acknowledged yet, in order."""
        return [one for one in self.written.values() if not one.acked]

    def _deliver(self, one: Written) -> None:
        if self._writer is not None:
            round_ = self._rounds.setdefault(one.channel, 0)
            told = {"id": one.id, "channel": one.channel, "author": one.author, "text": one.text}
            self._say(kind="message", round=round_, **told)

    def _again(self, channel: str, round_: int) -> None:
        if self._rounds[channel] == round_:
            self._rounds[channel] += 1
            for one in self.unacked():
                if one.channel == channel:
                    self._deliver(one)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._open.add(writer)
        try:
            # A platform takes what it was sent in the order in which it was sent: all that the former
            # connection still holds comes before a question on the next one.
            async with self._turn:
                await self._serve(reader, writer)
        except ConnectionError:
            return
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                if line.endswith(b"\n"):  # else its sender died in the middle of it
                    self._hear(msgspec.json.decode(line), writer)
        finally:
            self._writer = None

    def _hear(self, said: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        kind = said["kind"]
        channel = said.get("channel", "")
        if kind == "hello":
            self._writer = writer
            for one in self.unacked():
                self._deliver(one)
        elif kind == "ack":
            self.written[said["id"]].acked = True
        elif kind == "refused":
            self.refusals += 1
            round_ = self._rounds[channel]
            asyncio.get_running_loop().call_later(_AGAIN, self._again, channel, round_)
        elif kind == "send":
            channel = said["outgoing"]["address"]["channel"]
            self.sent.append(said["outgoing"])
            id_ = self._by_key.setdefault(said["outgoing"]["key"], f"p{len(self.sent)}")
            if self.hold is None:
                self._say(kind="stored", n=said["n"], id=id_)
            else:
                self._spawn(self._stored(self.hold, said["n"], id_))
        else:
            found = self._by_key.get(said["key"])
            self.finds += 1
            self.found += found is not None
            self._say(kind="found", n=said["n"], id=found)
        self._noticed(kind, channel)

    async def _stored(self, hold: asyncio.Event, number: int, id_: str) -> None:
        await hold.wait()
        self._say(kind="stored", n=number, id=id_)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _say(self, **said: Any) -> None:
        if self._writer is not None:
            with contextlib.suppress(ConnectionError):
                self._writer.write(msgspec.json.encode(said) + b"\n")
