"""Check: whether Telegram knows the bot, for `hermes doctor` and `hermes init`; and what they ask for."""

from __future__ import annotations

from typing import Final

from hermes_core.checks import Finding, Level, Question, Setup
from hermes_core.config import masked
from hermes_core.errors import ConfigError, HermesError, first_cause
from hermes_telegram.settings import Settings

__all__ = ["SETUP", "check"]

_LIMIT: Final = 10.0  # seconds for each part of one call

SETUP: Final = Setup(
    "telegram",
    "Telegram",
    (
        Question(
            "token_env",
            "The bot's token",
            variable="TELEGRAM_BOT_TOKEN",
        ),
    ),
    guide=lambda answers, commands: (
        "Write to @BotFather on Telegram: /newbot makes a bot and gives its token.\n"
        "To have the bot see more than commands in groups, turn its privacy mode off there: /setprivacy."
    ),
    person="@userinfobot on Telegram tells it: a number",
)


async def check(settings: Settings) -> Finding:
    """Ask Telegram who the bot is; nothing is taken from a program that polls with the same token."""
    import telegram
    from telegram.error import Forbidden, InvalidToken, TelegramError
    from telegram.request import HTTPXRequest

    token = settings.token()
    request = HTTPXRequest(
        connection_pool_size=1, read_timeout=_LIMIT, connect_timeout=_LIMIT, pool_timeout=_LIMIT
    )
    bot = telegram.Bot(token, base_url=f"{settings.server()}/bot", request=request)
    try:
        await request.initialize()
        me = await bot.get_me()
    except (InvalidToken, Forbidden) as error:
        raise ConfigError(
            f"Telegram does not accept the token in {settings.token_env}.",
            "@BotFather shows the right one with /token; one that was revoked is dead.",
        ) from error
    except TelegramError as error:
        raise HermesError(
            f"Telegram cannot be asked at {masked(settings.server())}: {first_cause(error)}.",
            "Is the network there, and is adapters.telegram.base_url right?",
        ) from error
    finally:
        await request.shutdown()
    said = f"the bot is @{me.username}"
    if me.can_read_all_group_messages:
        return Finding(f"{said}; in groups it sees every message")
    return Finding(
        f"{said}; in groups it sees commands, mentions and replies to it only (privacy mode)", "", Level.OK
    )
