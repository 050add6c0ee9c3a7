"""What comes in: its order, how far it was read, and what is read up (D8)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from hermes_core.errors import SendError
from hermes_core.messages import Address
from hermes_core.reading import Order, Reading
from hermes_core.testing.virtual import run


def there(channel: str, thread: str | None = None) -> Address:
    return Address("wall", "me", channel, thread)


def test_first_come_first_in_at_each_place_and_places_hold_up_no_other() -> None:
    order = Order()
    done: list[str] = []

    async def one(place: str, name: str, seconds: float) -> None:
        async with order.at(place):
            await asyncio.sleep(seconds)
            done.append(name)

    async def main() -> None:
        await asyncio.gather(
            one("a", "a1", 3.0), one("a", "a2", 0.0), one("b", "b1", 1.0), one("a", "a3", 0.0)
        )
        assert done == ["b1", "a1", "a2", "a3"]
        assert len(order) == 0

    run(main())


def test_who_is_cancelled_in_line_holds_up_nobody_and_is_forgotten() -> None:
    order = Order()

    async def one(seconds: float) -> None:
        async with order.at("a"):
            await asyncio.sleep(seconds)

    async def main() -> None:
        first, second, third = (asyncio.create_task(one(1.0)) for _ in range(3))
        await asyncio.sleep(0.5)
        second.cancel()
        await asyncio.wait({first, second, third})
        assert second.cancelled()
        assert asyncio.get_running_loop().time() == pytest.approx(2.0)
        assert len(order) == 0

    run(main())


def test_d8_another_run_reads_each_conversation_on_from_where_it_ends(tmp_path: Path) -> None:
    async def main() -> None:
        reading = Reading(tmp_path / "seen", int)
        keeping = asyncio.create_task(reading.keep())
        for address, seen in (
            (there("a"), "9"),
            (there("a", "t"), "11"),
            (there("a"), "10"),
            (there("a"), "8"),
        ):
            reading.note(address, seen)
        await asyncio.sleep(10.0)
        keeping.cancel()
        read: list[tuple[Address, str]] = []

        async def on(address: Address, last: str) -> None:
            read.append((address, last))

        await Reading(tmp_path / "seen", int).read_up(on)
        assert read == [(there("a", "t"), "11"), (there("a"), "10")]

    run(main())


def test_d8_what_comes_live_stands_behind_what_is_read_up_in_every_conversation(tmp_path: Path) -> None:
    async def main() -> None:
        reading = Reading(None)
        channels = [str(number) for number in range(20)]
        taken: list[str] = []
        at_once = most = 0
        for channel in channels:
            reading.note(there(channel), "1")

        async def on(address: Address, last: str) -> None:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(1.0)
            at_once -= 1
            taken.append(f"missed in {address.channel}")

        async def live(channel: str) -> None:
            async with reading.order.at(channel):
                taken.append(f"live in {channel}")

        reads = [asyncio.create_task(reading.read_up(on)) for _ in range(2)]
        await asyncio.sleep(0.0)
        await asyncio.sleep(0.0)
        await asyncio.gather(*reads, *(live(channel) for channel in channels))
        for channel in channels:
            assert taken.index(f"missed in {channel}") < taken.index(f"live in {channel}")
        assert len(taken) == 2 * len(channels), "read up once, though it was asked for twice"
        assert most == 4

    run(main())


def test_a_conversation_whose_history_is_refused_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        reading = Reading(None)
        read: list[str] = []
        for channel in "abc":
            reading.note(there(channel), "1")

        async def on(address: Address, last: str) -> None:
            if address.channel == "b":
                raise SendError("The channel is not there.")
            read.append(address.channel)

        await reading.read_up(on)
        await reading.read_up(on)
        assert read == ["a", "c", "a", "c"]
        assert "the history of wall:me:b is not read up now: The channel is not there." in caplog.text

    run(main())


def test_the_conversations_in_which_nothing_happened_for_longest_are_forgotten(tmp_path: Path) -> None:
    async def main() -> None:
        reading = Reading(tmp_path / "seen", int)
        for number in range(600):
            reading.note(there(f"c{number}"), "1")
            reading.note(there("always"), str(number))
        read: list[str] = []

        async def on(address: Address, last: str) -> None:
            read.append(address.channel)

        await reading.read_up(on)
        assert len(read) == 100
        assert {"always", "c599", "c502"} <= set(read)
        reading.write()
        assert len(json.loads((tmp_path / "seen").read_bytes())) == 500

    run(main())
