"""From the model's Markdown to messages of Discord, and the nonces that they are posted with."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from hermes_core.markup import DISCORD, parse, split, utf16
from hermes_core.messages import Attachment, Choice, Outgoing, turn_key
from hermes_core.pacing import Cut
from hermes_core.writing import Place
from hermes_discord.limits import FILES, LARGEST_FILE, LARGEST_REQUEST, LONGEST_TEXT

__all__ = ["CLOSED", "FEWEST", "REPEAT", "Dresser", "Piece", "complete", "cut", "nonce", "told_apart"]

CLOSED: Final = "*✂ interrupted*"
REPEAT: Final = "*(may be a repeat)*\n"
FEWEST: Final = 24  # characters of a text that tells a message apart from others of ours
SHORT: Final = LONGEST_TEXT // 2  # characters, of at most two UTF-16 units each
_LEFT_OUT: Final = 100  # messages whose refused files are known
_NAME: Final = 15
_PLAIN: Final = re.compile(r"(?:[^\W\d_]|\d+(?![.\d]))(?:[^\W_]|[,.!?']| (?=[^\W_]))*")


class Piece(msgspec.Struct, frozen=True, gc=False):
    """One message as it is posted: its text, the files that it carries, and the buttons under it."""

    text: str
    files: tuple[Attachment, ...] = ()
    choices: tuple[Choice, ...] = ()

    @property
    def words(self) -> str:
        """See `hermes_core.writing.Content`."""
        return self.text


def cut(text: str, final: bool) -> list[Piece]:
    """The messages that show `text`; the same whether it is final, as Discord has no second notation."""
    if len(text) <= SHORT and _PLAIN.fullmatch(text):  # most answers of commands: there is nothing to parse
        return [Piece(text)]
    return [Piece(part.text) for part in split(parse(text), DISCORD, LONGEST_TEXT, utf16)]


class Dresser:
    """How whole messages are cut: with their files and buttons, less the files that Discord did not take."""

    def __init__(self) -> None:
        self._left_out: dict[str, dict[Attachment, str]] = {}  # with the reason, by the key of `Place`

    def leave_out(self, key: str, files: Sequence[Attachment], why: str) -> None:
        """Discord does not take these files with this message."""
        self._left_out.setdefault(key, {}).update(dict.fromkeys(files, why))
        if len(self._left_out) > _LEFT_OUT:
            del self._left_out[next(iter(self._left_out))]

    def whole(self, outgoing: Outgoing, drafted: bool) -> Cut:
        """See `hermes_core.writing.Style`. Files can be put to a message that is there."""
        if not outgoing.attachments and not outgoing.choices:
            return cut
        key = turn_key(outgoing.address, outgoing.turn) if outgoing.turn else outgoing.key

        def dressed(text: str, final: bool) -> list[Piece]:
            if not final:
                return cut(text, final)
            left_out = self._left_out.get(key, {})
            for file, why in left_out.items():
                text = f"{text}\n\n*{file.name} could not be attached: {why}.*"
            files = [one for one in outgoing.attachments if one not in left_out]
            return _dressed(cut(text, final), files, outgoing.choices)

        return dressed


def _dressed(pieces: list[Piece], files: Sequence[Attachment], choices: tuple[Choice, ...]) -> list[Piece]:
    """The last message carries files and buttons; more files than it takes follow in messages of their own."""
    for number, batch in enumerate(_batches(files)):
        text = pieces.pop().text if number == 0 and pieces else ""
        pieces.append(Piece(text, batch))
    if choices and pieces:
        pieces.append(msgspec.structs.replace(pieces.pop(), choices=choices))
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


def _name(key: str) -> str:
    digest = hashlib.sha256(key.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode()[:_NAME]


def nonce(place: Place) -> str:
    """The nonce of this message (D5): the same place gives the same one after a crash too."""
    numbers = f"{place.part % 4096:03x}{place.index % 4096:03x}{place.of % 4096:03x}{place.again % 16:x}"
    return f"{_name(place.key)}{numbers}"


def complete(key: str, found: Mapping[str, str]) -> tuple[str, ...] | None:
    """The ids of all messages of the reply with this key, given ids by nonce; None if one of them is not there.

    Of the texts of its turn it is the last; those that were shown while they were written say nothing here.
    """
    name = _name(key)
    mine = {one[_NAME:-1]: id_ for one, id_ in found.items() if one.startswith(name)}
    last = max((one for one in mine if not one.endswith("000")), default=None)
    if last is None:
        return None
    ids = [mine.get(f"{last[:3]}{index:03x}{last[6:]}") for index in range(int(last[6:], 16))]
    whole = tuple(one for one in ids if one is not None)
    return whole if len(whole) == len(ids) else None


def told_apart(content: str) -> bool:
    """Whether a message of ours with this very content is very likely the one that is looked for."""
    return len(content) >= FEWEST
