"""Signs: what is shown beside the texts: typing while the agent works, and reactions as receipts.

They share the budget of their chat with everything that is written there, and are the first to wait (case 33).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from hermes_core.adapter import Received
from hermes_core.errors import SendError
from hermes_core.messages import Address
from hermes_core.pacing import Budget, Typing, Want
from hermes_telegram import limits
from hermes_telegram.client import Client, native

__all__ = ["Signs"]

log = logging.getLogger("hermes.telegram")


class Signs:
    """The signs of one connection. `spawn` begins a task that ends with it."""

    def __init__(
        self,
        client: Client,
        budget: Budget,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._client = client
        self._budget = budget
        self._spawn = spawn
        self._typing = Typing(limits.TYPING)
        self._typists: dict[str, Address] = {}
        self._typed = asyncio.Event()

    def working(self, address: Address) -> None:
        """The agent works here, and writes nothing yet."""
        key = str(address)
        self._typists[key] = address
        self._typing.start(key, time.monotonic() + limits.TYPING_AFTER)
        self._typed.set()

    def rest(self, address: Address) -> None:
        """The agent writes, or does nothing: nothing is said after this (case 42)."""
        key = str(address)
        self._typing.stop(key)
        self._typists.pop(key, None)

    async def run(self) -> None:
        """Say it again before it lapses, for ever."""
        while True:
            due, at = self._typing.due(time.monotonic())
            for key in due:
                address = self._typists[key]
                if self._budget.ask(address.channel, Want.TYPING) == 0.0:
                    self._spawn(self._type(address))
            self._typed.clear()
            try:
                async with asyncio.timeout(None if at is None else max(0.0, at - time.monotonic())):
                    await self._typed.wait()
            except TimeoutError:
                continue

    async def _type(self, address: Address) -> None:
        if str(address) not in self._typing:  # it has ended since
            return
        try:
            await self._client.typing(address)
        except SendError as error:
            self._parked(address, error)

    async def receipt(self, address: Address, received: Received) -> None:
        """A reaction on the message (T6); where reactions are not allowed there is none."""
        emoji = limits.REACTIONS.get(received.kind)
        number = native(received.id)
        if emoji is None or number is None:
            return
        wait = self._budget.ask(address.channel, Want.STREAM_EDIT)
        if wait > 0.0:
            await asyncio.sleep(min(wait, limits.TYPING))
            if self._budget.ask(address.channel, Want.STREAM_EDIT) > 0.0:
                return
        try:
            await self._client.react(address, number, emoji)
        except SendError as error:
            self._parked(address, error)

    def _parked(self, address: Address, error: SendError) -> None:
        log.info("something passing was not shown in %s: %s", address, error)
        if error.retry_after is not None:
            self._budget.blocked(address.channel, error.retry_after)
