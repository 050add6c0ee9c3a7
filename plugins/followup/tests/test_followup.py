"""/reply: what it takes, refuses and answers (T3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Hold
from hermes_core.testing.virtual import run
from hermes_followup.plugin import FollowupPlugin

BACK = (
    "/reply counts back: K is 1 for the latest reply, 2 for the one before. "
    "To leave a note for later, type /after N TEXT"
)
ONLY_TWO = "There are only 2 replies to go back to. Type /reply K TEXT, where K is 1 for the latest."


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("/reply", "/reply: K is missing. Type /reply K TEXT"),
        ("/reply 1", "/reply: TEXT is missing. Type /reply K TEXT"),
        ("/reply 1  \n", "/reply: TEXT is missing. Type /reply K TEXT"),
        ("/reply why so", "/reply: K must be a whole number, not 'why'. Type /reply K TEXT"),
        ("/reply 1.5 why", "/reply: K must be a whole number, not '1.5'. Type /reply K TEXT"),
        ("/reply 0 why", BACK),
        ("/reply -2 why", BACK),
        ("/reply 3 why", ONLY_TWO),
        ("/reply " + "9" * 30 + " why", ONLY_TWO),
        ("/REPLY@agent ３ why", ONLY_TWO),
    ],
)
def test_t3_what_is_refused_says_what_to_type_and_starts_nothing(
    tmp_path: Path, typed: str, answer: str
) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[FollowupPlugin()]) as bed:
            await bed.say("one")
            await bed.say("two")
            assert await bed.say(typed) == answer
            assert len(bed.model.requests) == 2
            assert await bed.store.waiting(bed.platform.address()) == []

    run(story())


@pytest.mark.parametrize(
    ("replies", "answer"),
    [
        (0, "There is no reply yet to go back to. Just write."),
        (1, "There is only 1 reply to go back to. Type /reply K TEXT, where K is 1 for the latest."),
    ],
)
def test_t3_where_there_are_not_so_many_replies_it_says_how_many_there_are(
    tmp_path: Path, replies: int, answer: str
) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[FollowupPlugin()]) as bed:
            for _ in range(replies):
                await bed.say("hello")
            assert await bed.say("/reply 2 why") == answer

    run(story())


def test_t3_the_answer_names_the_reply_and_its_first_words_and_the_turn_follows(tmp_path: Path) -> None:
    async def story() -> None:
        long = "It is so\nbecause " + "of this " * 30
        async with Bed(tmp_path, [long, "two", "three"], plugins=[FollowupPlugin()]) as bed:
            await bed.say("a")
            await bed.say("b")
            await bed.say("/reply ２ why\nthat?")
            assert bed.platform.texts()[2:] == [
                "To reply 1: “It is so because of this of this of this of this of this of…”.",
                "three",
            ]
            quote = "".join(f"> {line}\n" for line in long.splitlines())
            assert bed.model.texts()[-1] == f"{quote}\nwhy\nthat?"

    run(story())


def test_t3_where_it_has_to_wait_the_answer_says_at_which_position(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        config = {"conversation": {"busy": "queue"}}
        async with Bed(tmp_path, ["one", [hold, "two"]], plugins=[FollowupPlugin()], config=config) as bed:
            await bed.say("a")
            await bed.platform.say("b")
            await hold.reached.wait()
            await bed.platform.say("c")
            await bed.platform.say("/reply 1 why")
            await until(lambda: len(bed.platform.sent) == 2)
            assert bed.platform.texts()[-1] == "To reply 1: “one”. It waits at position 2."
            assert bed.model.cut == 0
            hold.release()
            await bed.platform.settled()
            assert bed.model.texts()[-1] == "> one\n\nwhy"

    run(story())


def test_t3_in_a_group_the_name_stands_in_front_of_the_text(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, ["one"], plugins=[FollowupPlugin()]) as bed:
            await bed.say("a", author="bob", group=True)
            await bed.say("/reply 1 why", author="eve", group=True)
            assert bed.model.requests[-1].items[-1].author == "Eve"  # type: ignore[union-attr]
            assert bed.model.texts()[-1] == "> one\n\nwhy"

    run(story())
