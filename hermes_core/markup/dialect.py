"""What a platform can show, as data: the styles, prefixes and escapes that a tree is written with.

A `Style` is a pair of marks around text (Discord, Slack) or an entity over it (Telegram); the writer
opens and closes both the same way, so they are balanced in every part by construction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

__all__ = ["Dialect", "Entity", "Part", "Style", "pinging_nobody"]


class Style(msgspec.Struct, frozen=True):
    """How a stretch of text is shown: marks before and after it, or an `entity` with its `value`.

    `edge` stands between a mark and a letter or digit that touches it from outside, for platforms that
    see a mark only at the edge of a word. `code` text is escaped with `Dialect.escape_code`.
    """

    open: str = ""
    close: str = ""
    entity: str = ""
    value: str = ""
    edge: str = ""
    code: bool = False


class Entity(msgspec.Struct, frozen=True):
    """A style over a stretch of a part's text. `offset` and `length` are UTF-16 code units.

    `value` is the address of a `text_link`, the language of a `pre`, else empty.
    """

    type: str
    offset: int
    length: int
    value: str = ""


class Part(msgspec.Struct, frozen=True):
    """One message's worth of text, ready for its platform. Without entities the text alone is right."""

    text: str
    entities: tuple[Entity, ...] = ()


def _same(text: str, line_start: bool) -> str:
    return text


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that differs between platforms. The defaults are plain text without any markup.

    `strong`, `emphasis`, `strike`, `quote`: None where the platform has none. `code` and `fence` get the
    text and give its style, or None if this text cannot be shown so; `fence` gets the language first.
    `link` gets address and label; None shows both as text. `escape(text, line_start)` makes text stand
    for itself; it sees one word at a time, and none of the `harmless` words between two spaces.
    `quote_prefix` begins each quoted line. `headings` are the prefixes of the levels that the platform
    has; others are a bold line. `flat_labels`: no styles inside links. `max_entities`: more of them in
    one message are lost. `mentions`: beginnings of names that would ring at somebody.
    """

    name: str
    strong: Style | None = None
    emphasis: Style | None = None
    strike: Style | None = None
    quote: Style | None = None
    code: Callable[[str], Style | None] = lambda text: None
    fence: Callable[[str, str], Style | None] = lambda language, text: None
    link: Callable[[str, str], Style | None] = lambda url, label: None
    escape: Callable[[str, bool], str] = _same
    harmless: frozenset[str] = frozenset()
    escape_code: Callable[[str], str] = str
    quote_prefix: str = ""
    bullets: tuple[str, ...] = ("• ", "◦ ", "▪ ")
    boxes: tuple[str, str] = ("☐ ", "☑ ")
    box_replaces_bullet: bool = True
    headings: tuple[str, ...] = ()
    rule: str = "──────────"
    flat_labels: bool = False
    max_entities: int | None = None
    mentions: tuple[re.Pattern[str], ...] = ()


def pinging_nobody(dialect: Dialect, patterns: Iterable[re.Pattern[str]]) -> Dialect:
    """`dialect` with the beginnings of mentions broken in text, not in code (R4)."""
    return msgspec.structs.replace(dialect, mentions=tuple(patterns))
