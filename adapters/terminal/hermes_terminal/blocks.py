"""Blocks: Markdown that arrives in pieces, split where a block has certainly ended.

Theory of operation. A finished block is printed for good and never touched again; what is not
finished (the tail) is shown in a place that can be redrawn. So a block may be given out only when
nothing that follows can change how it looks: a paragraph at its blank line, a fence at its closing
line, a heading at its end of line, a list at the first line that is not part of it. Where this reader
is in doubt it waits: a block that ends too late costs nothing, one that ends too early is torn.

Work is linear in the length of the text. Whatever the pieces, the texts of all blocks joined are the
text that came in.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

__all__ = ["Block", "Blocks"]

_FENCE: Final = re.compile(r"( *)(`{3,}(?=[^`]*$)|~{3,})(.*)", re.DOTALL)
_HEADING: Final = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_ITEM: Final = re.compile(r" {0,3}(?:[-+*]|\d{1,9}[.)])(?:[ \t]|$)")
_TOP: Final = 3  # columns by which a block at the top may be indented


class Block(msgspec.Struct, frozen=True):
    """A stretch of Markdown that is printed at once.

    `inside` is the opening line of a code fence in which `text` begins, because the fence was cut;
    empty otherwise.
    """

    text: str
    inside: str = ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


class Blocks:
    """Splits one text. `feed` and `close` give finished blocks, `tail` what is not finished."""

    def __init__(self) -> None:
        self._lines: list[str] = []  # complete lines of the block that is open
        self._line: list[str] = []  # pieces of the line that is not complete
        self._torn = False  # that line's beginning was given out by `cut`
        self._inside = ""  # the open block's text begins inside this fence
        self._fence: tuple[str, int, str] | None = None  # mark, indent, opening line
        self._sticky = False  # the open block may go on after a blank line: a list, indented code
        self._list = False
        self._blank = False  # the open block ends with a blank line

    @property
    def tail(self) -> Block:
        """What is not finished, as it would look if it ended here."""
        return Block("".join(self._lines) + "".join(self._line), self._inside)

    def feed(self, piece: str) -> list[Block]:
        """Take more text; gives the blocks that it finished, in order."""
        done: list[Block] = []
        *lines, rest = piece.split("\n")
        for line in lines:
            self._line.append(line)
            self._line.append("\n")
            complete, torn = "".join(self._line), self._torn
            self._line, self._torn = [], False
            if torn or not self._take(complete, done):
                self._lines.append(complete)
        if rest:
            self._line.append(rest)
        return done

    def close(self) -> list[Block]:
        """The text ends here; gives what was left, if anything."""
        done: list[Block] = []
        last, torn = "".join(self._line), self._torn
        self._line, self._torn = [], False
        if last and (torn or not self._take(last, done)):
            self._lines.append(last)
        self._emit(done)
        self._fence = None
        return done

    def cut(self) -> list[Block]:
        """Give out the tail although it is not finished, because something must be printed now.

        A line of code and a word stay whole: what cannot be split yet stays in the tail. A fence that
        was cut goes on in the next block, which says so.
        """
        line = "".join(self._line)
        if self._fence is None:
            space = line.rfind(" ") + 1
            if space and line[:space].strip():
                self._lines.append(line[:space])
                line, self._torn = line[space:], True
        if not "".join(self._lines).strip():
            return []
        done: list[Block] = []
        self._emit(done)
        self._line = [line] if line else []
        self._inside = self._fence[2] if self._fence else ""
        return done

    def _emit(self, done: list[Block]) -> None:
        text = "".join(self._lines)
        if text:
            done.append(Block(text, self._inside))
        self._lines, self._inside = [], ""
        self._sticky = self._list = self._blank = False

    def _take(self, line: str, done: list[Block]) -> bool:
        """Read a complete line; True where it is dealt with, False where it joins the open block."""
        if self._fence is not None:
            return self._in_fence(line, done)
        if not line.strip():
            self._lines.append(line)
            self._blank = True
            if not self._sticky and "".join(self._lines).strip():
                self._emit(done)
            return True
        if self._blank and self._sticky and self._ends_sticky(line):
            self._emit(done)
        if _HEADING.match(line) and not self._sticky:
            return self._whole(line, done)
        opening = _FENCE.match(line)
        if opening and (self._sticky or len(opening[1]) <= _TOP):
            if not self._indented(line):
                self._emit(done)
            self._fence = (opening[2], len(opening[1]), line)
        elif not "".join(self._lines).strip():
            self._list = _ITEM.match(line) is not None
            self._sticky = self._list or _indent(line) > 1
        self._blank = False
        return False

    def _whole(self, line: str, done: list[Block]) -> bool:
        """A block of one line. It ends the paragraph before it."""
        if "".join(self._lines).strip():
            self._emit(done)
        self._lines.append(line)
        self._emit(done)
        return True

    def _in_fence(self, line: str, done: list[Block]) -> bool:
        assert self._fence is not None
        mark, indent, _ = self._fence
        self._lines.append(line)
        stripped = line.strip()
        if len(stripped) >= len(mark) and not stripped.strip(mark[0]) and _indent(line) <= indent + _TOP:
            self._fence = None
            if not self._sticky:
                self._emit(done)
        return True

    def _ends_sticky(self, line: str) -> bool:
        """Whether this line after a blank one is no part of the list or indented code before it."""
        return not self._indented(line) and not (self._list and _ITEM.match(line))

    def _indented(self, line: str) -> bool:
        return self._sticky and _indent(line) > 1
