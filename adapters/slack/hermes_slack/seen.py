"""Seen: how far each conversation was read, so that what was written during a downtime can be read up (D8)."""

from __future__ import annotations

import logging
from collections import OrderedDict
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["Place", "Seen"]

log = logging.getLogger("hermes.slack")

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
        self._written = float("-inf")
        if path is not None and path.exists():
            try:
                rows = msgspec.json.decode(path.read_bytes(), type=list[tuple[Place, str]])
                self._last.update(rows)
            except (OSError, msgspec.DecodeError) as error:
                log.warning("how far conversations were read is not known: %s", type(error).__name__)

    def places(self) -> list[tuple[Place, str]]:
        """Every place and its last time stamp."""
        return list(self._last.items())

    def note(self, place: Place, ts: str, now: float) -> None:
        """The message `ts` of this place was taken in (or is nothing to the agent)."""
        if ts > self._last.get(place, ""):
            self._last[place] = ts
        self._last.move_to_end(place)
        if len(self._last) > _PLACES:
            self._last.popitem(last=False)
        if now - self._written >= _EVERY:
            self.write()
            self._written = now

    def write(self) -> None:
        """Keep it now."""
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            beside = self._path.with_suffix(".new")
            beside.write_bytes(msgspec.json.encode(list(self._last.items())))
            beside.replace(self._path)
        except OSError as error:
            log.warning("how far conversations were read cannot be kept: %s", error.strerror)
