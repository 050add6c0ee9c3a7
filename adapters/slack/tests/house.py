"""A whole house behind the fake Slack: the real runtime, the real adapter and client library, a scripted model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core.config import Config
from hermes_core.messages import Address
from hermes_core.plugins import Plugins
from hermes_core.runtime import Runtime
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.model import Script, ScriptedModel
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_core.testing.platforms.slack_rules import BOT
from hermes_slack.adapter import App, SlackAdapter
from hermes_slack.plugin import SlackPlugin

__all__ = ["House", "Plugin"]


class Plugin(SlackPlugin):
    """The adapter as the plugin opens it, and with short times."""

    def __init__(
        self,
        slack: FakeSlack,
        folder: Path,
        *,
        http: bool = False,
        native_streams: bool = True,
    ) -> None:
        super().__init__(self.Settings(mode="http" if http else "socket"))
        self.adapter = SlackAdapter(
            App(
                slack.bot_token,
                "" if http else slack.app_token,
                slack.signing_secret if http else "",
                slack.base_url,
                native_streams=native_streams,
                ping_interval=0.2,
            ),
            folder / "slack",
        )
        self._adapter = self.adapter

    def _open(self, options: Any) -> SlackAdapter:
        return self.adapter


class House:
    """`async with House(folder, slack, scripts) as house`: connected, everybody served, UANN the owner.

    `ahead`: so many seconds its clock is ahead of Slack's.
    """

    def __init__(
        self,
        folder: Path,
        slack: FakeSlack,
        scripts: Iterable[Script] = (),
        *,
        http: bool = False,
        native_streams: bool = True,
        plugins: Iterable[object] = (),
        ahead: float = 0.0,
        **conversation: Any,
    ) -> None:
        self.slack = slack
        self._ahead = ahead
        self.model = ScriptedModel(scripts)
        self.ready = asyncio.Event()
        self.plugin = Plugin(
            slack,
            folder,
            http=http,
            native_streams=native_streams,
        )
        self._plugins = tuple(plugins)
        self._folder = folder
        self._http = http
        self._config = Config.of(
            {
                "runtime": {"data_dir": str(folder)},
                "model": {"provider": "scripted"},
                "access": {"allow": ["*"], "owners": ["slack:UANN"]},
                "conversation": conversation,
            }
        )

    async def __aenter__(self) -> Self:
        plugins = Plugins(self._config)
        for name, plugin in (
            ("slack", self.plugin),
            ("scripted", self.model),
            ("basics", BasicsPlugin()),
            ("busy", BusyPlugin()),
            *((type(one).__name__.lower(), one) for one in self._plugins),
        ):
            plugins.add(name, plugin)
        self.store = await SQLiteStore.open(self._folder)
        self.runtime = Runtime(
            self._config,
            adapters=["slack"],
            plugins=plugins,
            store=self.store,
            on_ready=lambda names: self.ready.set(),
        )
        await self.runtime.__aenter__()
        self.runtime.services.wall = lambda: time.time() + self._ahead
        self._run = asyncio.create_task(self.runtime.run())
        ready = asyncio.create_task(self.ready.wait())
        await asyncio.wait({self._run, ready}, return_when=asyncio.FIRST_COMPLETED, timeout=10)
        ready.cancel()
        if self._run.done():
            await self.runtime.__aexit__(None, None, None)
            self._run.result()
        if not self._http:
            await self.slack.connected(1)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.runtime.stop()
        await self._run
        await self.runtime.__aexit__(kind, error, trace)

    async def says(self, texts: list[str], channel: str, thread: str | None = None) -> None:
        """Wait until the agent's messages there show exactly these."""
        try:
            await self.slack.until(lambda: self.slack.texts(channel, thread) == texts)
        except TimeoutError:
            assert self.slack.texts(channel, thread) == texts

    async def settled(self, channel: str, thread: str | None = None) -> None:
        """Wait until all is sent there, and known to be."""
        lane = await self.runtime.router.lane(Address("slack", BOT["user_id"], channel, thread))
        async with asyncio.timeout(10):
            await lane.settled()
