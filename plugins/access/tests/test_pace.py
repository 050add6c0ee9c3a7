"""Who writes too fast, and bots that answer each other (X4, D2)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from hermes_busy.plugin import BusyPlugin
from hermes_core.messages import Author
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Hold
from hermes_core.testing.virtual import run


def slow(most: int, **more: Any) -> dict[str, Any]:
    return {"access": {"per_minute": most, "allow": ["*", "fake:bot"]}, **more}


def test_d2_who_writes_too_fast_is_told_once_and_nothing_is_lost_unseen(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, config=slow(10)) as bed:
            for number in range(10):
                assert await bed.say(f"{number}", author="eve") == f"you said: {number}"
            said = await bed.say("10", author="eve")
            assert said == (
                "You wrote more than 10 messages in a minute. This one is not taken, nor is what you write in the "
                "next 30 seconds; please write it again then."
            )
            for number in range(11, 15):
                assert await bed.say(f"{number}", author="eve") == said
            assert len(bed.platform.sent) == 11
            assert await bed.store.waiting(bed.platform.address()) == [], "each has come to its end"
            await asyncio.sleep(31)
            assert await bed.say("again", author="eve") == "you said: again"
            assert await bed.say("other", author="bob") == "you said: other"

    run(story())


def test_who_wrote_too_much_can_still_stop_and_owners_write_as_they_like(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        config = slow(3, conversation={"busy": "queue"})
        async with Bed(tmp_path, [[hold]], plugins=[BusyPlugin()], config=config) as bed:
            for number in range(5):
                await bed.platform.say(f"{number}", author="eve")
            await hold.reached.wait()
            assert (await bed.say("/stop", author="eve")).startswith("Stopped")
            for number in range(20):
                assert await bed.say(f"{number}", "2") == f"you said: {number}"

    run(story())


def test_commands_have_a_bound_of_their_own(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[BusyPlugin()], config=slow(3)) as bed:
            for _ in range(3):
                assert (await bed.say("/busy", author="eve")).startswith("A message during work")
            assert (await bed.say("/busy", author="eve")).startswith(
                "You wrote more than 3 commands in a minute."
            )
            assert await bed.say("hello", author="eve") == "you said: hello"

    run(story())


def test_the_same_message_again_counts_once_and_a_platform_can_have_its_own_bound(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, config=slow(2, adapters={"fake": {"per_minute": 3}})) as bed:
            for _ in range(20):
                await bed.say("hello", author="eve", id="m1")
            assert await bed.say("2", author="eve") == "you said: 2"
            assert await bed.say("3", author="eve") == "you said: 3"
            assert (await bed.say("4", author="eve")).startswith("You wrote more than 3 messages")

    run(story())


def test_x4_two_bots_that_answer_each_other_come_to_an_end(tmp_path: Path) -> None:
    """The other bot answers everything that is said; a person who writes begins it anew."""

    async def story() -> None:
        async with Bed(tmp_path, config=slow(0)) as bed:

            async def bot_answers_until_silence() -> int:
                answered = 0
                seen = len(bed.platform.sent) - 1
                while len(bed.platform.sent) > seen and answered < 50:
                    seen, answered = len(bed.platform.sent), answered + 1
                    message = bed.platform.message(f"beep {answered}", author="bot")
                    bot = msgspec.structs.replace(message, author=Author("bot", "Bot", True))
                    await bed.platform.gateway.receive(bot)
                    await bed.platform.settled()
                return answered

            await bed.say("hello", author="eve")
            assert await bot_answers_until_silence() == 7, "five answers, one line that it ends, one silence"
            assert bed.platform.texts()[-1].startswith("I have answered 5 messages of bots in a row.")
            assert await bed.store.waiting(bed.platform.address()) == []
            await bed.say("hello", author="eve")
            assert await bot_answers_until_silence() == 7

    run(story())
