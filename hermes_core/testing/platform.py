"""FakePlatform: a chat platform in memory, with the adapter that binds it."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from hermes_core.adapter import (
    Adapter,
    AdapterFactory,
    Broken,
    Drafted,
    Features,
    Gateway,
    Received,
    Sent,
    Shown,
)
from hermes_core.errors import HermesError, SendError
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Address, Attachment, Author, Message, Outgoing

__all__ = ["FakePlatform"]

_ALL = Features(
    drafts=True,
    status=True,
    receipts=True,
    lookup=True,
    edits=True,
    deletes=True,
    threads=True,
    downloads=True,
    max_file=1_000_000,
    buttons=True,
)


class FakePlatform:
    """Keeps everything that the agent sends and shows; `say` writes as a person.

    `refuse` has errors to raise at the next sends, in order: with `unknown=True` the message is
    delivered all the same. `files` has the content of attachments by their `ref`. It is the platform and
    its adapter in one, and the plugin that brings it.
    """

    def __init__(self, name: str = "fake", features: Features = _ALL, handle: str = "") -> None:
        self.platform = name
        self.handle = handle
        self.features = features
        self.sent: list[Outgoing] = []
        self.shown: list[tuple[Address, Shown]] = []
        self.refuse: list[SendError] = []
        self.files: dict[str, bytes] = {}
        self.connected = asyncio.Event()
        self._run = secrets.token_hex(3)  # ids are never used twice, also over several runs
        self._ids = itertools.count(1)
        self._gateway: Gateway | None = None
        self._end = asyncio.Event()

    # -- as a person

    def address(self, channel: str = "1", thread: str | None = None) -> Address:
        """A conversation on this platform."""
        return Address(self.platform, "agent", channel, thread)

    def message(self, text: str, channel: str = "1", author: str = "ann", **more: Any) -> Message:
        """A message as the platform would deliver it, with an id of its own."""
        id_ = more.pop("id", None) or f"m{self._run}-{next(self._ids)}"
        thread = more.pop("thread", None)
        return Message(id_, self.address(channel, thread), Author(author, author.title()), text, **more)

    async def say(self, text: str, channel: str = "1", author: str = "ann", **more: Any) -> Message:
        """Write as a person; returns when it was received."""
        message = self.message(text, channel, author, **more)
        await self.gateway.receive(message)
        return message

    @property
    def gateway(self) -> Gateway:
        """The runtime behind the adapter, once it runs."""
        assert self._gateway is not None, "the adapter does not run yet"
        return self._gateway

    async def settled(self, channel: str = "1") -> None:
        """Wait until the conversation is idle."""
        await self.gateway.settled(self.address(channel))

    def texts(self, channel: str | None = None) -> list[str]:
        """What the agent sent, in its order, everywhere or in one channel."""
        return [one.text for one in self.sent if channel is None or one.address.channel == channel]

    def drafts(self) -> str:
        """All text that was shown while it was written."""
        return "".join(one.delta for _, one in self.shown if isinstance(one, Drafted))

    def receipts(self) -> list[tuple[str, str, int]]:
        """Message id, kind and position of every receipt."""
        return [(one.id, one.kind, one.position) for _, one in self.shown if isinstance(one, Received)]

    def broken(self) -> list[int]:
        """Numbers of the turns whose draft was closed with a mark."""
        return [one.turn for _, one in self.shown if isinstance(one, Broken)]

    def hang_up(self) -> None:
        """The platform has nothing more to say: the adapter returns."""
        self._end.set()

    # -- as an adapter

    async def run(self, gateway: Gateway) -> None:
        """Deliver what `say` writes, until `hang_up`."""
        self._gateway = gateway
        gateway.ready()
        self.connected.set()
        await self._end.wait()

    async def send(self, outgoing: Outgoing) -> Sent:
        """Keep a message, or refuse it as the test wants."""
        if self.refuse:
            error = self.refuse.pop(0)
            if error.unknown:
                self.sent.append(outgoing)
            raise error
        self.sent.append(outgoing)
        return Sent((f"p{len(self.sent)}",))

    def show(self, address: Address, shown: Shown) -> None:
        """Keep what is shown."""
        self.shown.append((address, shown))

    async def find(self, key: str, address: Address) -> Sent | None:
        """Whether the message with this key was delivered."""
        return next((Sent((f"p{n}",)) for n, one in enumerate(self.sent, 1) if one.key == key), None)

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The content that the test laid down, in small pieces."""
        content = self.files.get(attachment.ref)
        if content is None:
            raise HermesError(f"{attachment.name} is gone.")
        for start in range(0, len(content), 1000):
            yield content[start : start + 1000]

    # -- as a plugin

    def _open(self, options: Mapping[str, Any]) -> Adapter:
        return self

    @hookimpl
    def hermes_adapters(self) -> Iterable[AdapterFactory]:
        """Offers itself under its name."""
        return [AdapterFactory(self.platform, self._open)]
