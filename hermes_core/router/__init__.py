"""Router: everything that comes in goes through here, on every path the same way (P3).

Theory of operation. `receive` checks who writes, makes the entry, commits it, and puts it into the
lane of its conversation. What happens before the commit is short and waits for nothing but the store;
what happens after it is the lane's and the conversation's. Conversations are held in memory while
something goes on in them, and some idle ones for speed; the store has all that is needed to make one
again, so forgetting one loses nothing (case 53).
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from hermes_core.adapter import Activity
from hermes_core.commands import parse
from hermes_core.errors import StoreError
from hermes_core.inbox import Signal
from hermes_core.messages import Address, Author, Entry, Message, Role, When, clean
from hermes_core.router.edits import edited
from hermes_core.router.lane import Lane
from hermes_core.router.late import Late
from hermes_core.router.pace import Pace
from hermes_core.router.services import Access, Services, Tasks
from hermes_core.router.strangers import Strangers
from hermes_core.store import OpenWork

__all__ = ["Access", "Router", "Services", "Tasks"]

log = logging.getLogger("hermes.router")

REMEMBERED: Final = 256  # idle conversations that stay in memory
MINUTE: Final = 60.0
FIRST_PAUSE: Final = 0.25  # seconds until a conversation that could not be read is tried again
LONGEST_PAUSE: Final = 5.0


class Router:
    """Takes messages in, and gives access to conversations."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._lanes: OrderedDict[Address, Lane] = OrderedDict()
        self._strangers = Strangers(services)
        self._pace = Pace(services.config)
        self._late = Late(services)

    # -- start and end

    async def restore(self) -> int:
        """Take up what a former run left, in all conversations (D6); gives how many there were."""
        services = self._services
        work = await services.store.open_work()
        for one in work:
            address = one.conversation.address
            if address.platform not in services.adapters:
                continue  # its adapter is off: everything stays where it is
            lane = self._lane(address)
            await lane.conversation.load()
            for outgoing in one.outbox:
                lookup = services.adapters[address.platform].features.lookup
                services.outbox.put(outgoing, uncertain=lookup or outgoing.key in one.uncertain)
            late = [entry for entry in one.entries if entry.late]
            self._late.put(late)
            lane.restore(one if not late else _without(one, late))
        return len(work)

    async def close(self) -> None:
        """Leave everything as it is for the next start: running turns stay open in the store (D4)."""
        self._services.closing = True
        await self._services.tasks.close(self._services.kill_after + 0.8)

    # -- in

    async def receive(self, message: Message, committed: Callable[[], None] | None = None) -> None:
        """Take one message in; see `Gateway.receive`."""
        services = self._services
        address, author = message.address, message.author
        role = services.access.role(address.platform, author)
        if role is Role.NOBODY:
            self._strangers.refuse(message)
            if committed is not None:
                committed()
            return
        lane = self._lanes.get(address) or self._lane(address)
        conversation = lane.conversation
        now = there = services.wall()
        pulse = services.pulses.get(address.platform)
        if pulse is not None:
            pulse.messages += 1
            pulse.last = now
            there -= pulse.ahead  # by the platform's clock, as what says when it was written
        text = message.text if message.text.isascii() else clean(message.text)
        called = None
        if text.startswith("/"):
            called = parse(text, self._handle(address.platform) if "@" in text else "")
        if message.group and called is None and _for_another(text):
            if committed is not None:
                committed()
            return
        try:
            if not conversation.loaded:
                await conversation.load()
            entry = Entry(
                message.id if message.id.isascii() else clean(message.id),
                address,
                author if author.name.isascii() and author.id.isascii() else _cleaned(author),
                text,
                conversation.mode if called is None else When.QUEUE,
                0,
                None,
                called is not None,
                message.group,
                message.partial,
                message.attachments,
                None,
                now,
                message.reply_to,
                message.sent is not None and conversation.is_late(message.sent, there),
            )
            admission = await services.store.admit(entry)
        except StoreError as error:
            conversation.refused(error)
            raise
        if committed is not None:
            committed()
        if admission.fresh:
            entry = admission.entry
            if entry.late or lane.bots or author.bot or (lane.counts and role < Role.ADMIN):
                self._weigh(lane, message, entry, role, there)
            else:
                lane.put(entry, role, called)

    def _weigh(self, lane: Lane, message: Message, entry: Entry, role: Role, now: float) -> None:
        """Let a committed message into its lane, unless it is late or one too many."""
        if entry.late:
            self._late.put((entry,))
            return
        why = self._refusal(lane, message, role, entry.command, now)
        if why is None:
            lane.put(entry, role)
        else:
            lane.refuse(entry, why)

    def _refusal(self, lane: Lane, message: Message, role: Role, command: bool, now: float) -> str | None:
        """Why what somebody wrote is not taken although that person is served; None: it is."""
        author, platform = message.author, message.address.platform
        if author.bot:
            lane.bots += 1
            return self._pace.bots(platform, lane.bots)
        if lane.bots:
            lane.bots = 0
        if message.sent is not None and now - message.sent > MINUTE:
            return None  # it comes from the time of an outage, all at once (D8)
        return self._pace.refusal(platform, author, role, command=command)

    def deliver(self, entry: Entry) -> None:
        """Take in an event that is committed already; for a platform that is off it stays in the store (J7).

        In a conversation that is in memory it has arrived when this returns.
        """
        if entry.address.platform not in self._services.adapters:
            return
        lane = self._lanes.get(entry.address)
        if lane is not None and lane.conversation.loaded:
            self._arrive(lane, entry)
        else:
            self._services.tasks.spawn(self._deliver(entry), f"event {entry.id}")

    async def _deliver(self, entry: Entry) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                lane = await self.lane(entry.address)
            except StoreError as error:
                log.error("%s cannot be delivered yet: %s", entry.id, error)
                await self._services.pause(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                if self._lanes.get(entry.address) is lane:  # it was not forgotten meanwhile
                    self._arrive(lane, entry)
                    return

    def _arrive(self, lane: Lane, entry: Entry) -> None:
        lane.conversation.arrive(entry, self._services.access.role(entry.address.platform, entry.author))

    async def edited(self, address: Address, id_: str, text: str) -> None:
        """D9: replace a message that still waits."""
        lane = self._lanes.get(address)
        if lane is not None:
            await edited(self._services, lane, clean(id_), clean(text), self._handle(address.platform))

    async def deleted(self, address: Address, id_: str) -> None:
        """D9: cancel a message that still waits."""
        lane = self._lanes.get(address)
        if lane is not None:
            lane.conversation.cancel([one.id for one in lane.conversation.within(clean(id_))])

    def _handle(self, platform: str) -> str:
        """The agent's own name on this platform, where its adapter knows one."""
        return str(getattr(self._services.adapters.get(platform), "handle", ""))

    # -- conversations

    def _lane(self, address: Address) -> Lane:
        lane = self._lanes.get(address)
        if lane is None:
            lane = self._lanes[address] = Lane(
                self._services, address, counts=self._pace.counts(address.platform)
            )
            if len(self._lanes) > REMEMBERED:
                self._forget()
        return lane

    def _forget(self) -> None:
        """Drop the oldest idle conversation; looks at a few only, so that a crowd of busy ones costs nothing."""
        for _ in range(8):
            address, lane = next(iter(self._lanes.items()))
            if lane.conversation.loaded and lane.forgettable:
                del self._lanes[address]
                if len(self._lanes) <= REMEMBERED:
                    return
            else:
                self._lanes.move_to_end(address)

    async def lane(self, address: Address) -> Lane:
        """The lane of this conversation, loaded."""
        lane = self._lane(address)
        if not lane.conversation.loaded:
            await lane.conversation.load()
        return lane

    def drained(self, address: Address) -> None:
        """The outbox has sent everything of this conversation."""
        self._services.caught_up(address)
        lane = self._lanes.get(address)
        if lane is not None:
            lane.changed()

    def depths(self) -> Iterator[tuple[Address, int, bool]]:
        """Each conversation in memory: its address, how many wait for a turn there, and whether one runs."""
        for address, lane in self._lanes.items():
            activity = lane.conversation.activity
            yield address, activity.queued, activity.state != "idle"

    def turns(self) -> set[asyncio.Task[None]]:
        """The turns that run at this instant."""
        running = (lane.conversation.running for lane in self._lanes.values())
        return {task for task in running if task is not None}

    def activity(self, address: Address) -> Activity:
        """What the conversation does at this instant."""
        lane = self._lanes.get(address)
        return lane.conversation.activity if lane is not None else Activity("idle")

    async def interrupt(self, address: Address) -> bool:
        """I10: end the running turn and let what waits begin; False where none ran."""
        lane = self._lanes.get(address)
        return lane is not None and bool(lane.conversation.signal(Signal.BREAK))


def _for_another(text: str) -> bool:
    """Whether it is a command for another bot of the group (X4), as it is none for this one."""
    return text.startswith("/") and parse(text) is not None


def _without(work: OpenWork, late: list[Entry]) -> OpenWork:
    return msgspec.structs.replace(work, entries=tuple(one for one in work.entries if one not in late))


def _cleaned(author: Author) -> Author:
    """An author whose names can be written down."""
    return msgspec.structs.replace(author, id=clean(author.id), name=clean(author.name))
