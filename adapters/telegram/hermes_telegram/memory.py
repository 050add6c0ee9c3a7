"""Memory: which groups were moved. It has to outlive a restart, and Telegram tells it once."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hermes_core.writing import kept

__all__ = ["Memory"]


class _Kept(msgspec.Struct):
    moved: dict[int, int] = msgspec.field(default_factory=dict)  # a group's first id, and its present one


class Memory:
    """One small file; without a file it is kept while the program runs."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._kept = kept.read(file, _Kept, _Kept())
        self._first = {present: first for first, present in self._kept.moved.items()}

    def chat(self, channel: int) -> int:
        """The present id of a chat whose conversation is named by its first one."""
        return self._kept.moved.get(channel, channel)

    def channel(self, chat: int) -> int:
        """The first id of a chat: the name of its conversation."""
        return self._first.get(chat, chat)

    def move(self, old: int, new: int) -> None:
        """A group became a supergroup: its conversation goes on there."""
        first = self._first.pop(old, old)
        if self._kept.moved.get(first) == new:
            return
        self._kept.moved[first] = new
        self._first[new] = first
        kept.write(self._file, self._kept)
