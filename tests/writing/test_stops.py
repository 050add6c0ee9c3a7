"""A program that is stopped while a text waits to be taken: the next run marks it only if it may be out (D5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from hermes_core.adapter import Features, Sent
from hermes_core.messages import Outgoing, turn_key
from hermes_core.outbox import Outbox
from hermes_core.pacing import Rate
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.virtual import run

from .wall import FREE, HERE, REPEAT, House, Wall

TEXT = "Here it is."
REPLY = Outgoing(turn_key(HERE, 1), HERE, TEXT, turn="1")


class Adapter:
    """The room as the outbox sees it; nothing can be looked up."""

    platform = "wall"
    features = Features(drafts=True)

    def __init__(self, house: House) -> None:
        self._house = house

    async def send(self, outgoing: Outgoing) -> Sent:
        return await self._house.writing.send(outgoing)


class Program:
    """One run: the real outbox before the room."""

    def __init__(self, store: MemoryStore, house: House) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        adapter: Any = Adapter(house)
        self.outbox = Outbox(store, {"wall": adapter}, self._spawn)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> object:
        self.tasks.append(asyncio.create_task(work, name=name))
        return self.tasks[-1]

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        done, left = await asyncio.wait(self.tasks, timeout=1.0)
        assert not left
        assert all(one.cancelled() or one.exception() is None for one in done), done


Before = Callable[[House], Coroutine[Any, Any, None]]


async def nothing(house: House) -> None:
    """The reply is all that there is."""


async def draft(house: House) -> None:
    """Something of it was to be shown already."""
    house.says(1, 0, "Here it")
    await asyncio.sleep(1.0)


async def full(house: House) -> None:
    """What may be written there in a minute has been written."""
    await house.send(Outgoing("other", HERE, "Other."))


async def between(house: House) -> None:
    """The text before it waits for the platform."""
    house.says(1, 0, "Let me see.")
    await asyncio.sleep(0.5)
    house.does("tool")
    house.says(1, 1, "Here it")


MINUTE = (Rate(1.0, 60.0),)


@pytest.mark.parametrize("before", [nothing, draft])
def test_d5_a_kill_during_the_pause_of_a_429_leaves_no_doubt(tmp_path: Path, before: Before) -> None:
    async def main() -> None:
        store, wall = MemoryStore(), Wall(["parked"], asked=False)
        house = House(wall, tmp_path / "drafts")
        program = Program(store, house)
        async with house.connected():
            await before(house)
            await store.post(REPLY)
            program.outbox.put(REPLY)
            await asyncio.sleep(1.2)
            assert [one.uncertain for one in await store.open_work()] == [frozenset()]
            await asyncio.sleep(10.0)
            assert wall.texts() == [TEXT]
            assert await store.open_work() == []

    run(main())


@pytest.mark.parametrize(
    ("before", "faults", "rates", "connected", "marked"),
    [
        pytest.param(nothing, ["parked"], FREE, True, False, id="429"),
        pytest.param(nothing, ["refused"] * 9, FREE, True, False, id="refused again and again"),
        pytest.param(draft, ["parked"], FREE, True, False, id="429 for its draft"),
        pytest.param(draft, ["refused"] * 9, FREE, True, False, id="its draft refused again and again"),
        pytest.param(full, [], MINUTE, True, False, id="it waits for its pace"),
        pytest.param(between, ["parked", "parked"], FREE, True, False, id="it waits for the text before"),
        pytest.param(nothing, [], FREE, False, False, id="there is no connection"),
        pytest.param(nothing, ["after"] + ["refused"] * 9, FREE, True, True, id="cut, then refused"),
        pytest.param(nothing, ["die before"], FREE, True, True, id="the call was under way"),
    ],
)
def test_d5_only_what_may_be_out_is_marked_after_a_stop(
    tmp_path: Path, before: Before, faults: list[str], rates: tuple[Rate, ...], connected: bool, marked: bool
) -> None:
    async def main() -> None:
        store, wall, file = MemoryStore(), Wall(faults, asked=False), tmp_path / "drafts"
        house = House(wall, file, rates=rates)
        first = Program(store, house)
        async with house.connected():
            await before(house)
            if connected:
                await store.post(REPLY)
                first.outbox.put(REPLY)
                await asyncio.sleep(1.2)
        if not connected:
            await store.post(REPLY)
            first.outbox.put(REPLY)
            await asyncio.sleep(1.2)
        await first.stop()
        assert all(task.cancelled() for task in first.tasks), "it was not through"
        (work,) = await store.open_work()
        assert work.uncertain == ({REPLY.key} if marked else set())
        after = Wall([], asked=False)
        house = House(after, file)
        second = Program(store, house)
        async with house.connected():
            second.outbox.put(REPLY, uncertain=bool(work.uncertain))
            await asyncio.sleep(30.0)
        await second.stop()
        assert [one for one in after.texts() if TEXT in one] == [REPEAT + TEXT if marked else TEXT]
        assert TEXT in after.texts()[-1], "what was said before stands before it"

    run(main())
