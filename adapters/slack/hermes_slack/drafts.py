"""Drafts: the ids of unfinished texts, in a small file, so that another run can finish them (R3)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hermes_slack import kept

__all__ = ["Draft", "Drafts"]


class Draft(msgspec.Struct, frozen=True):
    """A text that was being shown: where, of which turn, and the time stamps of its messages.

    `begun`: the first words of a message that was being posted `at` that time, until its time stamp is known.
    """

    address: str
    turn: str
    ids: tuple[str, ...] = ()
    begun: str = ""
    at: float = 0.0
    key: str = ""


class Drafts:
    """What is written at each change is a few lines. A file that cannot be read or written costs a mark under a
    broken text, nothing else."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._drafts: dict[str, Draft] = {}

    def left(self) -> list[Draft]:
        """The drafts of a former run. They stay in the file until they are `closed`."""
        if not self._drafts:
            self._drafts = kept.read(self._path, dict[str, Draft]) or {}
        return list(self._drafts.values())

    def posting(self, key: str, address: str, turn: str, begun: str, at: float) -> None:
        """The text `key` gets one more message; whether it has it is not known."""
        before = self._drafts.get(key)
        ids = before.ids if before is not None else ()
        self._drafts[key] = Draft(address, turn, ids, begun, at, key)
        self._write()

    def posted(self, key: str, address: str, turn: str, id_: str) -> None:
        """The text `key` has one more message."""
        before = self._drafts.get(key)
        ids = before.ids if before is not None else ()
        self._drafts[key] = Draft(address, turn, ids if id_ in ids else (*ids, id_), key=key)
        self._write()

    def closed(self, key: str) -> None:
        """The text `key` is finished, or goes on under another key."""
        if self._drafts.pop(key, None) is not None:
            self._write()

    def _write(self) -> None:
        kept.write(self._path, self._drafts)
