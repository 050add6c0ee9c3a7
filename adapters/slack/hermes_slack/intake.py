"""Intake: from what Slack delivers to the gateway, in the order of each channel, told when it is kept (D1)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from hermes_core.adapter import Gateway
from hermes_core.errors import SendError
from hermes_core.messages import Address, Message
from hermes_core.reading import Reading
from hermes_core.recent import Recent
from hermes_slack.client import Client
from hermes_slack.convert import Change, Incoming, Me, Removal, delivered, event
from hermes_slack.posts import Speaker

__all__ = ["Intake"]

log = logging.getLogger("hermes.slack")

# conversations of which it is known whether the agent takes part and who wrote last; people
_KNOWN: Final = 2000
_FORGOTTEN: Final = 30 * 86_400.0  # seconds; what was silent for so long is not read up
_PATIENCE: Final = 1.0  # seconds; Slack waits 3 s for the acknowledgement


class Intake:
    """One catch-all: everything that Slack delivers ends here.

    `StoreUnwritable` comes through: Slack is not told that it was received, and delivers again (D7).
    """

    def __init__(
        self,
        gateway: Gateway,
        me: Me,
        client: Client,
        reading: Reading,
        wall: Callable[[], float],
        *,
        follow_threads: bool,
    ) -> None:
        self._gateway = gateway
        self._me = me
        self._client = client
        self._reading = reading
        self._wall = wall
        self._follow = follow_threads
        self._ours = Recent[Address, bool](_KNOWN)
        self._speakers = Recent[Address, Speaker](_KNOWN)
        self._names = Recent[str, str](_KNOWN)

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

    async def read_on(self, address: Address, last: str) -> None:
        """Take in what was written after message `last`, oldest first; see `Reading.read_up` (D8).

        Slack delivers what it could not deliver a few times within minutes; what came between that and now stands
        in its history only.
        """
        if self._wall() - float(last) > _FORGOTTEN:
            return
        said = self._client.standing(address.channel, address.thread, oldest=last)
        missed = [one async for one in said if str(one.get("ts")) > last]
        for message in sorted(missed, key=lambda one: float(str(one["ts"]))):
            found = event({"event": {"type": "message", **message, "channel": address.channel}}, self._me)
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
                self._ours[address] = True
            if message.sent is None:
                message = msgspec.structs.replace(message, sent=self._wall())
            speaker = Speaker(message.author.id, found.team, message.id, found.respond)
            self._speakers[address] = speaker
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
        named = msgspec.structs.replace(author, name=await self._name_of(author.id))
        return msgspec.structs.replace(message, author=named)

    async def _name_of(self, user: str) -> str:
        """What this person is called, for eyes only; asked once. "" where Slack does not say (no scope, too slow)."""
        name = self._names.get(user)
        if name is None:
            person: Mapping[str, Any] = {}
            try:
                async with asyncio.timeout(_PATIENCE):
                    person = (await self._client.read("users.info", user=user)).get("user") or {}
            except (SendError, TimeoutError) as error:
                log.debug("the name of a person is not known: %s", error)
            profile = person.get("profile") or {}
            name = str(profile.get("display_name") or profile.get("real_name") or person.get("name") or "")
            self._names[user] = name
        return name

    async def _takes_part(self, address: Address, id_: str) -> bool:
        """Whether an answer in this thread is one to the agent (X4): it was addressed there before."""
        if not self._follow or address.thread is None or address.thread == id_:
            return False
        known = self._ours.get(address)
        if known is None:
            known = self._gateway.activity(address).state != "idle" or bool(await self._gateway.past(address))
            self._ours[address] = known
        return known
