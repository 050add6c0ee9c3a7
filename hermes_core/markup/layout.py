"""From the tree to pieces that can be laid into messages one after the other.

A `Word` is the smallest piece: spans of styled text that stand together without a space. Words make
sentences, sentences lines, lines blocks, blocks the document; each is a `Group`. A line of code is one
word, whatever stands in it, so that it is cut only where it alone is over the limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from hermes_core.markup.dialect import Dialect, Style
from hermes_core.markup.mentions import neutralise
from hermes_core.markup.table import aligned
from hermes_core.markup.tree import (
    Block,
    Break,
    Code,
    CodeSpan,
    Document,
    Emphasis,
    Heading,
    Inline,
    Item,
    Link,
    List,
    Paragraph,
    Quote,
    Rule,
    Strike,
    Strong,
    Table,
    Text,
    plain_text,
    says_itself,
)

__all__ = ["Group", "Line", "Piece", "Span", "Styles", "Word", "lay_out"]

_WIDEST_PREFIX: Final = 24  # characters; what is nested deeper is not indented further
# A word ends with white space, or behind the punctuation of scripts that write without spaces.
_WORDS: Final = re.compile(
    r"[ \t]+|[^ \t。！？，、；：]*[。！？，、；：]+[”’」』）】》]*|[^ \t。！？，、；：]+"
)
_WIDE_END: Final = re.compile(r"[。！？，、；：][”’」』）】》]*$")
_SENTENCE: Final = re.compile(r"""(?:[.!?…]["')\]»”’]*|[。！？][”’」』）】》]*)$""")

Styles = tuple[Style, ...]


class Span(msgspec.Struct, frozen=True, gc=False):
    """Text of one style, not escaped yet; the outermost style comes first."""

    text: str
    styles: Styles = ()


class Line(msgspec.Struct, frozen=True):
    """What all words of a line share.

    `gap` stands before it unless it begins a message, `first` begins it, `rest` begins what of it is
    carried over to the next message. All three are written as they are, in `styles`.
    """

    gap: str
    first: str = ""
    rest: str = ""
    styles: Styles = ()


class Word(msgspec.Struct, frozen=True):
    """The smallest piece. `space` stands before it unless it begins a line or a message."""

    line: Line
    spans: tuple[Span, ...]
    opens: bool = False
    space: Span | None = None


class Group(msgspec.Struct, frozen=True):
    """Pieces that belong together, and are kept together where the limit allows it."""

    pieces: tuple[Piece, ...]


Piece = Word | Group


def lay_out(document: Document, dialect: Dialect, too_long: Callable[[str], bool]) -> Group:
    """The pieces of `document`. What has marks that are `too_long` is shown as text."""
    layout = _Layout(dialect, too_long)
    return Group(tuple(layout.blocks(document.blocks, _Place(), "")))


class _Place:
    """Where blocks stand: the prefix of the next line, of those after it, and the styles around."""

    def __init__(
        self, lead: str = "", rest: str = "", styles: Styles = (), tight: bool = False, depth: int = 0
    ):
        self.lead = lead
        self.rest = rest
        self.styles = styles
        self.tight = tight
        self.depth = depth

    def line(self, gap: str) -> Line:
        line = Line(gap, self.lead, self.rest, self.styles)
        self.lead = self.rest
        return line

    def gap(self) -> str:
        """What stands between two blocks here."""
        if self.tight:
            return "\n"
        blank = self.rest.rstrip()
        return f"\n{blank} \n" if blank else "\n\n"


class _Layout:
    def __init__(self, dialect: Dialect, too_long: Callable[[str], bool]) -> None:
        self._dialect = dialect
        self._too_long = too_long

    # ---- blocks

    def blocks(self, blocks: Sequence[Block], place: _Place, gap: str) -> list[Piece]:
        found: list[Piece] = []
        heads: list[Piece] = []  # headings stay with what they are about
        for block in blocks:
            piece = self._block(block, place, gap)
            gap = place.gap()
            if isinstance(block, Heading):
                heads.append(piece)
                continue
            found.append(Group((*heads, piece)) if heads else piece)
            heads = []
        return found + heads

    def _block(self, block: Block, place: _Place, gap: str) -> Piece:
        match block:
            case Paragraph():
                return self._lines(block.children, place, gap, ())
            case Heading():
                return self._heading(block, place, gap)
            case List():
                return self._list(block, place, gap)
            case Quote():
                return self._quote(block, place, gap)
            case Code():
                return self._code(block.text, block.language, place, gap)
            case Table():
                return self._code(aligned(block), "", place, gap)
            case Rule():
                return _words([Span(self._dialect.rule, place.styles)], place.line(gap))

    def _heading(self, heading: Heading, place: _Place, gap: str) -> Piece:
        if heading.level <= len(self._dialect.headings):
            place.lead += self._dialect.headings[heading.level - 1]
            one_line = tuple(Text(" ") if isinstance(one, Break) else one for one in heading.children)
            return self._lines(one_line, place, gap, ())
        bold = (self._dialect.strong,) if self._dialect.strong else ()
        return self._lines(heading.children, place, gap, bold)

    def _quote(self, quote: Quote, place: _Place, gap: str) -> Piece:
        dialect = self._dialect
        prefix = dialect.quote_prefix if len(place.rest) < _WIDEST_PREFIX else ""
        style = dialect.quote
        styles = (*place.styles, style) if style and style not in place.styles else place.styles
        inside = _Place(place.lead + prefix, place.rest + prefix, styles, depth=place.depth)
        pieces = self.blocks(quote.blocks, inside, gap)
        place.lead = place.rest
        return Group(tuple(pieces))

    def _list(self, list_: List, place: _Place, gap: str) -> Piece:
        found: list[Piece] = []
        for index, item in enumerate(list_.items):
            if index:
                gap = _Place(rest=place.rest, tight=list_.tight).gap()
            number = None if list_.start is None else list_.start + index
            mark = self._mark(item, number, place.depth)
            lead = place.lead + mark
            indent = " " * len(mark) if len(place.rest) < _WIDEST_PREFIX else ""
            inside = _Place(lead, place.rest + indent, place.styles, list_.tight, place.depth + 1)
            pieces = self.blocks(item.blocks, inside, gap) if item.blocks else []
            if not pieces:
                pieces = [Word(Line(gap, lead.rstrip(), "", place.styles), (), opens=True)]
            place.lead = place.rest
            found.append(Group(tuple(pieces)))
        return Group(tuple(found))

    def _mark(self, item: Item, number: int | None, depth: int) -> str:
        dialect = self._dialect
        box = "" if item.checked is None else dialect.boxes[item.checked]
        if number is not None:
            return f"{number}. {box}"
        if box and dialect.box_replaces_bullet:
            return box
        return dialect.bullets[min(depth, len(dialect.bullets) - 1)] + box

    def _code(self, text: str, language: str, place: _Place, gap: str) -> Piece:
        """Code always stands at the left edge, outside of quotes and lists: a prefix would be in the code."""
        before: list[Piece] = []
        if place.lead.strip() and place.lead != place.rest:  # a bullet without text
            before.append(Word(Line(gap, place.lead.rstrip(), "", place.styles), (), opens=True))
            gap = "\n"
            place.lead = place.rest
        style = self._dialect.fence(language, text)
        if style is not None and self._too_long(style.open + style.close):
            style = None
        styles = (style,) if style else ()
        line = Line("\n" if place.tight else "\n\n") if gap else Line("")
        words: list[Piece] = []
        marks = style is not None and not style.entity  # they hold blank lines at a message's end
        for index, code in enumerate(text.split("\n") if style is None or marks else _held(text)):
            space = Span("\n", styles) if index else None
            if style is None and index:  # shown as text: every line is a line
                words.append(Word(Line("\n"), (Span(code),), opens=True))
            else:
                words.append(Word(line, (Span(code, styles),), opens=not index, space=space))
        return Group((*before, *words))

    # ---- inlines

    def _lines(self, inlines: Iterable[Inline], place: _Place, gap: str, styles: Styles) -> Piece:
        lines: list[list[Span]] = [[]]
        self._spans(inlines, (*place.styles, *styles), lines)
        found: list[Piece] = []
        for spans in lines:
            if spans or len(lines) == 1:
                found.append(_words(spans, place.line(gap)))
                gap = "\n"
        return found[0] if len(found) == 1 else Group(tuple(found))

    def _spans(self, inlines: Iterable[Inline], styles: Styles, lines: list[list[Span]]) -> None:
        for one in inlines:
            match one:
                case Text():
                    text = neutralise(one.text, self._dialect.mentions)
                    # A tree may come from elsewhere: line ends in text are line ends.
                    for index, line in enumerate(text.split("\n")):
                        if index:
                            lines.append([])
                        if line:
                            lines[-1].append(Span(line, styles))
                case Break():
                    lines.append([])
                case CodeSpan():
                    self._code_span(one.text.replace("\n", " "), styles, lines)
                case Link():
                    self._link(one, styles, lines)
                case Strong():
                    self._styled(self._dialect.strong, one.children, styles, lines)
                case Emphasis():
                    self._styled(self._dialect.emphasis, one.children, styles, lines)
                case Strike():
                    self._styled(self._dialect.strike, one.children, styles, lines)

    def _styled(
        self, style: Style | None, children: Iterable[Inline], styles: Styles, lines: list[list[Span]]
    ) -> None:
        self._spans(children, (*styles, style) if style and style not in styles else styles, lines)

    def _code_span(self, text: str, styles: Styles, lines: list[list[Span]]) -> None:
        style = self._dialect.code(text)
        if style is None or self._too_long(style.open + style.close):
            lines[-1].append(Span(neutralise(text, self._dialect.mentions), styles))
        elif style.entity and any(one.value for one in styles):
            lines[-1].append(Span(text, styles))  # the address of the link around it matters more
        elif style.entity:  # code stands alone: platforms with entities allow no other around it
            kept = tuple(one for one in styles if one == self._dialect.quote)
            lines[-1].append(Span(text, (*kept, style)))
        else:
            lines[-1].append(Span(text, (*styles, style)))

    def _link(self, link: Link, styles: Styles, lines: list[list[Span]]) -> None:
        label = plain_text(link.children)
        if says_itself(link.url, label):
            self._spans((Text(label),), styles, lines)
            return
        style = self._dialect.link(link.url, label)
        if style is None or self._too_long(style.open + style.close):
            self._spans((*link.children, Text(f" ({link.url})")), styles, lines)
        elif self._dialect.flat_labels:
            self._spans((Text(label.replace("\n", " ")),), (*styles, style), lines)
        else:
            self._spans(link.children, (*styles, style), lines)


def _held(code: str) -> list[str]:
    """The lines of code, blank ones at the beginning of the line after them.

    A platform without marks trims white space at the end of a message, and keeps it where code begins one.
    """
    lines: list[str] = []
    blank = ""
    for line in code.split("\n"):
        if line.strip():
            lines.append(blank + line)
            blank = ""
        else:
            blank += f"{line}\n"
    return [*lines, blank[:-1]] if blank else lines


def _words(spans: Iterable[Span], line: Line) -> Piece:
    """The sentences and words of one line."""
    sentences: list[Piece] = []
    words: list[Word] = []
    current: list[Span] = []
    space: Span | None = None

    def close() -> None:
        nonlocal space
        if not current:
            return
        words.append(Word(line, tuple(current), opens=not sentences and not words, space=space))
        space = None
        if _SENTENCE.search(current[-1].text):
            sentences.append(_group(words))
            words.clear()
        current.clear()

    for span in spans:
        if span.styles and span.styles[-1].code:
            current.append(span)  # the blanks inside code are part of it
            continue
        for token in _WORDS.findall(span.text):
            if token[0] not in " \t":
                current.append(Span(token, span.styles))
                if _WIDE_END.search(token):
                    close()
            elif current or words or sentences:
                close()
                space = Span(token if space is None else space.text + token, span.styles)
            else:
                current.append(Span(token, span.styles))  # the indentation of a line that is text
    close()
    if words:
        sentences.append(_group(words))
    return _group(sentences) if sentences else Word(line, (), opens=True)


def _group(pieces: Sequence[Piece]) -> Piece:
    return pieces[0] if len(pieces) == 1 else Group(tuple(pieces))
