"""What was written while the program was away, and is old when it comes in, is counted and reported (D8)."""

from __future__ import annotations

import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.virtual import run

HOUR = 3600.0
REPORT = (
    "{} messages came here more than 1 h ago, while I was away, and were not answered. "
    "Write again what still matters."
)


async def reported(bed: Bed, count: int = 1, channel: str = "1") -> list[str]:
    """What the agent said there, once it said so much."""
    pause = bed.runtime.services.pause
    for _ in range(100):
        if len(bed.platform.texts(channel)) >= count:
            break
        await pause(0.1)
    return bed.platform.texts(channel)


def test_d8_old_messages_are_reported_once_and_new_ones_are_answered(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[BusyPlugin(), BasicsPlugin()]) as bed:
            now = time.time()
            for n in range(3):
                await bed.platform.say(f"old {n}", sent=now - 2 * HOUR + n)
            await bed.platform.say("/stop", sent=now - 1.5 * HOUR)
            await bed.platform.say("new enough", sent=now - HOUR / 2)
            assert await reported(bed, 2) == [
                "you said: new enough",
                REPORT.format(4),
            ]
            assert len(bed.model.requests) == 1
            assert await bed.store.waiting(bed.platform.address()) == []

    run(story())


def test_d8_a_repeated_delivery_of_an_old_message_is_not_reported_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path) as bed:
            old = bed.platform.message("old", sent=time.time() - 2 * HOUR)
            await bed.platform.gateway.receive(old)
            first = await reported(bed)
            assert first[0].startswith("A message came here more than 1 h ago")
            await bed.platform.gateway.receive(old)
            await bed.say("and now?")
            assert len(bed.platform.texts()) == 2

    run(story())


def test_d8_each_conversation_has_its_own_report_and_each_platform_its_own_limit(tmp_path: Path) -> None:
    async def story() -> None:
        config: dict[str, Any] = {"conversation": {"catch_up": "10m"}}
        async with Bed(tmp_path, config=config) as bed:
            now = time.time()
            await bed.platform.say("one", "1", sent=now - 700)
            await bed.platform.say("two", "2", sent=now - 700)
            await bed.platform.say("three", "2", sent=now - 700)
            assert "more than 10 min ago" in (await reported(bed, 1, "1"))[0]
            assert (await reported(bed, 1, "2"))[0].startswith("2 messages")

    run(story())


def test_d8_d6_after_a_crash_before_the_report_they_are_reported_by_the_next_run(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        async with Bed(tmp_path, store=store) as bed:
            await bed.platform.say("old", sent=time.time() - 2 * HOUR)
            waiting = await store.waiting(bed.platform.address())
            assert [one.late for one in waiting] == [True]
        async with Bed(tmp_path, store=store) as bed:
            assert (await reported(bed))[0].startswith("A message came here")
            assert bed.model.requests == []
            assert await store.waiting(bed.platform.address()) == []

    run(story())


def test_a_message_without_a_time_stamp_or_from_the_future_is_answered(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path) as bed:
            assert await bed.say("no stamp") == "you said: no stamp"
            assert await bed.say("a fast clock", sent=time.time() + HOUR) == "you said: a fast clock"

    run(story())


def test_d8_a_clock_that_is_ahead_makes_nothing_late_that_is_written_now(tmp_path: Path) -> None:
    """What came while the program was away is late all the same, by the platform's clock."""

    async def story() -> None:
        async with Bed(tmp_path) as bed:
            bed.runtime.services.wall = lambda: time.time() + 1.5 * HOUR
            bed.platform.gateway.dated(formatdate(time.time(), usegmt=True))
            assert await bed.say("now", sent=time.time()) == "you said: now"
            assert await bed.say("some time ago", sent=time.time() - HOUR / 2) == "you said: some time ago"
            await bed.platform.say("long ago", sent=time.time() - 2 * HOUR)
            assert (await reported(bed, 3))[2].startswith("A message came here more than 1 h ago")

    run(story())


def test_d8_a_clock_that_goes_wrong_or_is_set_right_is_noticed_with_the_next_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path) as bed:
            for ahead in (0, 2 * HOUR, 0, -2 * HOUR):
                bed.runtime.services.wall = lambda: time.time() + ahead  # noqa: B023 - used within the round
                bed.platform.gateway.dated(formatdate(time.time() + ahead / 1000, usegmt=True))
                assert await bed.say(f"at {ahead}", sent=time.time()) == f"you said: at {ahead}"
            await bed.platform.say("long ago", sent=time.time() - 3.5 * HOUR)
            assert (await reported(bed, 5))[4].startswith("A message came here more than 1 h ago")

    run(story())


def test_x4_whoever_writes_too_fast_is_held_back_whatever_this_clock_says(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, config={"access": {"per_minute": 3}}) as bed:
            bed.runtime.services.wall = lambda: time.time() + 0.5 * HOUR
            bed.platform.gateway.dated(formatdate(time.time(), usegmt=True))
            for n in range(5):
                await bed.say(f"fast {n}", author="ben", sent=time.time())
            assert len(bed.model.requests) == 3

    run(story())
