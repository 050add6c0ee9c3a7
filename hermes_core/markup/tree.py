"""The tree that Markdown becomes: a few frozen blocks and inlines, and nothing that a chat cannot show.

Raw HTML is text here, an image is a link, a footnote definition that nobody refers to is a paragraph:
whatever the author wrote is in the tree somewhere (R1).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

__all__ = [
    "Block",
    "Break",
    "Code",
    "CodeSpan",
    "Document",
    "Emphasis",
    "Heading",
    "Inline",
    "Item",
    "Link",
    "List",
    "Paragraph",
    "Quote",
    "Rule",
    "Strike",
    "Strong",
    "Table",
    "Text",
    "plain_text",
]


class Text(msgspec.Struct, frozen=True):
    """Characters that stand for themselves; no line ends."""

    text: str


class Strong(msgspec.Struct, frozen=True):
    """Shown bold."""

    children: tuple[Inline, ...]


class Emphasis(msgspec.Struct, frozen=True):
    """Shown in italics."""

    children: tuple[Inline, ...]


class Strike(msgspec.Struct, frozen=True):
    """Shown struck through."""

    children: tuple[Inline, ...]


class CodeSpan(msgspec.Struct, frozen=True):
    """Code inside a line; no line ends."""

    text: str


class Link(msgspec.Struct, frozen=True):
    """A link or an image; `children` are never empty."""

    url: str
    children: tuple[Inline, ...]
    title: str = ""


class Break(msgspec.Struct, frozen=True):
    """A line end. Soft ones count: in a chat people see the lines that the author wrote."""


class Paragraph(msgspec.Struct, frozen=True):
    """Lines of text."""

    children: tuple[Inline, ...]


class Heading(msgspec.Struct, frozen=True):
    """`level` is 1 to 6."""

    level: int
    children: tuple[Inline, ...]


class Item(msgspec.Struct, frozen=True):
    """One item of a list; `checked` is None unless it is a task."""

    blocks: tuple[Block, ...]
    checked: bool | None = None


class List(msgspec.Struct, frozen=True):
    """`start` is the first number of an ordered list, None for bullets. Tight: no blank lines between items."""

    items: tuple[Item, ...]
    start: int | None = None
    tight: bool = True


class Quote(msgspec.Struct, frozen=True):
    """What somebody else said."""

    blocks: tuple[Block, ...]


class Code(msgspec.Struct, frozen=True):
    """A block of code, byte for byte, without the line end before the closing fence.

    `language` is one short word or empty; any other info string became a paragraph before the block.
    """

    text: str
    language: str = ""


class Table(msgspec.Struct, frozen=True):
    """`aligns` has "left", "right", "center" or "" for each column; every row has as many cells."""

    aligns: tuple[str, ...]
    header: tuple[tuple[Inline, ...], ...]
    rows: tuple[tuple[tuple[Inline, ...], ...], ...]


class Rule(msgspec.Struct, frozen=True):
    """A line between two thoughts."""


Inline = Text | Strong | Emphasis | Strike | CodeSpan | Link | Break
Block = Paragraph | Heading | List | Quote | Code | Table | Rule


class Document(msgspec.Struct, frozen=True):
    """A whole text."""

    blocks: tuple[Block, ...]


def plain_text(inlines: Iterable[Inline]) -> str:
    """What a reader sees without any markup; a link that says something else than its address shows both."""
    found: list[str] = []
    for one in inlines:
        match one:
            case Text() | CodeSpan():
                found.append(one.text)
            case Break():
                found.append("\n")
            case Link():
                label = plain_text(one.children)
                found.append(label if says_itself(one.url, label) else f"{label} ({one.url})")
            case Strong() | Emphasis() | Strike():
                found.append(plain_text(one.children))
    return "".join(found)


def says_itself(url: str, label: str) -> bool:
    """Whether the label of a link is its address, so that one of them is enough."""
    return label.strip() in (url, url.removeprefix("mailto:"), url.removesuffix("/"))
