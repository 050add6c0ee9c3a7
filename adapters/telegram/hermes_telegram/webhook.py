"""Webhook: has updates brought to our own server, and watches that they are (case 43)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import telegram
from telegram.error import InvalidToken, TelegramError

from hermes_telegram.polling import FIRST_PAUSE, KINDS, LONGEST_PAUSE
from hermes_telegram.request import Flood
from hermes_telegram.settings import Webhook

__all__ = ["hook", "watch"]

log = logging.getLogger("hermes.telegram")

WATCHED: Final = 45.0  # seconds between two looks at what Telegram says of the webhook


async def hook(bot: telegram.Bot, webhook: Webhook) -> None:
    """Have the updates brought, one at a time: so their order holds. Tries for ever; `InvalidToken`."""
    pause = FIRST_PAUSE
    while True:
        try:
            # What waits stays: it is brought now (D8).
            await bot.set_webhook(
                webhook.url, secret_token=webhook.secret, max_connections=1, allowed_updates=KINDS
            )
            return
        except InvalidToken:
            raise
        except TelegramError as error:
            log.warning("the webhook could not be set: %s", error)
            await asyncio.sleep(error.seconds if isinstance(error, Flood) else pause)
            pause = min(2 * pause, LONGEST_PAUSE)


async def watch(
    bot: telegram.Bot, webhook: Webhook, alive: Callable[[], None], every: float = WATCHED
) -> None:
    """Look for ever whether the webhook stands and Telegram can reach it; set it again where it is gone.

    `alive` is called whenever that is so.
    """
    told = None
    while True:
        await asyncio.sleep(every)
        try:
            info = await bot.get_webhook_info()
        except InvalidToken:
            raise
        except TelegramError as error:
            log.warning("Telegram cannot be asked about the webhook: %s", error)
            continue
        if info.url != webhook.url:
            log.error(
                "no messages arrive: another program with this bot's token took the webhook away. It is set "
                "again; stop the other one, or get a token of its own for it."
            )
            await hook(bot, webhook)
        elif info.last_error_date is not None and info.last_error_date != told:
            told = info.last_error_date
            log.error(
                "Telegram cannot bring messages to the webhook: %s (%d wait). Is [http] public_url right, and "
                "reachable from outside?",
                info.last_error_message,
                info.pending_update_count,
            )
        else:
            alive()
