"""One conversation in virtual time over several runs of the program, which may crash in between."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from hermes_after.plugin import AfterPlugin
from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core import history
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Author, Entry, Said, SaidKind, ToolCall, When
from hermes_core.messages import Role as PersonRole
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Script
from hermes_core.testing.platform import FakePlatform
from hermes_core.tools import Tool, tool
from hermes_followup.plugin import FollowupPlugin
from hermes_steer.plugin import SteerPlugin

__all__ = ["LOOK", "NOTE", "Line", "Talk", "Tools", "until"]

NOTE = "[A note that the user left for this point of the conversation:]\n"
LOOK = ToolCall("1", "look", "{}")


class Tools:
    """`look` stands until it may end."""

    def __init__(self) -> None:
        self.looking = asyncio.Event()
        self.may_end = asyncio.Event()

    @hookimpl
    def hermes_tools(self) -> Sequence[Tool]:
        @tool
        async def look() -> str:
            """Look."""
            self.looking.set()
            await self.may_end.wait()
            return "a wall"

        return [look]


class Line:
    """The store as one run of the program sees it; once cut, nothing of that run reaches it any more.

    `slow`: like a disk, it takes calls at once and in order, and says a moment later that they are done.
    """

    def __init__(self, store: MemoryStore, slow: bool = False) -> None:
        self._store = store
        self._slow = slow
        self._calls = itertools.count()
        self.cut = False

    def __getattr__(self, name: str) -> Any:
        target = getattr(self._store, name)

        def call(*arguments: Any, **named: Any) -> Awaitable[Any]:
            if self.cut:
                return asyncio.get_running_loop().create_future()
            result: Awaitable[Any] = target(*arguments, **named)
            return self._later(result) if self._slow else result

        return call

    async def _later(self, result: Awaitable[Any]) -> Any:
        await asyncio.sleep(0.001 + next(self._calls) * 1e-9)  # timers for one instant have no order
        return await result


class Talk:
    """One conversation over several runs of the program: what each model call read, and what was answered."""

    def __init__(self, folder: Path, mode: str = "queue", *, slow: bool = False, **tables: Any) -> None:
        self.store = MemoryStore()
        self.slow = slow
        self.folder = folder
        self.config = {"conversation": {"busy": mode, **tables.pop("conversation", {})}, **tables}
        self.line = Line(self.store)
        self.tools = Tools()
        self.platform = FakePlatform()
        self.bed = Bed(folder)

    async def begin(self, *scripts: Script) -> Bed:
        """A run of the program, whose model plays these scripts and then echoes."""
        self.line, self.tools, self.platform = Line(self.store, self.slow), Tools(), FakePlatform()
        plugins = [AfterPlugin(), BasicsPlugin(), BusyPlugin(), FollowupPlugin(), SteerPlugin(), self.tools]
        store: Any = self.line
        self.bed = Bed(
            self.folder, scripts, plugins=plugins, config=self.config, store=store, platform=self.platform
        )
        await self.bed.__aenter__()
        return self.bed

    async def end(self) -> None:
        """Stop in order."""
        await self.bed.__aexit__(None, None, None)

    async def crash(self) -> None:
        """The program is gone; what its tasks still do reaches nothing."""
        self.line.cut = True
        self.bed.runtime.services.closing = True
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(5)

    async def ask(self, text: str, author: str = "ann") -> str:
        """The answer to a command, whatever else goes on."""
        before = len(self.platform.sent)
        message = await self.platform.say(text, author=author)
        await until(lambda: any(one.answers == message.id for one in self.platform.sent[before:]))
        return next(one.text for one in self.platform.sent[before:] if one.answers == message.id)

    async def event(self, text: str) -> None:
        """What a job's end will do: an entry that comes from nobody's chat."""
        address = self.platform.address()
        entry = Entry(f"job:{text}:done", address, Author("job"), text, When.EVENT)
        admission = await self.store.admit(entry)
        (await self.bed.runtime.router.lane(address)).put(admission.entry, PersonRole.USER)

    def read(self, call: int = -1) -> list[str]:
        """What one model call read: texts with their labels, steps as their text or results."""
        return [
            history.render(one) if isinstance(one, Said) else one.text or one.results[0].text
            for one in self.bed.model.requests[call].items
        ]

    def notes(self) -> list[list[str]]:
        """The notes that stand in each ended turn of the store."""
        return [
            [item.text for item in turn.items if isinstance(item, Said) and item.kind is SaidKind.NOTE]
            for turn in self.store._conversations[self.platform.address()].ended
        ]


async def until(condition: Callable[[], object]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")
