"""What `hermes doctor` and `hermes init` find out about a Telegram bot, against the strict Telegram."""

from __future__ import annotations

import pytest

from hermes_core.config import Secrets
from hermes_core.errors import ConfigError, HermesError
from hermes_core.testing.platforms.telegram import TelegramServer
from hermes_telegram.plugin import TelegramPlugin
from hermes_telegram.settings import Settings


async def look(base_url: str, token: str) -> str:
    settings = Settings(base_url=base_url, secrets=Secrets({"TELEGRAM_BOT_TOKEN": token}))
    (check,) = TelegramPlugin(settings).hermes_checks()
    return (await check.run()).text


async def test_a_token_that_telegram_knows_is_told_with_the_bots_name() -> None:
    async with TelegramServer() as telegram:
        assert "the bot is @" in await look(telegram.base_url, telegram.token)
        assert [call.method for call in telegram.calls] == ["getMe"], "and nobody's messages are taken"


async def test_a_wrong_token_is_named_by_its_variable_and_never_shown() -> None:
    async with TelegramServer() as telegram:
        with pytest.raises(ConfigError) as error:
            await look(telegram.base_url, "1234:wrong-and-secret")
    assert "TELEGRAM_BOT_TOKEN" in str(error.value)
    assert "wrong-and-secret" not in str(error.value)


async def test_a_server_that_is_not_there_is_said_so() -> None:
    async with TelegramServer() as telegram:
        gone = telegram.base_url
    with pytest.raises(HermesError, match="cannot be asked") as error:
        await look(gone, "1234:wrong-and-secret")
    assert "wrong-and-secret" not in str(error.value)
