"""From the Markdown that a model writes to what a platform shows, in messages it takes (R1, R2, R4).

Three steps, each pure: `parse` gives a small tree, a `Dialect` says how the platform shows it, `split`
gives messages within the platform's limit, counted in its own way.

    >>> from hermes_core.markup import DISCORD, SLACK, TELEGRAM, parse, split
    >>> [part.text for part in split(parse("**Hello** _world_"), DISCORD, limit=2000)]
    ['**Hello** *world*']
    >>> split(parse("**Hello**"), TELEGRAM, limit=4096)
    [Part(text='Hello', entities=(Entity(type='bold', offset=0, length=5, value=''),))]

- Discord: `split(parse(text), DISCORD, 2000)`, and `allowed_mentions` for R4.
- Slack: `split(parse(text), SLACK, 4000)`; names between angle brackets are escaped, so they ring nobody.
- Telegram: `split(parse(text), pinging_nobody(TELEGRAM, TELEGRAM_MENTIONS), 4096)`: the limit counts code
  points after parsing, the entities UTF-16 units, and never are there more than 100 of them. If the
  platform refuses the entities, send `part.text` without them (R1).
- Text while it is written: `split(plain(text), PLAIN, limit)` costs less and does not flicker when
  a mark is still open.

A platform of another kind brings its own `Dialect`, or walks the tree itself.
"""

from __future__ import annotations

from hermes_core.markup.characters import graphemes, utf8, utf16, width
from hermes_core.markup.dialect import Dialect, Entity, Part, Style, pinging_nobody
from hermes_core.markup.dialects import DISCORD, PLAIN, SLACK, TELEGRAM
from hermes_core.markup.mentions import DISCORD_MENTIONS, SLACK_MENTIONS, TELEGRAM_MENTIONS, neutralise
from hermes_core.markup.parse import parse, plain
from hermes_core.markup.split import render, split
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
)

__all__ = [
    "DISCORD",
    "DISCORD_MENTIONS",
    "PLAIN",
    "SLACK",
    "SLACK_MENTIONS",
    "TELEGRAM",
    "TELEGRAM_MENTIONS",
    "Block",
    "Break",
    "Code",
    "CodeSpan",
    "Dialect",
    "Document",
    "Emphasis",
    "Entity",
    "Heading",
    "Inline",
    "Item",
    "Link",
    "List",
    "Paragraph",
    "Part",
    "Quote",
    "Rule",
    "Strike",
    "Strong",
    "Style",
    "Table",
    "Text",
    "aligned",
    "graphemes",
    "neutralise",
    "parse",
    "pinging_nobody",
    "plain",
    "plain_text",
    "render",
    "split",
    "utf8",
    "utf16",
    "width",
]
