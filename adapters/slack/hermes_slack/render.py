"""From the Markdown of a model to messages that Slack takes (R1, R2, R4)."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from hermes_core.markup import SLACK, parse, plain, split
from hermes_core.messages import Attachment, Choice, Outgoing
from hermes_core.pacing import Cut
from hermes_slack.limits import MAX_SECTION, MAX_TEXT

__all__ = ["INTERRUPTED", "Piece", "cut", "whole"]

INTERRUPTED: Final = "*✂ interrupted*"  # Markdown, in italics
_BEGUN: Final = 200  # characters by which a message is recognised

# One line of words: it has no markup, and most short answers are no more. A number in front with a full stop
# begins a list. Held against the parser by a test.
_WORDS: Final = re.compile(r"(?![0-9]+\.)[A-Za-z0-9](?:[A-Za-z0-9,;?!'%=$ ]|[.:](?= |\Z))*(?<! )")


class Piece(msgspec.Struct, frozen=True):
    """One message: its text, with `choices` under it, or a `file`. `of`: how many messages the finished text has with
    its files; 0 while it is written.

    So a finished message always differs from its draft, and is edited once more: only then do its metadata say
    what it is. `raw` is the Markdown of it, "" where it is not a whole text. `reply`: it is of a message from the
    outbox, and not of a text before a tool call or the line of a job.
    """

    text: str
    of: int = 0
    raw: str = ""
    choices: tuple[Choice, ...] = ()
    reply: bool = False
    file: Attachment | None = None

    @property
    def words(self) -> str:
        """See `hermes_core.writing.Content`."""
        return (self.raw or self.text)[:_BEGUN]


def cut(text: str, final: bool, outgoing: Outgoing | None = None) -> Sequence[Piece]:
    """The messages that show `text`, formatted once it is final. Nothing in it rings at anybody (R4).

    The buttons of the message that it is stand under the last one, and its files follow.
    """
    choices, files = ((), ()) if outgoing is None else (outgoing.choices, outgoing.attachments)
    reply = outgoing is not None
    limit = MAX_SECTION if choices else MAX_TEXT
    raw = text.strip()
    if len(text) <= limit and _WORDS.fullmatch(text):
        shown = [text]
    else:
        shown = (
            [part.text for part in split(parse(text) if final else plain(text), SLACK, limit)] if raw else []
        )
    of = len(shown) + len(files) if final else 0
    last = len(shown) - 1
    pieces = [
        Piece(one, of, "" if last else raw, choices if n == last else (), reply)
        for n, one in enumerate(shown)
    ]
    return [*pieces, *(Piece("", of, reply=reply, file=file) for file in files)]


def whole(outgoing: Outgoing, drafted: bool) -> Cut:
    """How this message is cut."""
    return functools.partial(cut, outgoing=outgoing)
