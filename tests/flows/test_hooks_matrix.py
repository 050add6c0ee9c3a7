"""P3: hooks fire on every path, whichever way a text comes in and whichever way a turn ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core.errors import ModelError
from hermes_core.hookspecs import Answer, Interruption, hookimpl
from hermes_core.messages import Address, Entry, TurnEnd
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold, Script
from hermes_core.testing.virtual import run
from hermes_steer.plugin import SteerPlugin


class Witness:
    """Writes down every hook that is called, in order."""

    def __init__(self, answers: str = "") -> None:
        self.seen: list[str] = []
        self._answers = answers

    @hookimpl
    async def hermes_message(self, entry: Entry) -> Answer | None:
        self.seen.append(f"message {entry.text}")
        return Answer("by a plugin") if entry.text == self._answers else None

    @hookimpl
    async def hermes_system_prompt(self, prompt: str, address: Address) -> str:
        self.seen.append("system prompt")
        return prompt

    @hookimpl
    async def hermes_turn_started(self, turn: int, entries: tuple[Entry, ...]) -> None:
        self.seen.append(f"started {turn}: {', '.join(one.text for one in entries)}")

    @hookimpl
    async def hermes_turn_ended(self, turn: int, end: TurnEnd) -> None:
        self.seen.append(f"ended {turn} {end.value}")

    @hookimpl
    async def hermes_interrupt(self, turn: int) -> None:
        self.seen.append(f"interrupt {turn}")

    @hookimpl
    async def hermes_interrupted(self, interruption: Interruption) -> None:
        self.seen.append(f"interrupted {interruption.turn}")


def house(
    folder: Path,
    witness: Witness,
    *scripts: Script,
    mode: str = "interrupt",
    store: MemoryStore | None = None,
) -> Bed:
    plugins = [BusyPlugin(), SteerPlugin(), BasicsPlugin(), witness]
    config = {"conversation": {"busy": mode}}
    return Bed(folder, scripts, plugins=plugins, config=config, store=store or MemoryStore())


PLAIN = ["message work", "started 1: work", "system prompt", "ended 1 completed"]
QUEUED = [*PLAIN, "message more", "started 2: more", "system prompt", "ended 2 completed"]
STEERED = [*PLAIN, "message more"]
INTERRUPTED = [
    "message work",
    "started 1: work",
    "system prompt",
    "message more",
    "interrupt 1",
    "interrupted 1",
    "ended 1 interrupted",
    "started 2: more",
    "system prompt",
    "ended 2 completed",
]

# how the second text comes in while the first has its turn: the busy mode, what is typed, what the hooks see
BUSY = {
    "interrupting": ("interrupt", "more", INTERRUPTED),
    "queued": ("queue", "more", QUEUED),
    "steered": ("steer", "more", STEERED),
    "followup": ("followup", "more", QUEUED),
    "/interrupt TEXT": ("queue", "/interrupt more", INTERRUPTED),
    "/queue TEXT": ("interrupt", "/queue more", QUEUED),
    "/steer TEXT": ("interrupt", "/steer more", STEERED),
    "/followup TEXT": ("interrupt", "/followup more", QUEUED),
}


@pytest.mark.parametrize(("mode", "typed", "expected"), BUSY.values(), ids=BUSY)
def test_case_47_every_way_into_a_running_turn_fires_the_same_hooks(
    tmp_path: Path, mode: str, typed: str, expected: list[str]
) -> None:
    """(P3) Case 47: they ran for ordinary messages, not for queued, steered or streamed ones."""

    async def story() -> None:
        witness, hold = Witness(), Hold()
        async with house(tmp_path, witness, ["x", hold], mode=mode) as bed:
            await bed.platform.say("work")
            await hold.reached.wait()
            await bed.platform.say(typed)
            await asyncio.sleep(1)
            hold.release()
            await bed.platform.settled()
            await asyncio.sleep(1)
        assert sorted(witness.seen) == sorted(expected)
        turns = [one for one in witness.seen if one.startswith(("started", "ended"))]
        assert turns == [one for one in expected if one.startswith(("started", "ended"))]

    run(story())


@pytest.mark.parametrize(
    "typed", ["work", *(f"/{name} work" for name in ("interrupt", "queue", "steer", "followup"))]
)
def test_p3_every_way_to_begin_when_idle_fires_the_same_hooks(tmp_path: Path, typed: str) -> None:
    async def story() -> None:
        witness = Witness()
        async with house(tmp_path, witness) as bed:
            await bed.say(typed)
            await asyncio.sleep(1)
        assert sorted(witness.seen) == sorted(PLAIN)
        assert witness.seen[0] == "message work"

    run(story())


@pytest.mark.parametrize(("mode", "typed", "expected"), BUSY.values(), ids=BUSY)
def test_p3_a_plugin_may_answer_in_place_of_a_turn_on_every_path(
    tmp_path: Path, mode: str, typed: str, expected: list[str]
) -> None:
    """(P3, D2) What a plugin answers neither interrupts nor waits, and is not given to the model."""

    async def story() -> None:
        witness, hold = Witness(answers="more"), Hold()
        store = MemoryStore()
        async with house(tmp_path, witness, ["x", hold], mode=mode, store=store) as bed:
            await bed.platform.say("work")
            await hold.reached.wait()
            await bed.platform.say(typed)
            await asyncio.sleep(1)
            assert bed.platform.texts() == ["by a plugin"]
            hold.release()
            await bed.platform.settled()
            assert bed.platform.texts() == ["by a plugin", "x"]
            assert len(bed.model.requests) == 1
            assert await store.waiting(bed.platform.address()) == []

    run(story())


async def say_stop(bed: Bed) -> None:
    await bed.platform.say("/stop")


async def say_interrupt(bed: Bed) -> None:
    await bed.platform.say("/interrupt")


async def say_new(bed: Bed) -> None:
    await bed.platform.say("/new")


async def press_a_key(bed: Bed) -> None:
    assert await bed.platform.gateway.interrupt(bed.platform.address())


@pytest.mark.parametrize(
    "ended", [say_stop, say_interrupt, say_new, press_a_key], ids=lambda one: one.__name__
)
def test_i11_every_way_to_end_a_turn_fires_both_hooks_of_an_interrupt(
    tmp_path: Path, ended: Callable[[Bed], Awaitable[None]]
) -> None:
    """(I11, P3)"""

    async def story() -> None:
        witness, hold = Witness(), Hold()
        async with house(tmp_path, witness, ["x", hold]) as bed:
            await bed.platform.say("work")
            await hold.reached.wait()
            await ended(bed)
            await bed.platform.settled()
            await asyncio.sleep(1)
        assert witness.seen[:3] == ["message work", "started 1: work", "system prompt"]
        assert sorted(witness.seen[3:]) == ["ended 1 interrupted", "interrupt 1", "interrupted 1"]

    run(story())


def test_p3_a_turn_that_fails_fires_the_same_hooks_as_one_that_completes(tmp_path: Path) -> None:
    async def story() -> None:
        witness = Witness()
        async with house(tmp_path, witness, [ModelError("no")]) as bed:
            await bed.say("work")
            await asyncio.sleep(1)
        assert witness.seen == [*PLAIN[:3], "ended 1 failed"]

    run(story())


def test_p3_after_a_restart_the_turn_that_goes_on_and_what_waited_fire_their_hooks(tmp_path: Path) -> None:
    """(P3, D6) What waits is offered again: nobody knows whether it was before."""

    async def story() -> None:
        store, hold = MemoryStore(), Hold()
        async with house(tmp_path, Witness(), ["x", hold], mode="queue", store=store) as bed:
            await bed.platform.say("work")
            await hold.reached.wait()
            await bed.platform.say("more")
            await bed.platform.say("/queue and more")
            await asyncio.sleep(1)
        witness = Witness()
        async with house(tmp_path, witness, mode="queue", store=store) as bed:
            await bed.platform.settled()
            await asyncio.sleep(1)
        going_on = ["started 1: work", "system prompt", "ended 1 completed"]
        waited = ["message more", "message and more"]
        following = ["started 2: more, and more", "system prompt", "ended 2 completed"]
        assert sorted(witness.seen) == sorted([*going_on, *waited, *following])

    run(story())


def test_d1_a_redelivery_fires_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        witness = Witness()
        async with house(tmp_path, witness) as bed:
            message = await bed.platform.say("work")
            await bed.platform.gateway.receive(message)
            await bed.platform.settled()
            await bed.platform.gateway.receive(message)
            await asyncio.sleep(1)
        assert witness.seen == PLAIN

    run(story())
