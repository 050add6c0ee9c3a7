"""A Discord that misbehaves at random: nothing is lost, nothing comes twice, the order holds (D1, D5, R3)."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from hermes_core.messages import Said
from hermes_core.models import Request
from hermes_core.testing.platforms.discord import FakeDiscord

from .bench import Bench, until

CHANNELS = 12
ROUNDS = 3


@pytest.mark.parametrize("seed", [2, 4])
async def test_a_platform_that_misbehaves_loses_and_doubles_nothing(
    seed: int, tmp_path: Path, discord: FakeDiscord
) -> None:
    chance = random.Random(seed)
    chats = [discord.direct(f"p{n}") for n in range(CHANNELS)]
    discord.gateway.duplicates = 4
    async with Bench(tmp_path, discord, settings={"busy": "followup"}) as bench:
        bench.model.default = _at_length
        trouble = asyncio.create_task(_trouble(discord, chance))
        for number in range(ROUNDS):
            for index, chat in enumerate(chats):
                await discord.say(chat, f"p{index}", f"this is message number {number} of {index}")
                await asyncio.sleep(chance.random() * 0.05)
        wanted = {
            chat: ["".join(_parts(f"this is message number {n} of {index}")) for n in range(ROUNDS)]
            for index, chat in enumerate(chats)
        }
        await until(lambda: all(len(discord.texts(chat)) >= ROUNDS for chat in chats), 60.0)
        await trouble
        await until(
            lambda: all(bench.runtime.services.outbox.empty(bench.address(one)) for one in chats), 60.0
        )
        assert {chat: discord.texts(chat) for chat in chats} == wanted
        assert len(bench.model.requests) == CHANNELS * ROUNDS


def _parts(text: str) -> list[str]:
    return ["You said something, and I say it ", "once more, in several pieces: ", text]


def _at_length(request: Request) -> list[str]:
    return _parts(next(one.text for one in reversed(request.items) if isinstance(one, Said)))


async def _trouble(discord: FakeDiscord, chance: random.Random) -> None:
    """One misfortune after the other, for some seconds."""
    for _ in range(16):
        await asyncio.sleep(0.1 + chance.random() * 0.2)
        match chance.randrange(7):
            case 0:
                discord.fail("POST", "/messages", cut=chance.choice(["before", "after"]))
            case 1:
                discord.fail("PATCH", "/messages", cut=chance.choice(["before", "after"]))
            case 2:
                discord.fail("POST", "/messages", 503, {"message": "503: Service Unavailable", "code": 0})
            case 3:
                discord.limit("POST", "/messages", 0.2)
            case 4:
                await discord.gateway.hang_up(4000)
            case 5:
                discord.gateway.cut()
            case 6:
                await discord.gateway.ask_to_reconnect()
