"""A Telegram that is gone while the adapter tries on: the log, /health and the figures say so (case 43)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from hermes_core.http.metrics import samples
from hermes_core.testing.platforms.telegram import TelegramServer

if TYPE_CHECKING:
    from .conftest import House


async def test_case_43_a_telegram_that_is_gone_is_reported_while_the_adapter_tries_on(
    telegram: TelegramServer, open_house: Callable[..., House], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with open_house(health={"silent_after": 1.0}) as house:
        await house.up()
        pulse = house.runtime.services.pulses["telegram"]

        async def until(state: str) -> None:
            async with asyncio.timeout(30):
                while pulse.state != state:
                    await asyncio.sleep(0.02)

        def up() -> Any:
            return next(one for name, _, one in samples(house.runtime) if name == "hermes_platform_up")

        await until("up")
        await telegram.close()
        await until("silent")
        assert up() == 0
        assert "platform telegram is silent" in caplog.text
        await telegram.start()
        await until("up")
        assert up() == 1
        assert "platform telegram is heard again" in caplog.text
        telegram.say("are you there?")
        await telegram.shown("you said: are you there?")
