"""From the model's Markdown to messages of Discord, and the nonces that they are posted with."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from hermes_core.markup import DISCORD, parse, split, utf16
from hermes_core.messages import Attachment, Choice
from hermes_discord.limits import FILES, LARGEST_FILE, LARGEST_REQUEST, LONGEST_TEXT

__all__ = ["CLOSED", "FEWEST", "REPEAT", "Piece", "complete", "cut", "dressed", "nonce", "told_apart"]

CLOSED: Final = "*✂ interrupted*"
REPEAT: Final = "*(may be a repeat)*\n"
FEWEST: Final = 24  # characters of a text that tells a message apart from others of ours
SHORT: Final = LONGEST_TEXT // 2  # characters, of at most two UTF-16 units each
_NAME: Final = 20
_PLAIN: Final = re.compile(r"(?:[^\W\d_]|\d+(?![.\d]))(?:[^\W_]|[,.!?']| (?=[^\W_]))*")


def cut(text: str, final: bool) -> list[str]:
    """The messages that show `text`; the same whether it is final, as Discord has no second notation."""
    if len(text) <= SHORT and _PLAIN.fullmatch(text):  # most answers of commands: there is nothing to parse
        return [text]
    return [part.text for part in split(parse(text), DISCORD, LONGEST_TEXT, utf16)]


class Piece(msgspec.Struct, frozen=True, gc=False):
    """One message as it is posted: its text, the files that it carries, and the buttons under it."""

    text: str
    files: tuple[Attachment, ...] = ()
    choices: tuple[Choice, ...] = ()


def dressed(texts: Iterable[str], files: Sequence[Attachment], choices: Sequence[Choice]) -> list[Piece]:
    """A whole text with all that belongs to it: the last message carries files and buttons.

    More files than one message takes follow in messages of their own.
    """
    pieces = [Piece(text) for text in texts]
    for number, batch in enumerate(_batches(files)):
        text = pieces.pop().text if number == 0 and pieces else ""
        pieces.append(Piece(text, batch))
    if choices and pieces:
        pieces.append(msgspec.structs.replace(pieces.pop(), choices=tuple(choices)))
    return pieces


def _batches(files: Sequence[Attachment]) -> Iterator[tuple[Attachment, ...]]:
    batch: list[Attachment] = []
    size = 0
    for file in files:
        weight = file.size if file.size is not None else LARGEST_FILE
        if batch and (len(batch) == FILES or size + weight > LARGEST_REQUEST):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(file)
        size += weight
    if batch:
        yield tuple(batch)


def _name(key: str, part: int) -> str:
    digest = hashlib.sha256(f"{key}|{part}".encode()).digest()
    return base64.urlsafe_b64encode(digest).decode()[:_NAME]


def nonce(key: str, part: int, index: int, total: int = 0) -> str:
    """The nonce of message `index` of a text (D5): the same text gives the same one after a crash too.

    `total` is how many messages the text has; 0 while it is still written.
    """
    return f"{_name(key, part)}{index % 256:02x}{total % 256:02x}"


def complete(key: str, found: Mapping[str, str]) -> tuple[str, ...] | None:
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
