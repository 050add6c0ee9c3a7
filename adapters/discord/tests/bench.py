"""Bench: the whole runtime with the real adapter, against the fake Discord."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from hermes_core.config import Config
from hermes_core.messages import Address
from hermes_core.plugins import Plugins
from hermes_core.runtime import Runtime
from hermes_core.store import Store
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Script, ScriptedModel
from hermes_core.testing.platforms.discord import FakeDiscord
from hermes_discord.plugin import DiscordPlugin

__all__ = ["Bench", "until"]


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until something real has happened; fails after `seconds`."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


class Bench:
    """`async with Bench(folder, discord) as bench`: connected when it begins. "ann" and all others are served.

    `ahead`: so many seconds its clock is ahead of Discord's.
    """

    def __init__(
        self,
        folder: Path,
        discord: FakeDiscord,
        scripts: Iterable[Script] = (),
        *,
        plugins: Iterable[object] = (),
        settings: Mapping[str, Any] | None = None,
        access: Mapping[str, Any] | None = None,
        store: Store | None = None,
        ahead: float = 0.0,
    ) -> None:
        self.discord = discord
        self._ahead = ahead
        self.model = ScriptedModel(scripts)
        self.store = store or MemoryStore()
        own = {"token_env": "BOT", "base_url": discord.base_url, "gateway_url": discord.gateway_url}
        tables = {
            "runtime": {"data_dir": str(folder)},
            "model": {"provider": "scripted"},
            "access": dict(access or {"allow": ["*"]}),
            "adapters": {"discord": {**own, **(settings or {})}},
        }
        config = Config.of(tables, {"BOT": discord.token})
        loaded = Plugins(config)
        loaded.add("discord", DiscordPlugin(config.section("adapters", "discord", DiscordPlugin.Settings)))
        loaded.add("scripted", self.model)
        for plugin in plugins:
            loaded.add(type(plugin).__name__.removesuffix("Plugin").lower(), plugin)
        self.ready = asyncio.Event()
        self.runtime = Runtime(
            config,
            adapters=["discord"],
            store=_Kept(self.store),
            plugins=loaded,
            on_ready=lambda names: self.ready.set(),
        )
        self.run: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.runtime.__aenter__()
        self.runtime.services.wall = lambda: time.time() + self._ahead
        self.run = asyncio.create_task(self.runtime.run())
        waiting = asyncio.create_task(self.ready.wait())
        async with asyncio.timeout(20.0):
            await asyncio.wait({waiting, self.run}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.runtime.stop()
        if self.run is not None:
            await asyncio.wait({self.run}, timeout=5.0)
        await self.runtime.__aexit__(None, None, None)

    def address(self, channel: str, thread: str | None = None) -> Address:
        """A conversation of the fake bot."""
        return Address("discord", self.discord.me["id"], channel, thread)

    async def heard(self, channel: str, count: int = 1, seconds: float = 10.0) -> list[str]:
        """What the agent shows in this channel, once there are `count` messages and it is idle."""
        await until(lambda: len(self.discord.texts(channel)) >= count, seconds)
        return self.discord.texts(channel)


class _Kept:
    """A store that outlives the runtime that uses it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def close(self) -> None:
        """Stays open."""
