"""What `hermes doctor` and `hermes init` find out about a Discord bot, against the strict Discord."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_core.checks import Finding, Level
from hermes_core.config import Secrets
from hermes_core.errors import ConfigError, HermesError
from hermes_core.testing.platforms.discord import FakeDiscord
from hermes_discord.plugin import DiscordPlugin


async def look(base_url: str, token: str) -> Finding:
    settings = DiscordPlugin.Settings(base_url=base_url, secrets=Secrets({"DISCORD_BOT_TOKEN": token}))
    (check,) = DiscordPlugin(settings).hermes_checks()
    return await check.run()


async def test_a_token_that_discord_knows_is_told_with_the_bots_name(discord: FakeDiscord) -> None:
    found = await look(discord.base_url, discord.token)
    assert (found.level, found.text) == (Level.OK, "the bot is hermes")


async def test_an_intent_that_is_off_is_found_before_the_gateway_closes_for_it(discord: FakeDiscord) -> None:
    discord.gateway.allowed = 0
    found = await look(discord.base_url, discord.token)
    assert found.level is Level.BROKEN
    assert "Message Content Intent is off" in found.text


async def test_a_wrong_token_is_named_by_its_variable_and_never_shown(discord: FakeDiscord) -> None:
    with pytest.raises(ConfigError, match="DISCORD_BOT_TOKEN") as error:
        await look(discord.base_url, "wrong-and-secret")
    assert "wrong-and-secret" not in str(error.value)


async def test_a_server_that_is_not_there_is_said_so() -> None:
    with pytest.raises(
        HermesError, match=r"cannot be asked at http://127\.0\.0\.1:9/api/v10: .*Connect call failed"
    ):
        await look("http://127.0.0.1:9/api/v10", "wrong-and-secret")


@pytest.mark.parametrize("key", ["base_url", "gateway_url"])
@pytest.mark.parametrize("url", ["discord.com/api/v10", "ftp://discord.com", "wss://", "https://h:port"])
def test_an_address_that_is_none_is_refused_before_anything_connects(key: str, url: str) -> None:
    given: dict[str, Any] = {key: url}
    settings = DiscordPlugin.Settings(**given, secrets=Secrets({"DISCORD_BOT_TOKEN": "abc"}))
    (factory,) = DiscordPlugin(settings).hermes_adapters()
    with pytest.raises(ConfigError, match=rf"adapters\.discord\.{key} is no address"):
        factory.open({})
