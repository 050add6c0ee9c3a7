"""What becomes of an edit of something that waits, and of commands for others (D9, T5, X4)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes_after.plugin import AfterPlugin
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Hold
from hermes_core.testing.platform import FakePlatform
from hermes_core.testing.virtual import run
from tests.flows.test_interrupt import bed, until


def test_d9_t5_a_waiting_message_that_is_edited_into_a_command_is_that_command(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(tmp_path, [["x", hold]], config={"conversation": {"busy": "queue"}}) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            one = await b.platform.say("busy steer")
            await asyncio.sleep(0)
            for _ in range(2):  # a second delivery of the same edit changes nothing
                await b.platform.gateway.edited(one.address, one.id, "/busy steer")
            await until(lambda: len(b.platform.sent) == 1)
            assert b.platform.texts() == ["From now on a message during work: steer."]
            hold.release()
            await b.platform.settled()
            assert b.model.texts() == ["work"]
            assert len(b.platform.sent) == 2

    run(story())


@pytest.mark.parametrize(
    ("typed", "edited", "texts"),
    [
        ("/queue left", "right", ["work", "right"]),
        ("/queue left", "/steer right", ["work", "right"]),
        ("/steer left", "/stop", ["work"]),
        ("/queue /left", "/queue /right", ["work", "/right"]),
    ],
)
def test_d9_what_a_command_put_in_becomes_what_the_edit_says(
    tmp_path: Path, typed: str, edited: str, texts: list[str]
) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(tmp_path, [["x", hold]], config={"conversation": {"busy": "queue"}}) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            one = await b.platform.say(typed)
            await until(lambda: len(b.platform.sent) == 1)
            await b.platform.gateway.edited(one.address, one.id, edited)
            for _ in range(50):
                await asyncio.sleep(0)
            hold.release()
            await b.platform.settled()
            if edited == "/stop":
                assert b.model.cut == 1
            assert b.model.texts() == texts
            assert await b.store.open_work() == []

    run(story())


def test_d9_an_edit_of_an_edit_and_its_deletion_find_what_waits(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(tmp_path, [["x", hold]], config={"conversation": {"busy": "queue"}}) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            one, two = await b.platform.say("a"), await b.platform.say("b")
            await asyncio.sleep(0)
            for message in (one, two):
                await b.platform.gateway.edited(message.address, message.id, "/queue c")
            await until(lambda: len(b.platform.sent) == 2)
            await b.platform.gateway.edited(one.address, one.id, "/queue d")
            await b.platform.gateway.deleted(two.address, two.id)
            hold.release()
            await b.platform.settled()
            assert b.model.texts() == ["work", "d"]

    run(story())


def test_x4_a_command_for_another_bot_in_a_group_is_none_of_ours(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed(tmp_path, platform=FakePlatform(handle="agent_bot")) as b:
            await b.platform.say("/status@other_bot", group=True)
            await b.platform.say("/status@Agent_Bot", group=True)
            await b.platform.settled()
            assert len(b.platform.sent) == 1
            assert b.model.requests == []
            assert await b.say("/status@agent_bot now") != ""
            assert len(b.platform.sent) == 2

    run(story())


def test_d9_an_edit_of_a_note_replaces_it_and_counts_from_the_edit(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[AfterPlugin()]) as b:
            one = await b.platform.say("/after 2 look at the frist point")
            await b.platform.settled()
            await b.say("a")
            for _ in range(2):  # a second delivery of the same edit changes nothing
                await b.platform.gateway.edited(one.address, one.id, "/after 2 look at the first point")
                await b.platform.settled()
            (note,) = await b.store.notes(one.address)
            assert (note.text, note.at_reply) == ("look at the first point", 3)
            assert b.platform.texts()[-1].startswith("Noted")
            await b.platform.gateway.edited(one.address, one.id, "/after nonsense")
            await b.platform.settled()
            assert await b.store.notes(one.address) == []
            assert "must be a whole number" in b.platform.texts()[-1]

    run(story())


def test_d9_a_note_that_is_edited_into_a_message_is_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[AfterPlugin()]) as b:
            one = await b.platform.say("/after 5 hello")
            await b.platform.settled()
            await b.platform.gateway.edited(one.address, one.id, "hello")
            await b.platform.settled()
            assert b.model.texts() == ["hello"]
            assert await b.store.notes(one.address) == []

    run(story())


def test_d9_once_a_turn_has_taken_it_an_edit_changes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed(tmp_path) as b:
            one = await b.platform.say("hello")
            await b.platform.settled()
            await b.platform.gateway.edited(one.address, one.id, "/stop")
            await b.platform.settled()
            assert b.platform.texts() == ["you said: hello"]

    run(story())
