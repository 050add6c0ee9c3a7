"""A gateway under load, killed at random instants and started again: nothing is lost, nothing is done twice.

D1 to D6 with real processes: the real runtime, store, model plugin and tools; a platform and a model
server that outlive it, over real sockets. The seed is printed; `--crash-kills N` goes
on for as long as one wants.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from .gateways import Gateways
from .world import CHANNELS, World

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs process handles (Linux)")

# After which event a kill comes: at once after the start, or when the gateway has done something.
INSTANTS = {"start": 3, "hello": 2, "ack": 3, "model": 3, "send": 3, "find": 1}


async def kill_again_and_again(world: World, kills: int) -> Counter[str]:
    """The load and the kills, and a stop in order after every tenth. Gives after what the gateway died how often."""
    chance = world.chance
    instants: Counter[str] = Counter()
    for number in range(kills + kills // 10):
        for channel in CHANNELS:
            world.budget[channel] = 4
        life = await world.gateways.start(whole=number % 20 == 0)
        what = chance.choices(list(INSTANTS), list(INSTANTS.values()))[0]
        if what == "find" and not world.lookup:
            what = "send"
        if what != "start":
            await world.happens(what, 1.0)
        longest = 0.25 if chance.random() < 0.15 else 0.06
        assert await life.lives(chance.uniform(0, longest)), log_of(world.gateways)
        instants[what] += 1
        await life.end(signal.SIGTERM if number % 11 == 5 else signal.SIGKILL)
        if number % 20 == 10:  # whose tools die by themselves: no next start sweeps them away
            assert await world.gateways.nothing_left(2.0) == []
    world.budget.clear()
    return instants


async def come_to_rest(world: World) -> None:
    """A last start that nobody disturbs, and a stop as an operator would do it."""
    life = await world.gateways.start(whole=True)
    await world.happens("hello", 15.0)
    assert await world.settled(60.0) == []
    assert await world.gateways.stop(life) == 0
    assert await world.gateways.nothing_left(2.0) == []


def log_of(gateways: Gateways) -> str:
    """The end of what the gateways logged."""
    return gateways.log.read_text()[-5000:]


def errors_in(gateways: Gateways) -> list[str]:
    """What they logged as an error: a kill is none."""
    return [
        line for line in gateways.log.read_text().splitlines() if " ERROR " in line or "Traceback" in line
    ]


def seed_of(config: pytest.Config) -> int:
    """The seed of this run, printed so that it can be repeated."""
    seed = config.getoption("--crash-seed")
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    print(f"--crash-seed {seed}")
    return int(seed)


@pytest.mark.slow
async def test_whoever_was_acknowledged_is_answered_once_and_in_order_however_often_it_crashes(
    tmp_path: Path, pytestconfig: pytest.Config, kills: int
) -> None:
    """(D1 to D6, E5)"""
    began = time.monotonic()
    async with World(tmp_path, seed_of(pytestconfig), "queue") as world:
        instants = await kill_again_and_again(world, kills)
        await come_to_rest(world)
        assert errors_in(world.gateways) == []
        await world.check_store()
        turns = world.stored()
        assert {turn["end"] for some in turns.values() for turn in some} == {"completed"}
        world.check_turns(turns)
        world.check_last_requests(turns)
        world.check_sent(turns)
        tools = world.check_tools(turns)
        # What ran was planned in the store before: no model was asked a second time for its call.
        effects = Counter(call.partition(".")[0] for call in world.executions("runs"))
        assert [name for name, count in effects.items() if count > 1] == []
        assert world.mind.objections == []
        assert world.mind.restarted
        report(world, kills, instants, tools, time.monotonic() - began)


async def test_where_messages_interrupt_each_is_still_used_by_one_turn(
    tmp_path: Path, pytestconfig: pytest.Config, kills: int
) -> None:
    """(D2, D6, I6)"""
    kills //= 4
    began = time.monotonic()
    async with World(tmp_path, seed_of(pytestconfig), "interrupt") as world:
        instants = await kill_again_and_again(world, kills)
        await come_to_rest(world)
        assert errors_in(world.gateways) == []
        await world.check_store()
        turns = world.stored()
        assert {turn["end"] for some in turns.values() for turn in some} == {"completed", "interrupted"}
        world.check_turns(turns)
        world.check_sent(turns)
        tools = world.check_tools(turns)
        assert world.mind.objections == []
        report(world, kills, instants, tools, time.monotonic() - began)


async def test_where_the_platform_cannot_be_asked_a_reply_may_come_again_and_says_so(
    tmp_path: Path, pytestconfig: pytest.Config, kills: int
) -> None:
    """(D5) A lost reply would be worse; one that comes again without its mark as well."""
    kills //= 4
    began = time.monotonic()
    async with World(tmp_path, seed_of(pytestconfig), "queue", lookup=False) as world:
        instants = await kill_again_and_again(world, kills)
        await come_to_rest(world)
        assert errors_in(world.gateways) == []
        await world.check_store()
        turns = world.stored()
        world.check_turns(turns)
        world.check_sent(turns)
        tools = world.check_tools(turns)
        assert (world.mind.objections, world.chat.finds) == ([], 0)
        report(world, kills, instants, tools, time.monotonic() - began)


def report(world: World, kills: int, instants: Counter[str], tools: dict[str, int], seconds: float) -> None:
    """What was put to the test, for whoever reads along (`-s`)."""
    counts = {
        "messages": len(world.chat.written),
        "sent": len(world.chat.sent),
        "model calls": world.mind.requests,
        "looked up": world.chat.finds,
        "found": world.chat.found,
        "repeated": sum(one["repeat"] for one in world.chat.sent),
        **tools,
    }
    text = ", ".join(f"{name} {count}" for name, count in counts.items())
    print(f"{kills} kills in {seconds:.0f} s, after {dict(instants)}: {text}", file=sys.stderr)
