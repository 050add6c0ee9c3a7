"""A question in the course of a turn: the words that announce it stand above it, whole; and what answers natively."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes_core.messages import Choice, Outgoing, turn_key
from hermes_core.testing.virtual import run

from .wall import HERE, House, Wall, loop_time

QUESTION = Outgoing("q1", HERE, "May I?", choices=(Choice("Yes", "/yes"),), within="1")


@pytest.mark.parametrize("early", [True, False], ids=["the sign first", "the words come with the question"])
@pytest.mark.parametrize("wait", [0.0, 0.05, 2.0])
def test_the_words_before_a_question_stand_above_it_whole_and_are_not_completed_by_the_reply(
    early: bool, wait: float
) -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            if not early:
                house.does("asking")
            house.says(1, 0, "One *mo*ment, it is much to read.")
            await asyncio.sleep(wait)
            if early:
                house.does("asking")
            began = loop_time()
            await house.send(QUESTION)
            assert wall.texts() == ["One moment, it is much to read.", "May I?"]
            assert loop_time() - began < 2.0
            house.does("tool")
            house.says(1, 1, "One")
            await house.reply(1, "One moment, it is much to read. Done.")
            assert wall.texts() == [
                "One moment, it is much to read.",
                "May I?",
                "One moment, it is much to read. Done.",
            ]
            places = [(one.place.key, one.place.part, one.place.index) for one in wall.messages.values()]
            assert len(set(places)) == len(places)

    run(main())


@pytest.mark.parametrize("words", ["\n", " "])
def test_a_question_does_not_wait_for_words_of_which_nothing_can_be_seen(words: str) -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            house.says(1, 0, words)
            house.does("asking")
            await house.send(QUESTION)
            assert loop_time() < 1.0
            assert wall.texts() == ["May I?"]

    run(main())


def test_a_question_waits_ten_seconds_at_most_for_words_that_are_not_taken() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        wall.slow = 60.0
        async with house.connected():
            house.says(1, 0, "One moment.")
            house.does("asking")
            await asyncio.sleep(0.5)
            wall.slow = 0.0
            began = loop_time()
            await house.send(QUESTION)
            assert wall.texts() == ["May I?"]
            assert 9.0 < loop_time() - began < 11.0

    run(main())


def test_a_question_waits_for_words_that_were_told_to_wait() -> None:
    async def main() -> None:
        house = House(wall := Wall(["parked"]))
        async with house.connected():
            house.says(1, 0, "One moment.")
            await asyncio.sleep(0.5)
            house.does("asking")
            await house.send(QUESTION)
            assert wall.texts() == ["One moment.", "May I?"]

    run(main())


def test_a_question_of_a_turn_that_goes_on_stands_below_what_an_earlier_run_did_not_show(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        house = House(Wall(["parked"]), tmp_path / "drafts")
        async with house.connected():
            house.says(1, 0, "One moment.")
            await asyncio.sleep(0.5)
            house.does("asking")
        house = House(wall := Wall(), tmp_path / "drafts")
        async with house.connected():
            await house.send(QUESTION)
            assert wall.texts() == ["One moment.", "May I?"]

    run(main())


def test_the_answer_to_a_command_does_not_wait_for_the_words_before_a_question() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        wall.slow = 5.0
        async with house.connected():
            house.says(1, 0, "One moment.")
            house.does("asking")
            await asyncio.sleep(0.5)
            wall.slow = 0.0
            await house.send(Outgoing("c1", HERE, "at work"))
            assert wall.texts() == ["at work"]

    run(main())


@pytest.mark.parametrize("asks", [True, False])
def test_only_the_first_text_of_a_turn_answers_natively_also_where_its_reply_was_never_drafted(
    asks: bool,
) -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            house.writing.heard(HERE, "m0")
            house.does("thinking")
            house.says(1, 0, "Let me see.")
            if asks:
                house.does("asking")
                await house.send(QUESTION)
            house.does("tool")
            await house.reply(1, "Found it.", answers="m0")
            assert wall.answers() == (["m0", None, None] if asks else ["m0", None])

    run(main())


def test_a_reply_answers_natively_where_nothing_before_it_did() -> None:
    async def main() -> None:
        house = House(wall := Wall(["refused"]))
        async with house.connected():
            house.does("thinking", queued=1)
            house.says(1, 0, "Let me see.")
            house.does("tool")
            await house.reply(1, "Found it.", answers="m0")
            assert wall.answers() == [None, "m0"]
            await house.reply(2, "Alone.", answers="m1")
            assert wall.answers() == [None, "m0", "m1"]

    run(main())


@pytest.mark.parametrize("shown", [True, False])
def test_a_reply_in_the_next_run_stands_behind_the_text_before_it_and_answers_if_that_was_not_seen(
    tmp_path: Path, shown: bool
) -> None:
    async def main() -> None:
        wall = Wall([] if shown else ["parked"])
        house = House(wall, tmp_path / "drafts")
        async with house.connected():
            house.writing.heard(HERE, "m0")
            house.does("thinking")
            house.says(1, 0, "Let me see.")
            await asyncio.sleep(0.5)
            house.does("tool")
        house = House(wall, tmp_path / "drafts")
        async with house.connected():
            await house.reply(1, "Found it.", answers="m0")
            assert wall.texts() == ["Let me see.", "Found it."]
            assert wall.answers() == (["m0", None] if shown else [None, "m0"])
            keys = [one.place.key for one in wall.messages.values()]
            assert keys == [turn_key(HERE, 1)] * len(keys)

    run(main())
