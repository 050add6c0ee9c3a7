"""Bed: a whole runtime around a fake platform and a scripted model, for a test of one story."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hermes_core.config import Config
from hermes_core.plugins import Plugins, load
from hermes_core.runtime import Runtime
from hermes_core.store import Store
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Script, ScriptedModel
from hermes_core.testing.platform import FakePlatform

__all__ = ["Bed"]


class Bed:
    """`async with Bed(folder, plugins=[…]) as bed: await bed.say("hello")`.

    Everybody on the fake platform is served; "ann" is the owner. `config` has tables as in
    `hermes.toml`. A store that is handed in is not closed with the bed, so that a second bed can go
    on where the first stopped. `installed`: what is installed and enabled is loaded too.
    """

    def __init__(
        self,
        folder: Path,
        scripts: Iterable[Script] = (),
        *,
        plugins: Iterable[object] = (),
        config: Mapping[str, Any] | None = None,
        store: Store | None = None,
        platform: FakePlatform | None = None,
        model: ScriptedModel | None = None,
        installed: bool = False,
    ) -> None:
        self.platform = platform or FakePlatform()
        self.model = model or ScriptedModel(scripts)
        self.store = store or MemoryStore()
        tables: dict[str, Any] = {
            "runtime": {"data_dir": str(folder), "blocked_after": 0},  # a virtual clock cannot be watched
            "model": {"provider": "scripted"},
            "access": {"allow": ["*"], "owners": [f"{self.platform.platform}:ann"]},
        }
        for name, table in (config or {}).items():
            tables[name] = {**tables.get(name, {}), **table}
        settings = Config.of(tables)
        self.plugins = load(settings) if installed else Plugins(settings)
        self.plugins.add("fake", self.platform)
        self.plugins.add("scripted", self.model)
        for plugin in plugins:
            self.plugins.add(type(plugin).__name__.removesuffix("Plugin").lower(), plugin)
        self.runtime = Runtime(
            settings,
            adapters=[self.platform.platform],
            store=_Kept(self.store),
            plugins=self.plugins,
        )
        self._run: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.runtime.__aenter__()
        self._run = asyncio.create_task(self.runtime.run())
        connected = asyncio.create_task(self.platform.connected.wait())
        await asyncio.wait({connected, self._run}, return_when=asyncio.FIRST_COMPLETED)
        connected.cancel()
        if self._run.done():
            self._run.result()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.runtime.stop()
        if self._run is not None:
            await self._run
        await self.runtime.__aexit__(kind, error, trace)

    async def say(self, text: str, channel: str = "1", author: str = "ann", **more: Any) -> str:
        """Write as a person, and wait until the conversation is idle; gives the last text that was sent."""
        await self.platform.say(text, channel, author, **more)
        await self.platform.settled(channel)
        texts = self.platform.texts(channel)
        return texts[-1] if texts else ""


class _Kept:
    """A store that outlives the runtime that uses it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def close(self) -> None:
        """Stays open."""
