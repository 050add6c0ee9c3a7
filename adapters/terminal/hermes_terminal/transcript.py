"""Transcript: from what the runtime shows and sends to what is printed, each text exactly once.

Theory of operation. A turn's draft arrives in pieces and its final text arrives once more, whole,
through the outbox. Blocks that are finished are printed as they finish; the tail is shown live. When
the final text comes, only what was not printed yet is printed. Where the final text is not what was
drafted (a plugin changed it), the whole of it is printed below a mark: nothing printed can be taken
back. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from hermes_core.adapter import Broken, Drafted
from hermes_core.messages import Outgoing
from hermes_terminal.blocks import Block, Blocks
from hermes_terminal.clean import clean, one_line

__all__ = ["Printed", "Transcript"]

REPEAT: Final = "(may be a repeat)"
CHANGED: Final = "(the text was changed; the whole of it:)"
_REMEMBERED: Final = 16  # drafts whose final text is still to come; more than one is rare already


class Printed(msgspec.Struct, frozen=True):
    """One thing to print: a block of Markdown, or a mark, which is one dim line."""

    kind: Literal["block", "mark"]
    text: str
    inside: str = ""


class _Draft:
    """The text of one turn that is being written: its blocks and all that was drafted of its last part."""

    def __init__(self, turn: int, part: int) -> None:
        self.turn = turn
        self.part = part
        self.blocks = Blocks()
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def _blocks(blocks: Iterable[Block]) -> list[Printed]:
    return [Printed("block", block.text, block.inside) for block in blocks]


def _mark(text: str) -> Printed:
    return Printed("mark", text)


class Transcript:
    """What stands in the terminal. Every method gives what is to be printed now, in order."""

    def __init__(self) -> None:
        self._draft: _Draft | None = None
        self._awaited: dict[int, str] = {}  # printed whole; their final texts are still to come

    @property
    def tail(self) -> Block:
        """What is drafted and not printed yet."""
        return self._draft.blocks.tail if self._draft else Block("")

    def drafted(self, drafted: Drafted) -> list[Printed]:
        """More text. A new part, or another turn, ends the draft before it."""
        printed: list[Printed] = []
        draft = self._draft
        if draft is None or (draft.turn, draft.part) != (drafted.turn, drafted.part):
            printed += self._put_aside()
            draft = self._draft = _Draft(drafted.turn, drafted.part)
        delta = clean(drafted.delta)
        draft.pieces.append(delta)
        return printed + _blocks(draft.blocks.feed(delta))

    def broken(self, broken: Broken) -> list[Printed]:
        """The draft will not be completed: what there is of it and a mark (I5). A turn that showed nothing
        is broken silently (T6)."""
        draft = self._draft
        if draft is None or draft.turn != broken.turn:
            shown = self._awaited.pop(broken.turn, "")
            return [_mark(_broken(broken))] if shown.strip() else []
        self._draft = None
        shown = self._awaited.pop(broken.turn, "") + draft.text
        return [*_blocks(draft.blocks.close()), *([_mark(_broken(broken))] if shown.strip() else [])]

    def sent(self, outgoing: Outgoing) -> list[Printed]:
        """A message through the outbox: completes the draft of its turn, or stands for itself."""
        text = clean(outgoing.text)
        draft = self._draft
        if draft is not None and outgoing.turn == str(draft.turn):
            self._draft = None
            self._awaited.pop(draft.turn, None)
            if text.startswith(draft.text) and not outgoing.repeat:
                rest = text[len(draft.text) :]
                return _blocks([*draft.blocks.feed(rest), *draft.blocks.close()])
            printed = _blocks(draft.blocks.close())
            return printed + self._whole(outgoing, text, draft.text)
        if draft is not None and outgoing.within == str(draft.turn):  # it asks in the course of that turn
            return self.paused() + self._whole(outgoing, text, "")
        before = self._awaited.pop(int(outgoing.turn), "") if outgoing.turn.isdecimal() else ""
        return self._whole(outgoing, text, before)

    def paused(self) -> list[Printed]:
        """A tool runs, so what was drafted before it is complete."""
        return _blocks(self._draft.blocks.close()) if self._draft else []

    def cut(self) -> list[Printed]:
        """Something else is about to be printed: give out the tail, as far as it can be split."""
        return _blocks(self._draft.blocks.cut()) if self._draft else []

    def close(self, mark: str) -> list[Printed]:
        """Nothing more will come: what there is of a draft, and `mark`."""
        draft, self._draft = self._draft, None
        if draft is None or not draft.text.strip():
            return []
        return [*_blocks(draft.blocks.close()), _mark(mark)]

    def _put_aside(self) -> list[Printed]:
        draft, self._draft = self._draft, None
        if draft is None:
            return []
        self._awaited[draft.turn] = draft.text
        while len(self._awaited) > _REMEMBERED:
            del self._awaited[next(iter(self._awaited))]
        return _blocks(draft.blocks.close())

    def _whole(self, outgoing: Outgoing, text: str, drafted: str) -> list[Printed]:
        """The whole text, unless it is what was drafted; `drafted` is printed already."""
        if drafted.strip() == text.strip() and drafted.strip() and not outgoing.repeat:
            return []
        blocks = Blocks()
        printed = _blocks([*blocks.feed(text), *blocks.close()])
        if outgoing.repeat:
            return [_mark(REPEAT), *printed]
        return [*([_mark(CHANGED)] if drafted.strip() else []), *printed]


def _broken(broken: Broken) -> str:
    return f"✂ {one_line(broken.reason) or 'broken off'}"
