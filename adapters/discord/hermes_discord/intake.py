"""Intake: what came in, in order per channel, into the gateway; and what was missed (D1, D8).

Discord has no receipt (E3). What the store does not take at once (D7) is offered again, with everything
behind it waiting; the channel's last seen id moves only after the commit, so what a crash leaves here is
read from the history by the next process.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

import discord

from hermes_core.adapter import Gateway
from hermes_core.errors import SendError, StoreError, reason
from hermes_core.messages import Address
from hermes_core.recent import Recent
from hermes_discord import convert
from hermes_discord.faults import outcome
from hermes_discord.limits import HISTORY_PAGE
from hermes_discord.line import Line
from hermes_discord.notebook import Known, Notebook

__all__ = ["REMEMBERED", "Intake"]

log = logging.getLogger("hermes.discord")

FIRST_PAUSE: Final = 0.25  # seconds until the store is asked again
LONGEST_PAUSE: Final = 5.0

READERS: Final = 4  # histories that are read at the same time, while people are being answered
REMEMBERED: Final = 5000  # channels whose conversation, and whose last message, is held in memory

Work = Callable[[], Awaitable[None]]


class Intake:
    """Lanes by channel id. `spawn` starts a task of the adapter's group; `heard` is told of each message taken."""

    def __init__(
        self,
        gateway: Gateway,
        line: Line,
        notebook: Notebook,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        heard: Callable[[Address, str], None],
    ) -> None:
        self._gateway = gateway
        self._line = line
        self._notebook = notebook
        self._spawn = spawn
        self._heard = heard
        self._lanes: dict[int, deque[Work]] = {}
        self._places = Recent[int, Address](REMEMBERED)
        self._reading = asyncio.Semaphore(READERS)

    @property
    def me(self) -> int:
        """The agent's own user id; known after the login."""
        assert self._line.user is not None, "events come after the login"
        return self._line.user.id

    # -- events, each put into its channel's lane; none of these waits

    def message(self, message: discord.Message) -> None:
        """A message was written."""
        self._put(message.channel.id, lambda: self._take(message))

    def posted(self, channel: int, id: str) -> None:
        """A message of the agent's own: behind what came before it, as all that was seen before it is seen."""
        lane = self._lanes.get(channel)
        if lane is None:
            self._notebook.seen(str(channel), id)
        else:
            lane.append(partial(self._see, channel, id))

    def edited(self, event: discord.RawMessageUpdateEvent) -> None:
        """A message was edited; link previews are edits without a time."""
        if event.message.edited_at is not None and event.message.author.id != self.me:
            self._put(event.channel_id, lambda: self._edit(event.message))

    def deleted(self, channel: int, ids: set[int]) -> None:
        """Messages were deleted."""
        self._put(channel, lambda: self._delete(channel, ids))

    def missed(self) -> None:
        """A new session begins: look in every known channel for what came in between (D8)."""
        for channel, known in self._notebook.channels():
            if channel.isdigit():
                self._put(int(channel), partial(self._look_back, int(channel), known))

    def _put(self, channel: int, work: Work) -> None:
        lane = self._lanes.get(channel)
        if lane is not None:
            lane.append(work)
            return
        self._lanes[channel] = deque((work,))
        self._spawn(self._work(channel))

    async def _work(self, channel: int) -> None:
        lane = self._lanes[channel]
        while lane:
            pause = FIRST_PAUSE
            while not await self._done(channel, lane[0]):
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            lane.popleft()
        del self._lanes[channel]

    async def _done(self, channel: int, work: Work) -> bool:
        """Do it; False if it is to be tried again, with everything behind it waiting."""
        try:
            await work()
        except (StoreError, SendError) as error:
            log.warning("what came in %d is not taken: %s", channel, error)
            return isinstance(error, SendError) and error.permanent
        except Exception as error:  # the edge to the platform: one event that is unlike all others must not
            # end the connection, after which it would be read again from the history, for ever
            what = "an event in %d cannot be read and is left out: %s"
            log.error(what, channel, reason(error), exc_info=error)
        return True

    # -- work

    async def address(self, channel: Any) -> Address:
        """The conversation of this channel; the platform is asked where it may be an unknown thread."""
        known = self._places.get(channel.id)
        if known is None:
            known = convert.address_of(str(self.me), channel)
            if known is None:
                async with outcome():
                    known = convert.address_of(str(self.me), await self._line.fetch_channel(channel.id))
            assert known is not None, "a fetched channel says what it is"
            self._places[channel.id] = known
        return known

    async def _see(self, channel: int, id: str) -> None:
        self._notebook.seen(str(channel), id)

    async def _take(self, message: discord.Message, address: Address | None = None) -> None:
        channel = str(message.channel.id)
        if convert.for_the_agent(message, self.me, self._gateway.knows):
            address = address or await self.address(message.channel)
            taken = convert.message_of(message, address, self.me)
            guild = getattr(message.guild, "id", None) or getattr(message.channel, "guild_id", None)
            self._notebook.meet(channel, str(address), str(guild) if guild else None, str(message.id - 1))
            self._heard(address, taken.id)
            await self._gateway.receive(taken)
        self._notebook.seen(channel, str(message.id))

    async def _edit(self, message: discord.Message) -> None:
        if self._notebook.known(str(message.channel.id)) is not None:
            address = await self.address(message.channel)
            await self._gateway.edited(address, str(message.id), convert.readable(message, self.me))

    async def _delete(self, channel: int, ids: set[int]) -> None:
        known = self._notebook.known(str(channel))
        if known is not None:
            for id_ in sorted(ids):
                await self._gateway.deleted(Address.parse(known.address), str(id_))

    async def _look_back(self, channel: int, known: Known) -> None:
        """Take up what came while nobody listened; what is too old by now is told from the time of each."""
        await self._line.wait_until_ready()
        newest = getattr(self._line.get_channel(channel), "last_message_id", None)
        if newest is not None and newest <= int(known.last):  # the guild has told us that there is nothing
            return
        async with self._reading:
            try:
                await self._read_up(channel, known)
            except SendError as error:
                if isinstance(error.__cause__, discord.NotFound):
                    self._notebook.forget(str(channel))
                raise

    async def _read_up(self, channel: int, known: Known) -> None:
        address = Address.parse(known.address)
        guild = int(known.guild) if known.guild else None
        place = self._line.get_partial_messageable(channel, guild_id=guild)
        while True:
            since = discord.Object(int(known.last))
            async with outcome():
                page = [
                    one async for one in place.history(limit=HISTORY_PAGE, after=since, oldest_first=True)
                ]
            for message in page:
                await self._take(message, address)
                known.last = max(known.last, str(message.id), key=int)
            if len(page) < HISTORY_PAGE:
                return
