"""The adapter of the crash tests: binds a chat platform that lives in another process, over a real socket.

One JSON object a line. The platform says `message`, `stored` (answers `send`) and `found` (answers
`find`); the adapter says `hello`, `ack`, `refused`, `send` and `find`. A message is acknowledged at the
instant of its commit and not before (D1). After a refusal (D7) everything of the same round that
follows in its conversation is dropped, so that the platform, which delivers the whole rest again in a
new round, keeps its order.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hermes_core.adapter import Adapter, AdapterFactory, Features, Gateway, Sent, Shown
from hermes_core.errors import SendError, StoreError
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Address, Author, Message, Outgoing

__all__ = ["WireAdapter", "WirePlugin", "address"]


def address(channel: str) -> Address:
    """The conversation of a channel of the platform."""
    return Address("wire", "agent", channel)


class WireAdapter:
    """Connects to the platform at `port` of loopback; the end of the connection is a fault of it."""

    platform = "wire"

    def __init__(self, port: int, lookup: bool) -> None:
        self.features = Features(lookup=lookup)
        self._port = port
        self._writer: asyncio.StreamWriter | None = None
        self._connected = asyncio.Event()
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._refused: dict[str, int] = {}

    async def run(self, gateway: Gateway) -> None:
        """Deliver what the platform says, each conversation in its order, all beside one another."""
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._say("hello", pid=os.getpid())
        self._connected.set()
        gateway.ready()
        lanes: dict[str, asyncio.Queue[dict[str, Any]]] = {}
        try:
            async with asyncio.TaskGroup() as group:
                while line := await reader.readline():
                    said = msgspec.json.decode(line)
                    if said["kind"] != "message":
                        self._asked.pop(said["n"]).set_result(said["id"])
                        continue
                    lane = lanes.get(said["channel"])
                    if lane is None:
                        lane = lanes[said["channel"]] = asyncio.Queue()
                        group.create_task(self._deliver(gateway, lane))
                    lane.put_nowait(said)
                raise ConnectionError("The platform hung up.")
        finally:
            self._connected.clear()
            self._writer.close()
            for future in self._asked.values():
                future.cancel()
            self._asked.clear()

    async def _deliver(self, gateway: Gateway, lane: asyncio.Queue[dict[str, Any]]) -> None:
        while True:
            said = await lane.get()
            channel, id_ = said["channel"], said["id"]
            if said["round"] <= self._refused.get(channel, -1):
                continue
            message = Message(id_, address(channel), Author(said["author"]), said["text"])
            try:
                await gateway.receive(message, lambda c=channel, i=id_: self._say("ack", channel=c, id=i))  # type: ignore[misc]
            except StoreError:
                self._refused[channel] = said["round"]
                self._say("refused", channel=channel, id=id_)

    async def send(self, outgoing: Outgoing) -> Sent:
        """Hand a message over, and wait until the platform has it."""
        return Sent((await self._ask("send", outgoing=msgspec.to_builtins(outgoing)),))

    def show(self, address: Address, shown: Shown) -> None:
        """Nothing passing is shown."""

    async def find(self, key: str, address: Address) -> Sent | None:
        """Ask the platform for a key."""
        found = await self._ask("find", key=key)
        return None if found is None else Sent((found,))

    async def _ask(self, kind: str, **more: Any) -> Any:
        await self._connected.wait()
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        self._say(kind, n=number, **more)
        await asyncio.wait({answer})
        if answer.cancelled():
            raise SendError("The platform hung up.", unknown=True)
        return answer.result()

    def _say(self, kind: str, **more: Any) -> None:
        assert self._writer is not None
        self._writer.write(msgspec.json.encode({"kind": kind, **more}) + b"\n")


class WirePlugin:
    """Offers the adapter."""

    def __init__(self, port: int, lookup: bool) -> None:
        self._port = port
        self._lookup = lookup

    def _open(self, options: Mapping[str, Any]) -> Adapter:
        return WireAdapter(self._port, self._lookup)

    @hookimpl
    def hermes_adapters(self) -> Iterable[AdapterFactory]:
        """See the hook."""
        return [AdapterFactory("wire", self._open)]
