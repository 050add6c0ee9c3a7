"""The adapter alone, with a gateway whose commits the test lets through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from hermes_core.adapter import Activity, KnownCommand
from hermes_core.errors import StoreUnwritable
from hermes_core.messages import Address, Message
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_slack.adapter import App, SlackAdapter

__all__ = ["HERE", "Connected", "Gate", "app_of"]

HERE = Address("slack", "U0AGENT", "D1")


class Gate:
    """A gateway whose commits the test lets through, or refuses."""

    def __init__(self) -> None:
        self.received: list[Message] = []
        self.committed: list[float] = []
        self.pulses = 0
        self.commits: asyncio.Queue[bool] = asyncio.Queue()
        self.is_ready = asyncio.Event()
        self.rest = asyncio.Event()  # no turn of a former run goes on

    async def receive(self, message: Message, committed: Callable[[], None] | None = None) -> None:
        self.received.append(message)
        if not await self.commits.get():
            raise StoreUnwritable("The disk is full.")
        self.committed.append(asyncio.get_running_loop().time())
        if committed is not None:
            committed()

    async def edited(self, address: Address, id: str, text: str) -> None:
        raise AssertionError("nobody edits here")

    async def deleted(self, address: Address, id: str) -> None:
        raise AssertionError("nobody deletes here")

    def commands(self) -> tuple[KnownCommand, ...]:
        return ()

    def knows(self, command: str) -> bool:
        return False

    def activity(self, address: Address) -> Activity:
        return Activity("idle")

    async def settled(self, address: Address) -> None:
        await self.rest.wait()

    async def interrupt(self, address: Address) -> bool:
        return False

    async def past(self, address: Address) -> list[tuple[str, str]]:
        return []

    def ready(self) -> None:
        self.is_ready.set()

    def dated(self, header: str | None) -> None:
        return

    def alive(self) -> None:
        self.pulses += 1


class Connected:
    """`async with Connected(slack) as (adapter, gate)`: the adapter alone, running."""

    def __init__(self, slack: FakeSlack, folder: Path | None = None, **app: object) -> None:
        self.adapter = SlackAdapter(app_of(slack, **app), folder)
        self.gate = Gate()

    async def __aenter__(self) -> tuple[SlackAdapter, Gate]:
        self._run = asyncio.create_task(self.adapter.run(self.gate))
        ready = asyncio.create_task(self.gate.is_ready.wait())
        await asyncio.wait({self._run, ready}, return_when=asyncio.FIRST_COMPLETED, timeout=10)
        ready.cancel()
        if self._run.done():
            self._run.result()
        return self.adapter, self.gate

    async def __aexit__(self, *exception: object) -> None:
        self._run.cancel()
        async with asyncio.timeout(1.0):  # `Adapter.run`: ends within a second
            await asyncio.wait({self._run})


def app_of(slack: FakeSlack, **app: object) -> App:
    given = App(slack.bot_token, slack.app_token, base_url=slack.base_url, ping_interval=0.2)
    return msgspec.structs.replace(given, **app)
