"""Typist: says that the agent types, and says it again before the sign lapses (case 42).

The sign shares the budget of its chat with everything that is written there, and is the first to wait (case 33).
"""

from __future__ import annotations

import asyncio
import logging

from hermes_core.errors import SendError
from hermes_core.messages import Address
from hermes_core.pacing import Typing, Want
from hermes_core.writing.text import Desk
from hermes_core.writing.values import Say

__all__ = ["Typist"]

log = logging.getLogger("hermes.writing")


class Typist:
    """The conversations in which the agent works and nothing is written yet."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._typing = Typing(desk.style.typing_every)
        self._addresses: dict[str, Address] = {}
        self._changed = asyncio.Event()

    def working(self, address: Address) -> None:
        """The agent works here. A reply that is soon enough needs no sign, which is a call of its own."""
        key = str(address)
        self._addresses[key] = address
        self._typing.start(key, self._desk.clock() + self._desk.style.typing_after)
        self._changed.set()

    def rest(self, address: Address) -> None:
        """The agent writes, or does nothing: nothing is said after this."""
        key = str(address)
        self._typing.stop(key)
        self._addresses.pop(key, None)

    async def run(self, say: Say) -> None:
        """Say it where it is due, for ever."""
        async with asyncio.TaskGroup() as group:
            while True:
                due, at = self._typing.due(self._desk.clock())
                for key in due:
                    address = self._addresses[key]
                    place = self._desk.style.destination(address)
                    if self._desk.budget.ask(place, Want.TYPING) == 0.0:
                        group.create_task(self._say(address, say))
                self._changed.clear()
                try:
                    async with asyncio.timeout(None if at is None else max(0.0, at - self._desk.clock())):
                        await self._changed.wait()
                except TimeoutError:
                    continue

    async def _say(self, address: Address, say: Say) -> None:
        if str(address) not in self._addresses:  # it has ended since
            return
        try:
            await say(address)
        except SendError as error:
            log.info("nobody was told that the agent types in %s: %s", address, error)
            if error.retry_after is not None:
                self._desk.budget.blocked(self._desk.style.destination(address), error.retry_after)
