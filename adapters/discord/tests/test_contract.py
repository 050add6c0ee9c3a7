"""The suite for all adapters, passed by this one through discord.py against the fake Discord (P5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_core.adapter import Adapter
from hermes_core.config import Secrets
from hermes_core.messages import Address
from hermes_core.testing.adapter_contract import AdapterContract
from hermes_core.testing.driver import Driver, Post, opened
from hermes_core.testing.platforms.discord import FakeDiscord
from hermes_discord.plugin import DiscordPlugin


class DiscordDriver:
    """People who use Discord. At home they write to the agent directly; a thread is one of a server."""

    without: frozenset[str] = frozenset()

    def __init__(self, discord: FakeDiscord) -> None:
        self._discord = discord
        self._token = discord.token
        self._room = discord.room()
        self._chat = discord.direct()

    def open(self, folder: Path) -> Adapter:
        discord = self._discord
        settings = DiscordPlugin.Settings(
            base_url=discord.base_url,
            gateway_url=discord.gateway_url,
            secrets=Secrets({"DISCORD_BOT_TOKEN": discord.token}),
        )
        return opened(DiscordPlugin(settings), folder)

    async def shut(self, how: str) -> None:
        self._discord.gateway.refuse_connections = 1_000_000 if how == "down" else 0
        self._discord.token = "another" if how == "token" else self._token

    def person(self, name: str) -> str:
        return str(self._discord.person(name)["id"])

    def home(self) -> Address:
        return Address("discord", self._discord.me["id"], self._chat)

    def thread(self) -> Address:
        thread = self._discord.thread(self._room)
        return Address("discord", self._discord.me["id"], self._room, thread)

    def _place(self, address: Address | None) -> str:
        return (address.thread or address.channel) if address is not None else self._chat

    async def say(
        self,
        text: str,
        address: Address | None = None,
        author: str = "ann",
        *,
        reply_to: str | None = None,
        files: tuple[tuple[str, bytes], ...] = (),
    ) -> str:
        place = self._place(address)
        meant = text if place == self._chat else f"{self._discord.mention} {text}"
        return await self._discord.say(
            place, author, meant, reply_to=reply_to, files=dict(files), bot=author == "robot"
        )

    async def edit(self, id: str, text: str, address: Address | None = None) -> None:
        await self._discord.edit(self._place(address), id, text)

    async def delete(self, id: str, address: Address | None = None) -> None:
        await self._discord.delete(self._place(address), id)

    async def press(self, post: Post, label: str, address: Address | None = None) -> None:
        await self._discord.press(self._place(address), "ann", label)

    async def repeat(self, id: str, address: Address | None = None) -> None:
        await self._discord.tell("MESSAGE_CREATE", self._discord.world.message(self._place(address), id))

    async def trouble(self, kind: str, address: Address | None = None) -> None:
        place = self._place(address)
        match kind:
            case "limited":
                self._discord.limit("POST", f"{place}/messages", 0.2)
            case "cut before" | "cut after":
                self._discord.fail("POST", f"{place}/messages", cut=kind.removeprefix("cut "))
            case _:
                self._discord.closed_to[place] = (403, 50007)

    async def seen(self, address: Address | None = None) -> list[Post]:
        return [
            Post(
                one["id"],
                one["content"],
                one.get("message_reference", {}).get("message_id"),
                tuple(self._discord.cabinet.content(one)),
                tuple(button["label"] for row in one["components"] for button in row["components"]),
            )
            for one in self._discord.mine(self._place(address))
            if not one["content"].startswith("job: ")
        ]

    async def receipts(self, address: Address | None = None) -> list[str]:
        return [emoji for _, emoji in self._discord.reactions]

    async def status(self, address: Address | None = None) -> bool:
        return self._place(address) in self._discord.typing

    async def registered(self) -> list[str]:
        return [one["name"] for one in self._discord.commands]


class TestDiscord(AdapterContract):
    @pytest.fixture
    def driver(self, discord: FakeDiscord) -> Driver:
        return DiscordDriver(discord)
