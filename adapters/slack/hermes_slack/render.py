"""From the Markdown of a model to messages that Slack takes (R1, R2, R4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from hermes_core.markup import SLACK, parse, plain, split
from hermes_slack.limits import MAX_TEXT

__all__ = ["INTERRUPTED", "INTERRUPTED_MRKDWN", "Piece", "cut"]

INTERRUPTED: Final = "*✂ interrupted*"  # Markdown, in italics
INTERRUPTED_MRKDWN: Final = "_✂ interrupted_"


# One line of words: it has no markup, and most short answers are no more. Held against the parser by a test.
_WORDS: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9,;?!'%=$ ]|[.:](?= |\Z))*(?<! )")


class Piece(msgspec.Struct, frozen=True):
    """One message's text. `of`: how many messages the finished text has; 0 while it is written.

    So a finished message always differs from its draft, and is edited once more: only then does its
    metadata say that the whole text was delivered.
    """

    text: str
    of: int = 0


def cut(text: str, final: bool) -> Sequence[Piece]:
    """The messages that show `text`, formatted once it is final. Nothing in it rings at anybody (R4)."""
    if len(text) <= MAX_TEXT and _WORDS.fullmatch(text):
        return [Piece(text, 1 if final else 0)]
    parts = split(parse(text) if final else plain(text), SLACK, MAX_TEXT)
    return [Piece(part.text, len(parts) if final else 0) for part in parts]
