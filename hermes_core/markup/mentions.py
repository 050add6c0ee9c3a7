"""Names in a model's text that must not ring at anybody (R4).

A mention is broken by an invisible word joiner behind its first character: people still read the name,
the platform no longer sees one (E11).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["DISCORD_MENTIONS", "SLACK_MENTIONS", "TELEGRAM_MENTIONS", "WORD_JOINER", "neutralise"]

WORD_JOINER: Final = "\u2060"

# @everyone, @here; <@42>, <@!42>, <@&42>. Channels (<#42>) ring at nobody.
DISCORD_MENTIONS: Final = (re.compile(r"@(?=everyone|here)|<(?=@[!&]?\d+>)"),)
# Slack looks for names between angle brackets only; its dialect escapes these. This is for text
# that is sent without it.
SLACK_MENTIONS: Final = (
    re.compile(r"<(?=[@!][^>]+>)"),
    re.compile(r"(?<![\w/.])@(?=channel\b|here\b|everyone\b)"),
)
# @name with at least four characters, not in an address of mail or web.
TELEGRAM_MENTIONS: Final = (re.compile(r"(?<![\w/@.])@(?=[A-Za-z]\w{3,})"),)


def neutralise(text: str, patterns: Iterable[re.Pattern[str]], mark: str = WORD_JOINER) -> str:
    """`text` with `mark` behind every match. Each pattern matches the beginning of a mention only."""
    for pattern in patterns:
        text = pattern.sub(lambda match: match[0] + mark, text)
    return text
