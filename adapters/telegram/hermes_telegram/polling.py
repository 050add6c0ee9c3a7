"""Polling: updates as the library reads them, and why there may be none."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import telegram
from telegram.error import Conflict, TelegramError

from hermes_telegram.request import Request

__all__ = ["KINDS", "poll", "read", "why"]

log = logging.getLogger("hermes.telegram")

KINDS: Final = ("message", "edited_message")
_UNREADABLE: Final = (AttributeError, KeyError, TypeError, ValueError)


async def poll(
    bot: telegram.Bot, polls: Request, offset: int | None, timeout: int
) -> Sequence[telegram.Update]:
    """One poll. Where the library cannot read an update, the others are taken, and that one is passed over."""
    try:
        return await bot.get_updates(offset, 100, timeout, allowed_updates=KINDS)
    except _UNREADABLE:
        log.debug("a batch has an update in it that cannot be read")
    return [read(raw, bot) for raw in msgspec.json.decode(polls.last)["result"]]


def read(raw: Any, bot: telegram.Bot) -> telegram.Update:
    """One update; an empty one, which is passed over, where the library cannot read it."""
    try:
        return telegram.Update.de_json(raw, bot)
    except _UNREADABLE as error:
        log.error("update %s could not be read and is passed over", raw.get("update_id"), exc_info=error)
        return telegram.Update(raw["update_id"])


def why(error: TelegramError) -> str:
    """Why no messages arrive, for who runs the program."""
    if isinstance(error, Conflict) and "webhook" not in error.message:
        return (
            "another program polls with this bot's token (409), and Telegram gives each message to one of them "
            "only. Stop the other one, or get a token of its own for it. An old poll may linger for 30 s."
        )
    return str(error)
