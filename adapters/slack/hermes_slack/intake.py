"""Intake: from what Slack delivers to the gateway, in the order of each channel, told when it is kept (D1)."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from hermes_core.adapter import Gateway
from hermes_core.messages import Address, Message
from hermes_slack.convert import Change, Incoming, Me, Removal, delivered, event
from hermes_slack.names import Names
from hermes_slack.seen import Place, Seen
from hermes_slack.streams import Speaker

__all__ = ["Intake"]

_T = TypeVar("_T")

_THREADS: Final = 2000  # of which it is remembered whether the agent takes part, and who wrote last


class Intake:
    """One catch-all: everything that Slack delivers ends here.

    `StoreUnwritable` comes through: Slack is not told that it was received, and delivers again (D7).
    """

    def __init__(
        self,
        gateway: Gateway,
        me: Me,
        names: Names,
        seen: Seen,
        wall: Callable[[], float],
        *,
        follow_threads: bool,
    ) -> None:
        self._gateway = gateway
        self._me = me
        self._names = names
        self._seen = seen
        self._wall = wall
        self._follow = follow_threads
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}
        self._ours: OrderedDict[Address, bool] = OrderedDict()
        self._speakers: OrderedDict[Address, Speaker] = OrderedDict()

    def speaker(self, address: Address) -> Speaker | None:
        """Who wrote last in this conversation, since this run began."""
        return self._speakers.get(address)

    async def take(self, payload: Mapping[str, Any]) -> None:
        """Take in what Slack delivered; returns when it is kept, and at once for what is nothing to the agent."""
        found = delivered(payload, self._me)
        if found is not None:
            address = found.message.address if isinstance(found, Incoming) else found.address
            lock = self._line_up(address.channel)
            try:
                async with lock:
                    await self._into(found)
            finally:
                self._leave(address.channel)

    async def take_held(self, payload: Mapping[str, Any]) -> None:
        """Take an event of a channel that the caller has `held`; returns when it is kept."""
        found = event(payload, self._me)
        if found is not None:
            await self._into(found)

    @contextlib.asynccontextmanager
    async def held(self, channel: str) -> AsyncGenerator[None, None]:
        """Wait for those who came before in this channel, and let those who come later wait."""
        lock = self._line_up(channel)
        try:
            async with lock:
                yield
        finally:
            self._leave(channel)

    def _line_up(self, channel: str) -> asyncio.Lock:
        """The lock of this channel, which is fair: first come, first in. Whoever took it leaves afterwards."""
        lock = self._locks.get(channel)
        if lock is None:
            lock = self._locks[channel] = asyncio.Lock()
        self._waiting[channel] = self._waiting.get(channel, 0) + 1
        return lock

    def _leave(self, channel: str) -> None:
        self._waiting[channel] -= 1
        if not self._waiting[channel]:
            del self._waiting[channel], self._locks[channel]

    async def _into(self, found: Incoming | Change | Removal) -> None:
        match found:
            case Incoming():
                await self._message(found)
            case Change():
                await self._gateway.edited(found.address, found.id, found.text)
            case Removal():
                await self._gateway.deleted(found.address, found.id)

    async def _message(self, found: Incoming) -> None:
        message = found.message
        address = message.address
        ours = found.addressed or await self._takes_part(address, message.id)
        if ours:
            if address.thread is not None:
                self._remember(address, True)
            if message.sent is None:
                message = msgspec.structs.replace(message, sent=self._wall())
            speaker = Speaker(message.author.id, found.team, message.id, found.respond)
            _put(self._speakers, address, speaker)
            told = msgspec.structs.replace(await self._named(message), addressed=found.addressed)
            await self._gateway.receive(told)
        if not found.stands:
            return
        top = address.thread is None or address.thread == message.id
        if top or ours:
            place = Place(address.channel, None if top else address.thread)
            self._seen.note(place, message.id)
            if top and address.thread is not None and ours:  # its answers will stand in a thread
                self._seen.note(Place(address.channel, address.thread), message.id)

    async def _named(self, message: Message) -> Message:
        """Among several people each has a name in the prompt; alone with the agent nobody needs one."""
        author = message.author
        if not message.group or author.name:
            return message
        named = msgspec.structs.replace(author, name=await self._names.of(author.id))
        return msgspec.structs.replace(message, author=named)

    async def _takes_part(self, address: Address, id_: str) -> bool:
        """Whether an answer in this thread is one to the agent (X4): it was addressed there before."""
        if not self._follow or address.thread is None or address.thread == id_:
            return False
        known = self._ours.get(address)
        if known is None:
            known = self._gateway.activity(address).state != "idle" or bool(await self._gateway.past(address))
            self._remember(address, known)
        return known

    def _remember(self, address: Address, ours: bool) -> None:
        _put(self._ours, address, ours)


def _put(known: OrderedDict[Address, _T], address: Address, value: _T) -> None:
    known[address] = value
    known.move_to_end(address)
    if len(known) > _THREADS:
        known.popitem(last=False)
