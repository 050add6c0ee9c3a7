"""One message that is being written: what is in it, what is open, and how much room is left.

Styles are a stack. To write a span, those that it does not have are closed, its own opened; at the end
all are closed. So every message is balanced. The room that the closing marks need is always kept free.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from hermes_core.markup.characters import utf16
from hermes_core.markup.dialect import Dialect, Entity, Part, Style
from hermes_core.markup.layout import Styles, Word

__all__ = ["Count", "Writer"]

Count = Callable[[str], int]
_BETWEEN: Final = "\u200b"  # between two marks that would be read as one


class Mark(NamedTuple):
    """A point in the writing of a message."""

    pieces: int
    entities: int
    used: int
    units: int
    stack: tuple[tuple[Style, int], ...]
    closing: int
    last: str
    closed: bool
    bare_line: bool
    empty: bool


class Writer:
    """Takes words until one does not fit. `put` says so; `mark` and `rollback` undo what was put."""

    __slots__ = (
        "_bare_line", "_closed", "_closing", "_count", "_dialect", "_entities", "_last", "_limit", "_pieces",
        "_stack", "_units", "_used", "empty",
    )  # fmt: skip

    def __init__(self, dialect: Dialect, limit: int | None, count: Count) -> None:
        self._dialect = dialect
        self._limit = limit
        self._count = count
        self._pieces: list[str] = []
        self._used = 0  # as the platform counts
        self._units = 0  # UTF-16 units, for the offsets of entities
        self._stack: tuple[tuple[Style, int], ...] = ()  # open styles, and where they began
        self._closing = 0  # what closing all of them takes
        self._entities: list[Entity] = []
        self._last = ""  # the last character
        self._closed = False  # it belongs to a closing mark
        self._bare_line = True  # nothing but a prefix stands in this line yet
        self.empty = True

    def put(self, word: Word) -> bool:
        """Write a word with what stands before it. False: it did not fit, and must be rolled back."""
        line = word.line
        if word.opens:
            if not self.empty:
                self._close(self._same(line.styles))
                self._raw(line.gap)
            self._prefix(line.first, line.styles)
        elif self.empty:
            self._prefix(line.rest, line.styles)
        elif word.space is not None:
            self._text(word.space.text, self._kept(word))
        self.empty = False
        for span in word.spans:
            self._text(span.text, span.styles, alone=len(word.spans) == 1)
        return self._fits()

    def put_bare(self, character: str) -> bool:
        """Write a character without style and prefix, for a limit that leaves no room for them."""
        self._text(character, ())
        self.empty = False
        return self._fits()

    def mark(self) -> Mark:
        """What `rollback` needs to come back to this point; takes constant time."""
        return Mark(
            len(self._pieces),
            len(self._entities),
            self._used,
            self._units,
            self._stack,
            self._closing,
            self._last,
            self._closed,
            self._bare_line,
            self.empty,
        )

    def rollback(self, mark: Mark) -> None:
        """Undo everything that was put since `mark`."""
        del self._pieces[mark.pieces :]
        del self._entities[mark.entities :]
        self._used, self._units = mark.used, mark.units
        self._stack, self._closing = mark.stack, mark.closing
        self._last, self._closed = mark.last, mark.closed
        self._bare_line, self.empty = mark.bare_line, mark.empty

    def part(self) -> Part:
        """Close what is open; gives the message."""
        self._move(())
        entities = sorted(self._entities, key=lambda one: (one.offset, -one.length))
        return Part("".join(self._pieces), tuple(entities))

    # ---- inside

    def _fits(self) -> bool:
        if self._limit is None:
            return True
        most = self._dialect.max_entities
        if most is not None and len(self._entities) + len(self._stack) > most:
            return False
        return self._used + self._closing <= self._limit

    def _kept(self, word: Word) -> Styles:
        """The styles of the space before a word: those that both sides have, so that marks touch words."""
        assert word.space is not None
        if word.spans and word.spans[0].styles == word.space.styles:
            return word.space.styles
        after = word.spans[0].styles if word.spans else ()
        return after[: self._same(after)]

    def _prefix(self, prefix: str, styles: Styles) -> None:
        if self.empty:
            prefix = prefix.lstrip(" ")  # platforms trim the beginning of a message
        self._move(styles)
        self._raw(prefix)
        self._bare_line = True

    def _text(self, text: str, styles: Styles, alone: bool = False) -> None:
        self._move(styles)
        if styles and styles[-1].code:
            text = self._dialect.escape_code(text)
        elif self._bare_line or not alone or text not in self._dialect.harmless:
            text = self._dialect.escape(text, self._bare_line)
        if not text:
            return
        if self._closed and text[0].isalnum() and self._edge:
            self._raw(self._edge)
        self._raw(text)
        self._bare_line = False

    def _raw(self, text: str) -> None:
        if not text:
            return
        self._pieces.append(text)
        self._used += self._count(text)
        self._units += utf16(text)
        self._last = text[-1]
        self._closed = False

    @property
    def _edge(self) -> str:
        return self._dialect.strong.edge if self._dialect.strong else ""

    def _move(self, styles: Styles) -> None:
        """Close and open styles until exactly `styles` are open."""
        same = self._same(styles)
        self._close(same)
        for style in styles[same:]:
            self._open(style)

    def _same(self, styles: Styles) -> int:
        """How many of the open styles stay open for text in `styles`."""
        same = 0
        for (mine, _), theirs in zip(self._stack, styles, strict=False):
            if mine != theirs:
                break
            same += 1
        return same

    def _close(self, keep: int) -> None:
        for style, start in reversed(self._stack[keep:]):
            self._closing -= self._count(style.close) if style.close else 0
            if style.close:
                self._raw(style.close)
                self._closed = True
            if style.entity and self._units > start:
                self._entities.append(Entity(style.entity, start, self._units - start, style.value))
        self._stack = self._stack[:keep]

    def _open(self, style: Style) -> None:
        if style.open:
            if style.edge and self._last.isalnum():
                self._raw(style.edge)
            elif self._closed and self._last == style.open[0]:
                self._raw(_BETWEEN)
            self._raw(style.open)
            self._closing += self._count(style.close)
        self._stack = (*self._stack, (style, self._units))
