"""Everything at once, by a seeded die: faults, cuts, lost connections, late and repeated deliveries."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from hermes_core.testing.platforms.slack import FakeSlack

from .house import House

CHANNELS = 12
ROUNDS = 3


def misbehave(slack: FakeSlack, die: random.Random) -> None:
    method = die.choice(["chat.postMessage", "chat.postMessage", "chat.update", "conversations.history"])
    match die.randrange(4):
        case 0:
            slack.refuse(method, "ratelimited", retry_after=die.choice([0, 1]))
        case 1:
            slack.refuse(method, status=die.choice([500, 502, 503]))
        case 2:
            slack.cut(method, "before")
        case _:
            slack.cut(method, "after")


@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_is_lost_nothing_comes_twice_and_the_order_holds(
    tmp_path: Path, slack: FakeSlack, seed: int
) -> None:
    die = random.Random(seed)
    channels = [f"D{10 + number}" for number in range(CHANNELS)]
    said: dict[str, list[str]] = {channel: [] for channel in channels}
    async with House(tmp_path, slack, busy="followup") as house:
        for round_ in range(ROUNDS):
            for channel in die.sample(channels, CHANNELS):
                text = f"message {round_} of {channel}"
                slack.world.say(channel, "UANN", text)
                said[channel].append(f"you said: {text}")
                if die.random() < 0.4:
                    misbehave(slack, die)
                if die.random() < 0.1:
                    await slack.redeliver(die.choice(slack.envelopes) if slack.envelopes else None)
            await (slack.drop() if die.random() < 0.5 else slack.refresh())
            # What a dying connection swallowed comes later than what was written after it: Slack's order, not
            # ours to mend. So everybody waits for an answer before writing again.
            async with asyncio.timeout(20):
                while any(slack.texts(channel) != said[channel] for channel in channels):
                    await slack.redeliver()
                    await asyncio.sleep(0.05)
        for channel in channels:
            await house.settled(channel)
        assert {channel: slack.texts(channel) for channel in channels} == said
        assert len(house.model.requests) == CHANNELS * ROUNDS
