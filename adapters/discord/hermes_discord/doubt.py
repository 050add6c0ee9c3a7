"""Doubt: which messages in the history show a reply whose fate is unknown (D5). Pure.

Discord keeps the nonce of a message for minutes and shows it in no history. So the agent's own messages are
compared: by what they answer and say, and when they were posted. Where that decides nothing, the nonce does as
long as it holds; after that the reply goes out with its mark, so that nobody takes a repeat for news.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import discord

from hermes_core.messages import Outgoing
from hermes_core.pacing import Slot
from hermes_core.writing import Doubt
from hermes_discord.limits import NONCE_LAPSES
from hermes_discord.render import Piece, told_apart

__all__ = ["left_by", "settled"]


def left_by(doubt: Doubt, mine: Sequence[discord.Message], known: Collection[str]) -> str | None:
    """The message that a single post left, if it is certain which; those that are `known` are of other posts."""
    words = doubt.words.strip()
    for message in reversed(mine):
        if not words or message.content.strip() != words or str(message.id) in known:
            continue
        if told_apart(words) or abs(message.created_at.timestamp() - doubt.at) < NONCE_LAPSES:
            return str(message.id)
    return None


def settled(
    mine: Sequence[discord.Message], outgoing: Outgoing, pieces: Sequence[Piece], now: float
) -> tuple[tuple[Slot, ...], bool]:
    """The messages that certainly show the beginning of `pieces`, and whether others may show it.

    `mine`: the agent's latest messages in this channel, oldest first. `now`: seconds since 1970.
    """
    answers = int(outgoing.answers) if outgoing.answers and outgoing.answers.isdigit() else None
    found: list[Slot] = []
    doubtful = False
    for message in mine:
        if len(found) == len(pieces):
            break
        piece = pieces[len(found)]
        if not _same(message, piece) or (answers is not None and message.id < answers):
            continue
        referred = message.reference.message_id if message.reference is not None else None
        if answers is not None and (referred == answers or told_apart(piece.text) or piece.files):
            whole = len(message.attachments) == len(piece.files)
            found.append(Slot(str(message.id), piece if whole and not piece.choices else Piece(piece.text)))
        elif now - message.created_at.timestamp() > NONCE_LAPSES:
            doubtful = True
    return tuple(found), doubtful and not found


def _same(message: discord.Message, piece: Piece) -> bool:
    if message.content.strip() != piece.text.strip():
        return False
    return bool(piece.text.strip()) or [one.filename for one in message.attachments] == [
        one.name for one in piece.files
    ]
