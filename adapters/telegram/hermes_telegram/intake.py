"""Intake: updates on their way into the house.

Theory of operation. Of one conversation they are taken one after the other, of different ones side by
side. What the store did not take is named, so that it is delivered again, and the store knows what it
has (D1, D7). A press is answered at the instant of its commit: until then the person's client waits.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final

import msgspec
import telegram

from hermes_core.adapter import Gateway
from hermes_core.errors import StoreError, reason
from hermes_core.messages import Address
from hermes_core.recent import Recent
from hermes_telegram import limits
from hermes_telegram.client import Client
from hermes_telegram.convert import Edited, Ignored, Me, Migrated, Pressed, Taken, convert
from hermes_telegram.memory import Memory

__all__ = ["Intake"]

log = logging.getLogger("hermes.telegram")

_REMEMBERED: Final = 256  # messages whose continuation may still come; conversations whose newest is known
_OLD_BUTTON: Final = "This button is too old. Type what you want instead."

What = Taken | Edited | Pressed


class Intake:
    """What comes in over one connection. `spawn` begins a task that ends with it; `heard` is told of each message."""

    def __init__(
        self,
        gateway: Gateway,
        client: Client,
        me: Me,
        memory: Memory,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        heard: Callable[[Address, str], None],
    ) -> None:
        self._gateway = gateway
        self._client = client
        self._me = me
        self._memory = memory
        self._spawn = spawn
        self._heard = heard
        self._continued = Recent[tuple[Address, str, str], float](_REMEMBERED)
        self.newest = Recent[Address, str](_REMEMBERED)  # the latest message of each

    async def take(self, updates: Sequence[telegram.Update]) -> int | None:
        """Take a batch; gives the first update that the store did not take, if any."""
        chains: dict[Address, list[tuple[int, What]]] = {}
        for update in updates:
            match self._converted(update):
                case Taken() as taken if self._is_meant(taken):
                    chains.setdefault(taken.message.address, []).append((update.update_id, taken))
                case Edited() as edited:
                    chains.setdefault(edited.address, []).append((update.update_id, edited))
                case Pressed(query=query, message=None):
                    self._spawn(self._client.pressed(query, _OLD_BUTTON))
                case Pressed(message=message) as pressed if message is not None:
                    chains.setdefault(message.address, []).append((update.update_id, pressed))
                case Migrated() as moved:
                    self._memory.move(moved.old, moved.new)
        if len(chains) == 1:
            (chain,) = chains.values()
            return await self._take(chain)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._take(chain)) for chain in chains.values()]
        return min((first for task in tasks if (first := task.result()) is not None), default=None)

    def _converted(self, update: telegram.Update) -> What | Migrated | Ignored:
        try:
            return convert(update, self._me)
        except Exception as error:  # the edge to foreign data: one update must not make the rest unheard
            what = "update %d could not be read and is passed over: %s"
            log.error(what, update.update_id, reason(error), exc_info=error)
            return Ignored("unreadable")

    async def _take(self, chain: Iterable[tuple[int, What]]) -> int | None:
        """Take what came for one conversation, in its order; stops at what the store does not take."""
        for update_id, what in chain:
            try:
                match what:
                    case Edited():
                        await self._gateway.edited(what.address, what.id, what.text)
                    case Pressed():
                        await self._press(what)
                    case Taken(message=message):
                        self._heard(message.address, message.id)
                        self.newest[message.address] = message.id
                        await self._gateway.receive(message)
            except StoreError as error:
                log.error("a message is not kept and will be delivered again: %s", error)
                return update_id
        return None

    async def _press(self, pressed: Pressed) -> None:
        answered = False

        def answer() -> None:
            nonlocal answered
            if not answered:
                answered = True
                self._spawn(self._client.pressed(pressed.query))

        assert pressed.message is not None, "the others are answered where they are read"
        await self._gateway.receive(msgspec.structs.replace(pressed.message, sent=time.time()), answer)
        answer()  # a repeated or refused one as well

    def _is_meant(self, taken: Taken) -> bool:
        """X4; the rest of a paste or album belongs to its beginning, though it names nobody."""
        message = taken.message
        key = (message.address, message.author.id, taken.album)
        sent = message.sent or 0.0
        if not taken.meant and sent - self._continued.get(key, 0.0) > limits.ALBUM_OR_PASTE:
            return False
        if message.group and message.partial:
            self._continued[key] = sent
        return True
