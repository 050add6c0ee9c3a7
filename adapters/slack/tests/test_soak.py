"""Everything at once, by a seeded die: faults, cuts, lost connections, late and repeated deliveries, dead streams."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from hermes_core.models import Request
from hermes_core.testing.model import Hold, Script
from hermes_core.testing.platforms.slack import FakeSlack

from .house import House

CHANNELS = 12  # every second one a thread, in which Slack itself shows what is written
ROUNDS = 3
METHODS = (
    *(
        "chat.postMessage",
        "chat.postMessage",
        "chat.update",
        "conversations.history",
        "conversations.replies",
    ),
    *("chat.startStream", "chat.appendStream", "chat.stopStream"),
)


def misbehave(slack: FakeSlack, die: random.Random) -> None:
    method = die.choice(METHODS)
    match die.randrange(5):
        case 0:
            slack.refuse(method, "ratelimited", retry_after=die.choice([0, 1]))
        case 1:
            slack.refuse(method, status=die.choice([500, 502, 503]))
        case 2:
            slack.cut(method, "before")
        case 3:
            slack.cut(method, "after")
        case _:
            slack.world.streams.expire()


def answer(said: str) -> str:
    return f"You said: {said}, and this is an answer that is long enough to be shown while it is written."


def scripts(die: random.Random) -> list[Script]:
    """Answers of which the second half comes later."""

    def slowly(request: Request) -> list[str | Hold]:
        text = answer(str(getattr(request.items[-1], "text", "")))
        hold = Hold()
        asyncio.get_running_loop().call_later(die.choice([0.0, 0.3, 0.6]), hold.release)
        return [text[:60], hold, text[60:]]

    return [slowly] * (CHANNELS * ROUNDS)


@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_is_lost_nothing_comes_twice_and_the_order_holds(
    tmp_path: Path, slack: FakeSlack, seed: int
) -> None:
    die = random.Random(seed)
    places: list[tuple[str, str | None]] = []
    for number in range(CHANNELS):
        channel = f"D{10 + number}"
        root = slack.world.quiet(channel) if number % 2 else None
        places.append((channel, root))
    said: dict[str, list[str]] = {channel: [] for channel, _ in places}
    async with House(tmp_path, slack, scripts(die), busy="followup") as house:
        for round_ in range(ROUNDS):
            for channel, thread in die.sample(places, CHANNELS):
                text = f"message {round_} of {channel}"
                slack.world.say(channel, "UANN", text, thread)
                said[channel].append(answer(text))
                if die.random() < 0.4:
                    misbehave(slack, die)
                if die.random() < 0.1:
                    await slack.redeliver(die.choice(slack.envelopes) if slack.envelopes else None)
            await (slack.drop() if die.random() < 0.5 else slack.refresh())
            # What a dying connection swallowed comes later than what was written after it: Slack's order, not
            # ours to mend. So everybody waits for an answer before writing again.
            async with asyncio.timeout(30):
                while any(slack.texts(channel, thread) != said[channel] for channel, thread in places):
                    await slack.redeliver()
                    await asyncio.sleep(0.05)
        for channel, thread in places:
            await house.settled(channel, thread)
        assert {channel: slack.texts(channel, thread) for channel, thread in places} == said
        assert len(house.model.requests) == CHANNELS * ROUNDS
        assert slack.called("chat.startStream")
        assert slack.world.streams.alive == 0
