"""From what the model writes to what Telegram shows: text and entities, so nothing needs escaping (R1, R2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import telegram

from hermes_core.markup import PLAIN, TELEGRAM, TELEGRAM_MENTIONS, Part, parse, pinging_nobody, plain, split
from hermes_core.markup.characters import utf16
from hermes_core.messages import Attachment, Choice, Outgoing
from hermes_core.pacing import Cut
from hermes_telegram.limits import CAPTION, TEXT

__all__ = [
    "CAPTION_ROOM",
    "INTERRUPTED",
    "REPEAT",
    "ROOM",
    "Content",
    "Cutter",
    "entities",
    "keyboard",
    "marked",
    "one_line",
]

REPEAT: Final = "↻ (may be a repeat)\n\n"
INTERRUPTED: Final = "✂ _interrupted_"
ROOM: Final = TEXT - len(REPEAT)  # what a message holds: each can take the mark
CAPTION_ROOM: Final = CAPTION - len(REPEAT)


class Content(msgspec.Struct, frozen=True):
    """One message: its text, the buttons under it, and the file whose caption the text is."""

    part: Part
    choices: tuple[Choice, ...] = ()
    file: Attachment | None = None

    @property
    def words(self) -> str:
        """See `hermes_core.writing.Content`."""
        return self.part.text


class Cutter:
    """How a text becomes messages: plain while it is written, formatted at the end.

    A name with an @ rings at nobody unless `pings` (R4, E11).
    """

    def __init__(self, *, pings: bool = False) -> None:
        self._final = TELEGRAM if pings else pinging_nobody(TELEGRAM, TELEGRAM_MENTIONS)
        self._draft = PLAIN if pings else pinging_nobody(PLAIN, TELEGRAM_MENTIONS)

    def __call__(self, text: str, final: bool) -> Sequence[Content]:
        """A text alone."""
        tree, dialect = (parse(text), self._final) if final else (plain(text), self._draft)
        return [Content(part) for part in split(tree, dialect, ROOM)]

    def whole(self, outgoing: Outgoing, drafted: bool) -> Cut:
        """The text of `outgoing` with its buttons and files.

        A text that is short enough is the caption of the first file, unless it is `drafted` already: a
        message cannot become a file.
        """

        def cut(text: str, final: bool) -> Sequence[Content]:
            shown = list(self(text, final))
            if not final:
                return shown
            files = [Content(Part(""), (), one) for one in outgoing.attachments]
            if files and not drafted and len(shown) == 1 and len(shown[0].part.text) <= CAPTION_ROOM:
                files[0] = msgspec.structs.replace(files[0], part=shown.pop().part)
            under = shown or files
            if under and outgoing.choices:
                under[-1] = msgspec.structs.replace(under[-1], choices=outgoing.choices)
            return [*shown, *files]

        return cut


def one_line(text: str, final: bool) -> Sequence[Content]:
    """The line of a job, as it was written."""
    return [Content(Part(text[:TEXT]))] if text.strip() else []


def entities(part: Part) -> list[telegram.MessageEntity]:
    """The library's own form of a part's entities."""
    return [
        telegram.MessageEntity(
            one.type,
            one.offset,
            one.length,
            url=one.value if one.type == "text_link" else None,
            language=one.value or None if one.type == "pre" else None,
        )
        for one in part.entities
    ]


def keyboard(choices: Sequence[Choice]) -> telegram.InlineKeyboardMarkup | None:
    """Buttons, one in a row: so that a label is read whole on a telephone."""
    if not choices:
        return None
    return telegram.InlineKeyboardMarkup(
        [[telegram.InlineKeyboardButton(one.label, callback_data=one.send)] for one in choices]
    )


def marked(part: Part) -> Part:
    """The part with the mark that it may have been delivered before (D5)."""
    shift = utf16(REPEAT)
    moved = tuple(msgspec.structs.replace(one, offset=one.offset + shift) for one in part.entities)
    return Part(REPEAT + part.text, moved)
