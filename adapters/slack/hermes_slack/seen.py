"""Seen: how far each conversation was read, so that what was written during a downtime can be read up (D8)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from pathlib import Path
from typing import Final

import msgspec

from hermes_core.writing import kept

__all__ = ["Place", "Seen"]

_PLACES: Final = 500  # conversations whose end is remembered, the latest used ones
_EVERY: Final = 5.0  # seconds between two writes; a crash costs reading what is known already


class Place(msgspec.Struct, frozen=True, order=True):
    """The top of a channel, or one of its threads."""

    channel: str
    thread: str | None = None


class Seen:
    """The time stamp of the last message that was taken in, for each place. Kept in `path`, if there is one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._last: OrderedDict[Place, str] = OrderedDict()
        self._changed = asyncio.Event()
        self._last.update(kept.read(path, list[tuple[Place, str]], []))

    def places(self) -> list[tuple[Place, str]]:
        """Every place and its last time stamp."""
        return list(self._last.items())

    def note(self, place: Place, ts: str) -> None:
        """The message `ts` of this place was taken in (or is nothing to the agent)."""
        if ts > self._last.get(place, ""):
            self._last[place] = ts
        self._last.move_to_end(place)
        if len(self._last) > _PLACES:
            self._last.popitem(last=False)
        self._changed.set()

    async def keep(self) -> None:
        """Keep it now and then, beside the path of a message; runs until it is cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self.write()
            await asyncio.sleep(_EVERY)

    def write(self) -> None:
        """Keep it now."""
        kept.write(self._path, list(self._last.items()))
