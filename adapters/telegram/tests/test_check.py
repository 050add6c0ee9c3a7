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
    with pytest.raises(HermesError, match=f"cannot be asked at {gone}: .*connect") as error:
        await look(gone, "1234:wrong-and-secret")
    assert "wrong-and-secret" not in str(error.value)


@pytest.mark.parametrize(
    "base_url", ["api.telegram.org", "ftp://api.telegram.org", "http://", "http://h:port", ""]
)
async def test_an_address_that_is_none_is_refused_before_anything_connects(base_url: str) -> None:
    """It is the config that has to be changed: no pause and no further try makes it an address."""
    for begin in (look, opened):
        with pytest.raises(
            ConfigError, match=r"adapters\.telegram\.base_url is no address.*https://api\.telegram\.org"
        ):
            await begin(base_url, "42:abc")


async def opened(base_url: str, token: str) -> str:
    settings = Settings(base_url=base_url, secrets=Secrets({"TELEGRAM_BOT_TOKEN": token}))
    (factory,) = TelegramPlugin(settings).hermes_adapters()
    factory.open({})
    return base_url
