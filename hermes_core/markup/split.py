"""A document as messages that keep a platform's limit (R2).

One rule, from the document down to the character: a piece that fits into the message that is being
written goes there; one that fits into a message of its own begins the next message; one that fits into
none is taken apart, and its pieces are placed by the same rule. So a message ends between paragraphs
where it can, else between lines, sentences, words, and only inside a word that alone is over the limit
between two characters as readers see them.

A piece that does not fit costs at most one message's worth of trying, and each message at most a few
such tries: the time grows with the length of the text, whatever is in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from hermes_core.markup.characters import graphemes
from hermes_core.markup.dialect import Dialect, Part
from hermes_core.markup.layout import Group, Piece, Span, Word, lay_out
from hermes_core.markup.tree import Document
from hermes_core.markup.write import Count, Writer

__all__ = ["LEAST_LIMIT", "render", "split"]

LEAST_LIMIT: Final = 16
_BLANKS: Final = re.compile(r"\S+\s*|\s+")


def render(document: Document, dialect: Dialect) -> Part:
    """The whole document as one message of any length."""
    writer = Writer(dialect, None, len)
    _fill(writer, lay_out(document, dialect, lambda marks: False))
    return writer.part()


def split(document: Document, dialect: Dialect, limit: int, count: Count = len) -> list[Part]:
    """The document as messages, each at most `limit` by `count`; none is blank, nothing is left out.

    `count` must be additive (code points, UTF-16 units, bytes): it is asked about pieces. Styles,
    links and fences are closed and opened again at every cut; a link or code whose marks alone would
    take half of a message is shown as text. A `limit` under 16 is a `ValueError`.
    """
    if limit < LEAST_LIMIT:
        raise ValueError(f"a message of {limit} cannot hold text with markup")
    splitter = _Splitter(dialect, limit, count)
    splitter.place(lay_out(document, dialect, lambda marks: count(marks) > limit // 2))
    return splitter.parts()


def _fill(writer: Writer, piece: Piece) -> bool:
    """Write the whole piece; False at the first word that does not fit."""
    if isinstance(piece, Word):
        return writer.put(piece)
    return all(_fill(writer, one) for one in piece.pieces)


class _Splitter:
    def __init__(self, dialect: Dialect, limit: int, count: Count) -> None:
        self._dialect = dialect
        self._limit = limit
        self._count = count
        self._parts: list[Part] = []
        self._writer = self._fresh()

    def parts(self) -> list[Part]:
        self._finish(self._fresh())
        return self._parts

    def place(self, piece: Piece) -> None:
        writer = self._writer
        mark = writer.mark()
        if _fill(writer, piece):
            return
        writer.rollback(mark)
        if not writer.empty:
            alone = self._fresh()
            if _fill(alone, piece):
                self._finish(alone)
                return
        if isinstance(piece, Group):
            for one in piece.pieces:
                self.place(one)
        else:
            self._take_apart(piece)

    def _take_apart(self, word: Word) -> None:
        """Place a word that is over the limit: where code has blanks in pieces, else by characters."""
        pieces = list(_pieces(word, _between_blanks))
        if len(pieces) > 1:
            for piece in pieces:
                self.place(piece)
            return
        for single in _pieces(word, graphemes):
            if self._put(single):
                continue
            if single.opens and not self._writer.empty:
                self._finish(self._fresh())
            for character in (single.line.first if single.opens else "") + single.spans[0].text:
                mark = self._writer.mark()
                if not self._writer.put_bare(character):
                    self._writer.rollback(mark)
                    self._finish(self._fresh())
                    self._writer.put_bare(character)

    def _put(self, word: Word) -> bool:
        """Write a word into this message, or into the next one; False if it fits into none."""
        mark = self._writer.mark()
        if self._writer.put(word):
            return True
        self._writer.rollback(mark)
        alone = self._fresh()
        if self._writer.empty or not alone.put(word):
            return False
        self._finish(alone)
        return True

    def _fresh(self) -> Writer:
        return Writer(self._dialect, self._limit, self._count)

    def _finish(self, following: Writer) -> None:
        part = self._writer.part()
        if part.text.strip():  # platforms refuse a blank message
            self._parts.append(part)
        self._writer = following


def _between_blanks(text: str) -> list[str]:
    return _BLANKS.findall(text)


def _pieces(word: Word, cut: Callable[[str], Iterable[str]]) -> Iterator[Word]:
    """The pieces of a word, each a word of its own; only the first has what stood before the word."""
    opens, space = word.opens, word.space
    if space is not None and space.text == "\n":  # a line of code: its line end is a piece, too
        yield Word(word.line, (Span("", space.styles),), opens, space)
        opens, space = False, None
    for span in word.spans:
        for piece in cut(span.text):
            yield Word(word.line, (Span(piece, span.styles),), opens, space)
            opens, space = False, None
