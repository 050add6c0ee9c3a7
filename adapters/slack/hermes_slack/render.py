"""From the Markdown of a model to messages that Slack takes (R1, R2, R4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from hermes_core.markup import SLACK, parse, plain, split
from hermes_core.messages import Choice
from hermes_slack.limits import MAX_SECTION, MAX_TEXT

__all__ = ["INTERRUPTED", "INTERRUPTED_MRKDWN", "Piece", "cut"]

INTERRUPTED: Final = "*✂ interrupted*"  # Markdown, in italics
INTERRUPTED_MRKDWN: Final = "_✂ interrupted_"


# One line of words: it has no markup, and most short answers are no more. A number in front with a full stop
# begins a list. Held against the parser by a test.
_WORDS: Final = re.compile(r"(?![0-9]+\.)[A-Za-z0-9](?:[A-Za-z0-9,;?!'%=$ ]|[.:](?= |\Z))*(?<! )")


class Piece(msgspec.Struct, frozen=True):
    """One message's text. `of`: how many messages the finished text has; 0 while it is written.

    So a finished message always differs from its draft, and is edited once more: only then does its
    metadata say that the whole text was delivered. `raw` is the Markdown of it, "" where it is not a whole
    text. `choices` stand under it; `files` is how many files follow the text.
    """

    text: str
    of: int = 0
    raw: str = ""
    choices: tuple[Choice, ...] = ()
    files: int = 0


def cut(text: str, final: bool, choices: tuple[Choice, ...] = (), files: int = 0) -> Sequence[Piece]:
    """The messages that show `text`, formatted once it is final. Nothing in it rings at anybody (R4)."""
    limit = MAX_SECTION if choices else MAX_TEXT
    raw = text.strip()
    if len(text) <= limit and _WORDS.fullmatch(text):
        return [Piece(text, 1 if final else 0, raw, choices, files)]
    parts = split(parse(text) if final else plain(text), SLACK, limit)
    if len(parts) == 1:
        return [Piece(parts[0].text, 1 if final else 0, raw, choices, files)]
    last = len(parts) - 1
    return [
        Piece(part.text, len(parts) if final else 0, "", choices if n == last else (), files)
        for n, part in enumerate(parts)
    ]
