"""A whole house with the real adapter and client library, against the strict Telegram on loopback."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core.config import Config
from hermes_core.messages import Address
from hermes_core.plugins import Plugins
from hermes_core.runtime import Door, Runtime
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.model import Script, ScriptedModel
from hermes_core.testing.platforms.telegram import TelegramServer
from hermes_followup.plugin import FollowupPlugin
from hermes_telegram.plugin import TelegramPlugin


class House:
    """A runtime that serves one Telegram; `model` has what it was asked."""

    def __init__(
        self,
        telegram: TelegramServer,
        folder: Path,
        scripts: Iterable[Script] = (),
        store: Any = None,
        plugins: Iterable[object] = (),
        doors: Sequence[Door] = (),
        **tables: Any,
    ) -> None:
        self.telegram = telegram
        self.model = ScriptedModel(scripts)
        self.ready = asyncio.Event()
        own = {"base_url": telegram.base_url, "token_env": "TOKEN", **tables.pop("own", {})}
        config = Config.of(
            {
                "runtime": {"data_dir": str(folder)},
                "model": {"provider": "scripted"},
                "access": {"allow": ["*"], "owners": ["telegram:7"]},
                "adapters": {"telegram": own},
                **tables,
            },
            {"TOKEN": telegram.token},
        )
        loaded = Plugins(config)
        settings = config.section("adapters", "telegram", TelegramPlugin.Settings)
        self.plugin = TelegramPlugin(settings)
        for name, plugin in (
            ("telegram", self.plugin),
            ("scripted", self.model),
            ("basics", BasicsPlugin()),
            ("busy", BusyPlugin()),
            ("followup", FollowupPlugin()),
            *((type(one).__name__.lower(), one) for one in plugins),
        ):
            loaded.add(name, plugin)
        self.plugins = loaded
        self.runtime = Runtime(
            config,
            adapters=["telegram"],
            on_ready=lambda names: self.ready.set(),
            store=store,
            plugins=loaded,
            doors=doors,
        )
        self.task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.runtime.__aenter__()
        self.task = asyncio.create_task(self.runtime.run())
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self.task is not None
        self.runtime.stop()
        with contextlib.suppress(Exception):
            await self.task
        await self.runtime.__aexit__(None, None, None)

    async def up(self) -> House:
        """Wait until messages arrive."""
        async with asyncio.timeout(10):
            await self.ready.wait()
        return self

    def asked(self) -> list[list[str]]:
        """The texts in the user role of every request to the model."""
        return [self.model.texts(n) for n in range(len(self.model.requests))]

    async def settled(self, chat: int = 7, thread: int | None = None) -> None:
        """Wait until this conversation is idle."""
        place = Address("telegram", "42", str(chat), None if thread is None else str(thread))
        async with asyncio.timeout(10):
            await (await self.runtime.router.lane(place)).settled()


Open = Callable[..., House]


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    """A Telegram without rate limits in which Ann (7) has a private chat."""
    async with TelegramServer() as server:
        server.chat(7)
        yield server


@pytest.fixture
def open_house(telegram: TelegramServer, tmp_path: Path) -> Open:
    """Makes a house on `telegram`; `async with open_house(scripts) as house`."""

    def make(scripts: Iterable[Script] = (), **more: Any) -> House:
        more["own"] = {"paced": False, **more.get("own", {})}
        server = more.pop("server", telegram)
        return House(server, tmp_path, scripts, **more)

    return make


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    """A real store that outlives the houses of a test."""
    opened = await SQLiteStore.open(tmp_path)
    yield opened
    await opened.close()
