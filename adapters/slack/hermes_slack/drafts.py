"""Drafts: the ids of unfinished texts, in a small file, so that another run can finish them (R3)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hermes_slack import kept

__all__ = ["Draft", "Drafts"]


class Draft(msgspec.Struct, frozen=True):
    """A text that was being shown: where, of which turn, and the time stamps of its messages."""

    address: str
    turn: str
    ids: tuple[str, ...]


class Drafts:
    """What is written at each change is a few lines. A file that cannot be read or written costs a mark under a
    broken text, nothing else."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._drafts: dict[str, Draft] = {}

    def left(self) -> list[Draft]:
        """The drafts of a former run. They stay in the file until `forget`."""
        if not self._drafts:
            self._drafts = kept.read(self._path, dict[str, Draft]) or {}
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
        others = {key: one for key, one in self._drafts.items() if one != draft}
        if len(others) < len(self._drafts):
            self._drafts = others
            self._write()

    def _write(self) -> None:
        kept.write(self._path, self._drafts)
