"""From CommonMark (with tables and strikethrough) to the tree.

The parser is markdown-it-py, imported by the first call: whoever only starts the program does not pay
for it. Where it fails, or would leave something out because it is nested too deeply, the whole text
becomes plain paragraphs: R1 asks that text arrives, not that it is pretty.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

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
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

__all__ = ["parse", "plain"]

log = logging.getLogger("hermes.markup")

_NESTING: Final = 60  # levels that the parser follows; a list takes two
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9_+.#-]{1,32}")
_TASK: Final = re.compile(r"\[([ xX])\][ \t]+")
_BAR: Final = re.compile(r"(?<!\\)\|")
_HTML_BREAK: Final = re.compile(r"<br\s*/?>", re.IGNORECASE)


def parse(text: str) -> Document:
    """The tree of `text`. Never fails; takes time in proportion to the length."""
    try:
        env: dict[str, Any] = {}
        tokens = _parser().parse(text, env)
        if _too_deep(tokens):
            return plain(text)
        builder = _Builder(_lines(text))
        builder.take(tokens)
        blocks = builder.with_definitions(_unused(tokens, env))
    except (
        Exception
    ) as error:  # the edge to foreign code: a text must arrive, with or without its markup (R1)
        log.error("a text could not be parsed and goes out plain", exc_info=error)
        return plain(text)
    return Document(tuple(blocks)) if blocks or not text.strip() else plain(text)


def plain(text: str) -> Document:
    """`text` as it stands, without looking for markup; blank lines make paragraphs."""
    found: list[Block] = []
    lines: list[Inline] = []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if line.strip():
            if lines:
                lines.append(Break())
            lines.append(Text(line))
        elif lines:
            found.append(Paragraph(tuple(lines)))
            lines = []
    if lines:
        found.append(Paragraph(tuple(lines)))
    return Document(tuple(found))


@functools.cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Without HTML the parser leaves tags as text, which is what they are in a chat.
    options = {"html": False, "maxNesting": _NESTING}
    return MarkdownIt("commonmark", options).enable(["table", "strikethrough"])


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _too_deep(tokens: list[Token]) -> bool:
    """Whether the parser reached its depth, and may have left out what is nested deeper."""
    deepest = _NESTING - 1
    return any(
        token.level >= deepest or any(child.level >= deepest for child in token.children or ())
        for token in tokens
    )


def _unused(tokens: list[Token], env: dict[str, Any]) -> list[tuple[int, int]]:
    """Where in the source link definitions stand that no link uses: nobody would see them."""
    unused = list(env.get("duplicate_refs", ()))
    known = env.get("references", {})
    if known:
        children = [child for token in tokens for child in token.children or ()]
        used = {child.attrs.get(name) for child in children for name in ("href", "src")}
        unused += [one for one in known.values() if one["href"] not in used]
    return sorted({(one["map"][0], one["map"][1]) for one in unused})


class _Builder:
    """Turns the parser's flat tokens into blocks, with a stack instead of recursion."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._stack: list[tuple[Token | None, list[Any]]] = [(None, [])]
        self._starts: list[int] = []  # the source line of each block at the top

    def take(self, tokens: list[Token]) -> None:
        """Read all tokens of the text."""
        for token in tokens:
            if token.nesting == 1:
                self._stack.append((token, []))
            elif token.nesting == -1:
                opened, children = self._stack.pop()
                assert opened is not None
                if opened.type == "tr_open":
                    self._add(opened, self._row(opened, children))
                else:
                    self._add(opened, _container(opened, children))
            elif token.type == "inline":
                self._add(token, tuple(_inlines(token.children or [])))
            elif token.type in ("fence", "code_block"):
                self._code(token)
            elif token.type == "hr":
                self._add(token, Rule())
            elif token.content.strip():  # a kind that we do not know: its text is still the author's
                self._add(token, Paragraph((Text(token.content.strip("\n")),)))

    def with_definitions(self, unused: list[tuple[int, int]]) -> list[Block]:
        """The blocks, with these lines of the source as paragraphs between them where they stood."""
        blocks: list[Block] = self._stack[0][1]
        placed = [(start, 1, block) for start, block in zip(self._starts, blocks, strict=True)]
        for first, end in unused:
            lines = [line.strip() for line in self._lines[first : max(end, first + 1)] if line.strip()]
            content: list[Inline] = [Text(lines[0])]
            for line in lines[1:]:
                content += (Break(), Text(line))
            placed.append((first, 0, Paragraph(tuple(content))))
        return [block for _, _, block in sorted(placed, key=lambda one: one[:2])]

    def _add(self, token: Token, what: Any) -> None:
        if what is None:
            return
        if len(self._stack) == 1:
            self._starts.append(token.map[0] if token.map else 0)
        self._stack[-1][1].append(what)

    def _code(self, token: Token) -> None:
        info = token.info.strip()
        word = info.split(maxsplit=1)[0] if info else ""
        language = word if _LANGUAGE.fullmatch(word) else ""
        if info and not language:
            self._add(token, Paragraph((Text(info),)))
        self._add(token, Code(token.content.removesuffix("\n"), language))

    def _row(self, opened: Token, cells: list[Any]) -> list[Any]:
        """The cells of a row. Those beyond the last column, which the parser leaves out, go into the last."""
        line = self._lines[opened.map[0]].strip() if opened.map else ""
        written = _BAR.split(line.removeprefix("|"))
        if written and not written[-1].strip():
            written.pop()
        if cells and len(written) > len(cells):
            align, last = cells[-1]
            rest = "|".join(written[len(cells) :]).strip()
            cells = [*cells[:-1], (align, (*last, Text(f" | {rest}")))]
        return cells


def _container(opened: Token, children: list[Any]) -> Any:
    """The node for an opening token and what stood inside."""
    match opened.type:
        case "paragraph_open":
            return Paragraph(_first(children)) if children and children[0] else None
        case "heading_open":
            return Heading(int(opened.tag[1:]), _first(children)) if children and children[0] else None
        case "blockquote_open":
            return Quote(tuple(children)) if children else None
        case "list_item_open":
            return _item(children)
        case "bullet_list_open":
            return List(tuple(children), None, _tight(children))
        case "ordered_list_open":
            return List(tuple(children), int(opened.attrs.get("start", 1)), _tight(children))
        case "th_open" | "td_open":
            style = str(opened.attrs.get("style", ""))
            return style.removeprefix("text-align:"), _first(children)
        case "table_open":
            rows = [row for section in children for row in section]
            header, *rest = rows
            return Table(
                tuple(align for align, _ in header),
                tuple(cell for _, cell in header),
                tuple(tuple(cell for _, cell in row) for row in rest),
            )
        case _:  # thead, tbody: only their content matters
            return children


def _first(children: list[Any]) -> tuple[Inline, ...]:
    return tuple(children[0]) if children else ()


def _item(children: list[Any]) -> Item:
    checked = None
    if children and isinstance(children[0], Paragraph):
        lead, *rest = children[0].children
        task = _TASK.match(lead.text) if isinstance(lead, Text) else None
        if task:
            checked = task[1] != " "
            said = task.string[task.end() :]
            children = [Paragraph((Text(said), *rest)), *children[1:]]
    return Item(tuple(children), checked)


def _tight(items: list[Item]) -> bool:
    """A list is shown tight unless an item has several paragraphs; blank lines between short items are noise."""
    return not any(sum(isinstance(block, Paragraph) for block in item.blocks) > 1 for item in items)


_NESTED: Final[dict[str, Callable[[tuple[Inline, ...]], Inline]]] = {
    "strong_open": Strong,
    "em_open": Emphasis,
    "s_open": Strike,
}


def _inlines(tokens: list[Token]) -> list[Inline]:
    stack: list[tuple[Token | None, list[Inline]]] = [(None, [])]
    for token in tokens:
        here = stack[-1][1]
        if token.nesting == 1:
            stack.append((token, []))
        elif token.nesting == -1:
            opened, children = stack.pop()
            assert opened is not None
            _close(opened, children, stack[-1][1])
        elif token.type in ("softbreak", "hardbreak"):
            here.append(Break())
        elif token.type == "code_inline":
            here.append(CodeSpan(token.content))
        elif token.type == "image":
            url, title = str(token.attrs["src"]), str(token.attrs.get("title", ""))
            label = plain_text(_inlines(token.children or [])).replace("\n", " ").strip() or url
            here.append(Link(url, (Text(label),), title) if url else Text(label))
        elif token.content:
            for index, piece in enumerate(_HTML_BREAK.split(token.content)):
                if index:
                    here.append(Break())
                if piece:
                    here.append(Text(piece))
    return stack[0][1]


def _close(opened: Token, children: list[Inline], into: list[Inline]) -> None:
    if opened.type == "link_open":
        url = str(opened.attrs.get("href", ""))
        if url:
            into.append(Link(url, tuple(children) or (Text(url),), str(opened.attrs.get("title", ""))))
        else:
            into.extend(children)
    elif children:
        into.append(_NESTED[opened.type](tuple(children)))
