"""Kit: what the fixture `hermes` gives, a runtime that a test talks to in one line."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import sys
import tomllib
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

from hermes_core.messages import Step, ToolCall
from hermes_core.plugins.finding import made
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Script, ScriptedModel
from hermes_core.testing.platform import FakePlatform
from hermes_core.testing.virtual import VirtualLoop

__all__ = ["Hermes", "project_plugins"]


class Hermes:
    """A runtime around `platform` and `model`, both in memory; it starts with the first thing that is asked of it.

    `plugins` are plugin objects or classes, or pairs of a name and one; a class gets its settings from
    `config`. `model` has what the model says, call for call; after that it echoes. "ann" is the owner.
    """

    def __init__(
        self,
        folder: Path,
        plugins: Iterable[object] = (),
        config: Mapping[str, Any] | None = None,
        model: Iterable[Script] = (),
        real_time: bool = False,
    ) -> None:
        self._bed = Bed(folder, model, config=config)
        self._real_time = real_time
        self._given = [one if isinstance(one, tuple) else (_name(one), one) for one in plugins]
        self._keys = itertools.count(1)
        self.running = False

    @property
    def bed(self) -> Bed:
        """The parts: store, plugins, runtime."""
        return self._bed

    @property
    def platform(self) -> FakePlatform:
        """The platform: write there as any person, see all that was sent and shown."""
        return self._bed.platform

    @property
    def model(self) -> ScriptedModel:
        """The model: append to its `scripts`, look at its `requests`."""
        return self._bed.model

    async def __call__(self, text: str, channel: str = "1", author: str = "ann", **more: Any) -> str:
        """Write as a person, and wait until nothing is under way; gives what was answered since, "" for nothing."""
        await self.start()
        before = len(self.platform.texts(channel))
        await self.platform.say(text, channel, author, **more)
        await self.platform.settled(channel)
        return "\n".join(self.platform.texts(channel)[before:])

    async def tool(self, name: str, /, **arguments: Any) -> str:
        """Let the model call this tool in a turn; gives what the model reads as its result."""
        call = ToolCall(f"call-{next(self._keys)}", name, json.dumps(arguments))
        self.model.scripts[:0] = [[call], "done"]
        await self(f"call {name}")
        steps = [item for item in self.model.requests[-1].items if isinstance(item, Step)]
        results = [one for step in steps for one in step.results if one.call_id == call.id]
        assert results, f"there is no result of {name}: {self.platform.texts()[-1:]}"
        return results[-1].text

    async def job(self, name: str, /, **arguments: Any) -> str:
        """Let the model start this async tool, and wait for the end of the job; gives its output or result."""
        started = await self.tool(
            f"start_{name}", **{"idempotency_key": f"key-{next(self._keys)}", **arguments}
        )
        try:
            id_ = json.loads(started)["job_id"]
        except (ValueError, KeyError, TypeError):
            raise AssertionError(f"no job was started: {started}") from None
        jobs = self._bed.runtime.jobs
        while not (await jobs.status(id_)).state.final:  # noqa: ASYNC110 - virtual time waits for nothing
            await asyncio.sleep(0.01 if self._real_time else 1.0)
        await self.platform.settled()
        job = await jobs.status(id_)
        page = await jobs.result(id_)
        return page.text or job.result or job.summary

    async def start(self) -> None:
        """Start now, where something is to be looked at before anything is said."""
        if not self.running:
            for name, plugin in self._given:
                self._bed.plugins.add(name, made(name, plugin, self._bed.runtime.config))
            await self._bed.__aenter__()
            self.running = True

    async def close(self) -> None:
        """Stop; a second call does nothing. The fixture does this at the end of a test."""
        if self.running:
            self.running = False
            self.platform.hang_up()
            await self._bed.__aexit__(None, None, None)

    def run(self, test: Coroutine[Any, Any, None]) -> None:
        """Run a test to its end, and then close."""

        async def whole() -> None:
            try:
                await test
            finally:
                await self.close()

        with asyncio.Runner(loop_factory=None if self._real_time else VirtualLoop) as runner:
            runner.run(whole())


def project_plugins(test: Path) -> list[tuple[str, object]]:
    """What the `pyproject.toml` nearest to this test names in the group `hermes`, loaded."""
    for folder in test.parents:
        file = folder / "pyproject.toml"
        if file.is_file():
            project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
            points = project.get("entry-points", {}).get("hermes", {})
            return [(name, _load(value, folder)) for name, value in points.items()]
    return []


def _load(value: str, folder: Path) -> object:
    module, _, attribute = value.partition(":")
    try:
        found: object = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        sys.path.insert(0, str(folder))  # it is not installed: it is tested where it stands
        found = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        found = getattr(found, part)
    return found


def _name(plugin: object) -> str:
    kind = plugin if isinstance(plugin, type) else type(plugin)
    return kind.__name__.removesuffix("Plugin").lower()
