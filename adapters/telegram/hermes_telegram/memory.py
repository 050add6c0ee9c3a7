"""Memory: the little that has to outlive a restart beside the store: moved groups, and texts on show (R3)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import msgspec

__all__ = ["Draft", "Memory"]

log = logging.getLogger("hermes.telegram")

_DRAFTS: Final = 200  # conversations whose last draft is remembered


class Draft(msgspec.Struct, frozen=True):
    """A text that is shown while it is written: its turn, its messages, and what stands in them.

    `text` is empty once it is whole; its ids are kept, so that a repeated reply finds its messages. `files`
    are those of them that are files. `posting`: one more message may be out whose id was never heard (D5).
    """

    turn: int
    ids: tuple[str, ...]
    text: str = ""
    files: tuple[str, ...] = ()
    posting: bool = False


class _Kept(msgspec.Struct):
    moved: dict[int, int] = msgspec.field(default_factory=dict)  # a group's first id, and its present one
    drafts: dict[str, Draft] = msgspec.field(default_factory=dict)  # by address


class Memory:
    """One small file, replaced as a whole at each change; without a file it is kept while the program runs.

    A file that cannot be written or read costs the comfort that it gives, and one line in the log.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._kept = _Kept()
        if file is not None and file.exists():
            try:
                self._kept = msgspec.json.decode(file.read_bytes(), type=_Kept)
            except (OSError, msgspec.DecodeError) as error:
                log.warning("%s cannot be read and begins anew: %s", file.name, type(error).__name__)
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
        self._write()

    def showing(self, address: str, draft: Draft) -> None:
        """What is shown there now."""
        drafts = self._kept.drafts
        if drafts.get(address) == draft:
            return
        drafts.pop(address, None)  # the longest unchanged stand first
        drafts[address] = draft
        if len(drafts) > _DRAFTS:
            del drafts[next(iter(drafts))]
        self._write()

    def whole(self, address: str, turn: int, *, keep: bool) -> None:
        """The draft of this turn is whole; `keep`: its messages are the reply, and found by a repeated one."""
        draft = self._kept.drafts.get(address)
        if draft is not None and draft.turn == turn:
            self.showing(address, msgspec.structs.replace(draft, text="") if keep else Draft(turn, ()))

    def drafts(self) -> dict[str, Draft]:
        """What was shown when it was last noted, by address."""
        return dict(self._kept.drafts)

    def _write(self) -> None:
        if self._file is None:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._file.with_suffix(".new")
            fresh.write_bytes(msgspec.json.encode(self._kept))
            fresh.replace(self._file)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._file.name, type(error).__name__)
