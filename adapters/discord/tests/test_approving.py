"""A tool that asks first, on Discord: buttons under the question, and only the press of the right person counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_access.plugin import AccessPlugin
from hermes_core.testing.approval_contract import SCRIPT, ApprovalContract, Asker, Wiper
from hermes_core.testing.platforms.discord import FakeDiscord

from .bench import Bench

PEOPLE = {"ann": "ann", "ben": "bob"}


class Thread:
    """A thread in a room."""

    def __init__(self, discord: FakeDiscord, bench: Bench, wiper: Wiper, room: str, thread: str) -> None:
        self.wiper = wiper
        self._discord = discord
        self._bench = bench
        self._room = room
        self._thread = thread

    async def begin(self) -> None:
        await self._discord.say(self._thread, PEOPLE["ben"], f"<@{self._discord.me['id']}> wipe it")

    def said(self) -> list[str]:
        return self._discord.texts(self._thread)

    def buttons(self) -> list[str]:
        (rows,) = [one["components"] for one in self._discord.mine(self._thread) if one["components"]]
        return [one["label"] for row in rows for one in row["components"]]

    async def press(self, name: str, label: str) -> None:
        await self._discord.press(self._thread, PEOPLE[name], label)

    def elsewhere(self) -> list[str]:
        return self._discord.texts(self._room)

    def requests(self) -> int:
        return len(self._bench.model.requests)


class TestApproval(ApprovalContract):
    @pytest.fixture
    async def asker(self, tmp_path: Path, discord: FakeDiscord) -> AsyncIterator[Asker]:
        room = discord.room()
        thread = discord.thread(room)
        wiper = Wiper()
        async with Bench(tmp_path, discord, SCRIPT, plugins=[AccessPlugin(), wiper]) as bench:
            yield Thread(discord, bench, wiper, room, thread)
