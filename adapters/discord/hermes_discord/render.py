"""From the model's Markdown to messages of Discord, and the nonces that they are posted with."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

from hermes_core.markup import DISCORD, parse, split, utf16
from hermes_discord.limits import LONGEST_TEXT

__all__ = ["CLOSED", "FEWEST", "REPEAT", "complete", "cut", "nonce", "told_apart"]

CLOSED: Final = "*✂ interrupted*"
REPEAT: Final = "*(may be a repeat)*\n"
FEWEST: Final = 24  # characters of a text that tells a message apart from others of ours
_NAME: Final = 20


def cut(text: str, final: bool) -> list[str]:
    """The messages that show `text`; the same whether it is final, as Discord has no second notation."""
    return [part.text for part in split(parse(text), DISCORD, LONGEST_TEXT, utf16)]


def _name(key: str, part: int) -> str:
    digest = hashlib.sha256(f"{key}|{part}".encode()).digest()
    return base64.b32encode(digest).decode().lower()[:_NAME]


def nonce(key: str, part: int, index: int, total: int = 0) -> str:
    """The nonce of message `index` of a text (D5): the same text gives the same one after a crash too.

    `total` is how many messages the text has; 0 while it is still written.
    """
    return f"{_name(key, part)}{index % 256:02x}{total % 256:02x}"


def complete(key: str, found: dict[str, str]) -> tuple[str, ...] | None:
    """The ids of all messages of a final text, given ids by nonce; None if one of them is not there."""
    name = _name(key, 0)
    totals = {int(one[-2:], 16) for one in found if one.startswith(name)} - {0}
    for total in totals:
        wanted = [nonce(key, 0, index, total) for index in range(total)]
        if all(one in found for one in wanted):
            return tuple(found[one] for one in wanted)
    return None


def told_apart(content: str) -> bool:
    """Whether a message of ours with this very content is very likely the one that is looked for."""
    return len(content) >= FEWEST
