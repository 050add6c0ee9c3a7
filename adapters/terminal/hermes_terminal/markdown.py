"""Markdown as lines for a terminal, through rich. Imported when the first text is to be shown.

What CommonMark can say and a terminal cannot show arrives as the text that it is (R1): HTML, images,
link definitions, addresses of links. Nothing is shortened to fit; where rich would lose something,
the block is shown unrendered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from io import StringIO
from typing import ClassVar, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.box import SIMPLE
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.syntax import Syntax
from rich.table import Table

from hermes_terminal.blocks import Block

__all__ = ["render"]

_THEME: Final = "ansi_dark"  # the terminal's own 16 colours, so it fits any of its themes
_TRAILING: Final = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)
_STYLING: Final = re.compile(r"\x1b\[[0-9;]*m")


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(code, self.lexer_name, theme=_THEME, word_wrap=True, padding=(0, 2))


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=SIMPLE, show_edge=False, style="markdown.table.border", collapse_padding=True)
        for cell in self.header.row.cells if self.header and self.header.row else ():
            heading = cell.content.copy()
            heading.stylize("markdown.table.header")
            table.add_column(heading, overflow="fold")
        for row in self.body.rows if self.body else ():
            table.add_row(*(cell.content for cell in row.cells))
        yield table


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }

    def __init__(self, text: str) -> None:
        super().__init__("", code_theme=_THEME, hyperlinks=False)
        self.parsed = _parse(text)


def render(block: Block, width: int, color: bool = True) -> str:
    """The block as lines of at most `width` columns, each ended; styles are closed at each end of line."""
    text = block.inside + block.text
    if not text.strip():
        return ""
    markdown = _Markdown(text)
    out = StringIO()
    console = Console(
        file=out,
        width=max(width, 8),
        force_terminal=color,
        color_system="standard" if color else None,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(markdown)
    rendered = _TRAILING.sub(r"\1", out.getvalue()).expandtabs(4).strip("\n") + "\n"
    seen = _STYLING.sub("", rendered)
    if not seen.strip() or _letters(_contents(text, markdown.parsed)) - _letters([seen]):
        return block.text.strip("\n").expandtabs(4) + "\n"
    return rendered


def _parse(text: str) -> list[Token]:
    # Without the rule `reference`, definitions of links stay what they are: readable lines. They
    # would not be found anyway by links in blocks that were printed before.
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable("reference")
    tokens = parser.parse(text)
    for token in tokens:
        if token.children:
            token.children = list(_readable(token.children))
    return tokens


def _readable(tokens: list[Token]) -> Iterator[Token]:
    """Images as text, and links that show their own address as that address only."""
    bare = False
    for index, token in enumerate(tokens):
        if token.type == "image":
            source = str(token.attrs.get("src", ""))
            yield Token("text", "", 0, content=f"{token.content} ({source})" if token.content else source)
        elif token.type == "link_open" and _shows_itself(tokens, index):
            bare = True
        elif token.type == "link_close" and bare:
            bare = False
        else:
            yield token


def _shows_itself(tokens: list[Token], index: int) -> bool:
    href = str(tokens[index].attrs.get("href", ""))
    shown = tokens[index + 1 : index + 3]
    return (
        len(shown) == 2
        and shown[1].type == "link_close"
        and shown[0].content in (href, href[len("mailto:") :])
    )


def _contents(text: str, tokens: Iterable[Token]) -> Iterator[str]:
    """What must be seen of `text`. A parser drops the cells that a row has too many, so a table must be
    seen as it was written."""
    in_table = False
    for token in tokens:
        if token.type in ("table_open", "table_close"):
            in_table = token.type == "table_open"
            begin, end = token.map or (0, 0)
            yield "".join(text.splitlines(keepends=True)[begin:end])
        elif in_table:
            continue
        elif token.children:
            yield from _contents(text, token.children)
        else:
            yield token.content
            yield str(token.attrs.get("href", ""))


def _letters(texts: Iterable[str]) -> Counter[str]:
    return Counter(letter for text in texts for letter in text if letter.isalnum())
