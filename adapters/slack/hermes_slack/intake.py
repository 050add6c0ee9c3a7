"""Intake: from what Slack delivers to the gateway, in the order of each channel, told when it is kept (D1)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from hermes_core.adapter import Gateway
from hermes_core.messages import Address, Message
from hermes_core.reading import Reading
from hermes_slack.convert import Change, Incoming, Me, Removal, delivered, event
from hermes_slack.names import Names
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
        reading: Reading,
        wall: Callable[[], float],
        *,
        follow_threads: bool,
    ) -> None:
        self._gateway = gateway
        self._me = me
        self._names = names
        self._reading = reading
        self._wall = wall
        self._follow = follow_threads
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
            async with self._reading.order.at(address.channel):
                await self._into(found)

    async def take_next(self, payload: Mapping[str, Any]) -> None:
        """Take in an event of a channel in which it is the caller's turn; returns when it is kept."""
        found = event(payload, self._me)
        if found is not None:
            await self._into(found)

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
        if top:
            self._reading.note(msgspec.structs.replace(address, thread=None), message.id)
        if ours and address.thread is not None:  # also at the top: its answers will stand in a thread
            self._reading.note(address, message.id)

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
