"""Drafts: the ids of unfinished texts, in a small file, so that another run can finish them (R3)."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

__all__ = ["Draft", "Drafts"]

log = logging.getLogger("hermes.slack")


class Draft(msgspec.Struct, frozen=True):
    """A text that was being shown: where, of which turn, and the time stamps of its messages."""

    address: str
    turn: str
    ids: tuple[str, ...]


class Drafts:
    """What is written at each change is a few lines, and survives the process, not the machine.

    A file that cannot be read or written is reported, and costs a mark under a broken text, nothing else.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._drafts: dict[str, Draft] = {}

    def left(self) -> list[Draft]:
        """The drafts of a former run. They stay in the file until `forget`."""
        if self._path is None or self._drafts or not self._path.exists():
            return []
        try:
            self._drafts = msgspec.json.decode(self._path.read_bytes(), type=dict[str, Draft])
        except (OSError, msgspec.DecodeError) as error:
            log.warning("the list of unfinished texts cannot be read: %s", type(error).__name__)
        return list(self._drafts.values())

    def posted(self, key: str, address: str, turn: str, id_: str) -> None:
        """The text `key` has one more message."""
        before = self._drafts.get(key)
        ids = before.ids if before is not None else ()
        if id_ not in ids:
            self._drafts[key] = Draft(address, turn, (*ids, id_))
            self._write()

    def closed(self, key: str) -> None:
        """The text `key` is finished."""
        if self._drafts.pop(key, None) is not None:
            self._write()

    def forget(self, draft: Draft) -> None:
        """The text of a former run is finished, or goes on under another key."""
        kept = {key: one for key, one in self._drafts.items() if one != draft}
        if len(kept) < len(self._drafts):
            self._drafts = kept
            self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            beside = self._path.with_suffix(".new")
            beside.write_bytes(msgspec.json.encode(self._drafts))
            beside.replace(self._path)
        except OSError as error:
            log.warning("the list of unfinished texts cannot be written: %s", error.strerror)
