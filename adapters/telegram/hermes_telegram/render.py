"""From what the model writes to what Telegram shows: text and entities, so nothing needs escaping (R1, R2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import telegram

from hermes_core.markup import PLAIN, TELEGRAM, TELEGRAM_MENTIONS, Part, parse, pinging_nobody, plain, split
from hermes_core.markup.characters import utf16
from hermes_core.pacing import Cut
from hermes_telegram.limits import TEXT

__all__ = ["INTERRUPTED", "REPEAT", "cutter", "entities", "marked"]

REPEAT: Final = "↻ (may be a repeat)\n\n"
INTERRUPTED: Final = "✂ _interrupted_"
_ROOM: Final = TEXT - len(REPEAT)  # every message can take the mark


def cutter(*, pings: bool = False) -> Cut:
    """How a text becomes messages: plain while it is written, formatted at the end.

    A name with an @ rings at nobody unless `pings` (R4, E11).
    """
    final_dialect = TELEGRAM if pings else pinging_nobody(TELEGRAM, TELEGRAM_MENTIONS)
    draft_dialect = PLAIN if pings else pinging_nobody(PLAIN, TELEGRAM_MENTIONS)

    def cut(text: str, final: bool) -> Sequence[Part]:
        if final:
            return split(parse(text), final_dialect, _ROOM)
        return split(plain(text), draft_dialect, _ROOM)

    return cut


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


def marked(part: Part) -> Part:
    """The part with the mark that it may have been delivered before (D5)."""
    shift = utf16(REPEAT)
    moved = tuple(msgspec.structs.replace(one, offset=one.offset + shift) for one in part.entities)
    return Part(REPEAT + part.text, moved)
