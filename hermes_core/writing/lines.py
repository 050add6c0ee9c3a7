"""Lines: the progress of jobs, one message each, edited in place (J13)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from hermes_core.adapter import Progress
from hermes_core.errors import SendError
from hermes_core.messages import Address
from hermes_core.writing.text import Desk, Text

__all__ = ["Lines"]

log = logging.getLogger("hermes.writing")

BETWEEN: Final = 3.0  # seconds between two states of one line
_LINES: Final = 500  # lines of jobs whose end was never heard of

Spawn = Callable[[Coroutine[Any, Any, None]], bool]


class _Line:
    __slots__ = ("busy", "ended", "shown", "text", "wanted")

    def __init__(self, text: Text) -> None:
        self.text = text
        self.wanted = ""
        self.shown = ""
        self.ended = asyncio.Event()
        self.busy = False

    async def rest(self) -> None:
        """A moment in which people can read it; its end is shown at once."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BETWEEN):
                await self.ended.wait()


class Lines:
    """The latest state of each job is shown; what came in between is left out. `spawn`: see `Writing`."""

    def __init__(self, desk: Desk, spawn: Spawn) -> None:
        self._desk = desk
        self._spawn = spawn
        self._lines: dict[tuple[Address, str], _Line] = {}

    def progress(self, address: Address, progress: Progress) -> None:
        """The line of a job takes the place of its last one."""
        key = (address, progress.job)
        line = self._lines.get(key)
        if line is None:
            text = Text(self._desk, address, f"job:{progress.job}", cut=self._desk.style.one_line())
            line = self._lines[key] = _Line(text)
            if len(self._lines) > _LINES:
                del self._lines[next(iter(self._lines))]
        line.wanted = progress.text
        if progress.done:
            line.ended.set()
        self._begin(key, line)

    def resume(self) -> None:
        """There is a connection again."""
        for key, line in list(self._lines.items()):
            if line.wanted != line.shown:
                self._begin(key, line)

    def _begin(self, key: tuple[Address, str], line: _Line) -> None:
        if not line.busy:
            line.busy = self._spawn(self._follow(key, line))

    async def _follow(self, key: tuple[Address, str], line: _Line) -> None:
        try:
            while line.shown != line.wanted:
                wanted = line.wanted
                try:
                    await line.text.live.finish(wanted)
                except SendError as error:
                    log.warning("the line of a job could not be shown: %s", error)
                line.shown = wanted
                await line.rest()
            if line.ended.is_set():
                self._lines.pop(key, None)
        finally:
            line.busy = False
