"""Going back to an earlier reply: native replies and /reply (T3, D4, D6, D9, P3)."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_after.plugin import AfterPlugin
from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core.adapter import Sent
from hermes_core.errors import ModelError
from hermes_core.messages import Outgoing
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold
from hermes_core.testing.platform import FakePlatform
from hermes_core.testing.virtual import run
from hermes_followup.plugin import FollowupPlugin
from hermes_steer.plugin import SteerPlugin

MODES = ["interrupt", "queue", "steer", "followup"]


def bed_of(folder: Path, *scripts: Any, mode: str = "queue", **more: Any) -> Bed:
    plugins = [FollowupPlugin(), AfterPlugin(), BasicsPlugin(), BusyPlugin(), SteerPlugin()]
    return Bed(folder, scripts, plugins=plugins, config={"conversation": {"busy": mode}}, **more)


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


class Parts(FakePlatform):
    """A platform on which one text becomes three messages, as a long one does."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count(1)

    async def send(self, outgoing: Outgoing) -> Sent:
        await super().send(outgoing)
        return Sent(tuple(f"part{next(self._numbers)}" for _ in range(3)))


@pytest.mark.parametrize("native", [True, False], ids=["native", "typed"])
@pytest.mark.parametrize("mode", MODES)
def test_t3_it_is_a_turn_of_its_own_with_the_quote_in_front_and_interrupts_nothing(
    tmp_path: Path, mode: str, native: bool
) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed_of(tmp_path, "one", ["so ", hold, "two"], "three", "four", mode=mode) as bed:
            await bed.say("a")
            await bed.platform.say("b")
            await hold.reached.wait()
            await bed.platform.say("/queue before")
            if native:
                await bed.platform.say("why?", reply_to="p1")
            else:
                await bed.platform.say("/reply 1 why?")
            await bed.platform.say("/queue behind")
            await asyncio.sleep(0.01)
            assert bed.model.cut == 0
            hold.release()
            await bed.platform.settled()
            assert [texts[-1] for texts in map(bed.model.texts, range(5))] == [
                "a",
                "b",
                "before",
                "> one\n\nwhy?",
                "behind",
            ]
            replies = [one.text for one in bed.platform.sent if one.number is not None]
            assert replies[:2] == ["one", "so two"], "the running turn was left alone"

    run(story())


@pytest.mark.parametrize("mode", MODES)
def test_t3_several_in_a_row_are_never_merged(tmp_path: Path, mode: str) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed_of(tmp_path, "one", [hold, "two"], mode=mode) as bed:
            await bed.say("a")
            await bed.platform.say("b")
            await hold.reached.wait()
            for text in ("x", "y"):
                await bed.platform.say(text, reply_to="p1")
            await bed.platform.say("/reply 1 z")
            await asyncio.sleep(0.01)
            hold.release()
            await bed.platform.settled()
            assert bed.model.texts()[-3:] == [f"> one\n\n{text}" for text in "xyz"]
            assert len(bed.model.requests) == 5

    run(story())


def test_t3_idle_it_starts_at_once_also_where_a_quiet_window_is_set(tmp_path: Path) -> None:
    async def story() -> None:
        plugins = [FollowupPlugin()]
        async with Bed(tmp_path, ["one"], plugins=plugins, config={"conversation": {"quiet": 60.0}}) as bed:
            await bed.platform.say("a")
            await asyncio.sleep(61)
            clock = asyncio.get_running_loop()
            began = clock.time()
            await bed.platform.say("why?", reply_to="p1")
            await bed.platform.settled()
            assert clock.time() - began < 1
            assert bed.model.texts() == ["a", "> one\n\nwhy?"]

    run(story())


def test_t3_in_a_quiet_window_it_waits_its_place_behind_what_is_gathered(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed_of(tmp_path, "one", "two", "three") as bed:
            await bed.say("a")
            await bed.platform.say("long begin", partial=True)
            await bed.platform.say("why?", reply_to="p1")
            await bed.platform.say("long end", partial=True)
            await asyncio.sleep(10)
            await bed.platform.settled()
            assert bed.model.texts() == ["a", "long begin", "> one\n\nwhy?", "long end"]

    run(story())


def test_t3_k_counts_replies_only_and_goes_on_over_a_new_history(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        scripts = ["one", [ModelError("It failed.")], ["half", hold], "two", "three", "four", "five"]
        async with bed_of(tmp_path, *scripts, mode="interrupt") as bed:
            await bed.say("a")
            assert (await bed.say("fails")).startswith("It failed.")
            await bed.platform.say("is interrupted")
            await hold.reached.wait()
            await bed.say("b")
            await bed.say("/status")
            await bed.say("/reply 2 to one")
            assert bed.model.texts()[-1] == "> one\n\nto one"
            assert await bed.say("/new") == "This is a new conversation."
            await bed.platform.say("/reply 2 to two")
            await bed.platform.settled()
            assert "To reply 2: “two”." in bed.platform.texts()
            assert bed.model.texts() == ["> two\n\nto two"], "the quote stands though the history is empty"

    run(story())


@pytest.mark.parametrize("reply_to", ["m-of-a-person", "unknown", "", "p99"])
@pytest.mark.parametrize("mode", ["queue", "interrupt"])
def test_t3_a_reply_to_what_is_not_the_agents_is_an_ordinary_message(
    tmp_path: Path, reply_to: str, mode: str
) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed_of(tmp_path, [hold, "one"], mode=mode) as bed:
            await bed.platform.say("a", id="m-of-a-person")
            await hold.reached.wait()
            await bed.platform.say("b")
            await bed.platform.say("c", reply_to=reply_to)
            await asyncio.sleep(0.01)
            hold.release()
            await bed.platform.settled()
            assert bed.model.texts()[-1] == "b\nc", "merged like any other"

    run(story())


def test_t3_a_message_of_another_conversation_is_not_quoted(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed_of(tmp_path, "secret of one") as bed:
            await bed.say("a", channel="1")
            await bed.say("b", channel="2", reply_to="p1")
            assert bed.model.texts() == ["b"]

    run(story())


@pytest.mark.parametrize("part", ["part1", "part2", "part3"])
def test_t3_any_part_of_a_reply_that_became_several_messages_stands_for_the_whole(
    tmp_path: Path, part: str
) -> None:
    async def story() -> None:
        async with bed_of(tmp_path, "the whole\nreply", platform=Parts()) as bed:
            await bed.say("a")
            await bed.say("why?", reply_to=part)
            assert bed.model.texts()[-1] == "> the whole\n> reply\n\nwhy?"

    run(story())


def test_t3_the_answer_to_a_command_and_a_failure_can_be_replied_to_as_well(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed_of(tmp_path, [ModelError("It failed.")]) as bed:
            await bed.say("/after list")
            await bed.say("a")
            await bed.say("what notes?", reply_to="p1")
            await bed.say("why?", reply_to="p2")
            assert bed.model.texts()[-2:] == ["> No notes wait here.\n\nwhat notes?", "> It failed.\n\nwhy?"]

    run(story())


def test_t3_after_a_restart_and_after_new_the_text_is_still_found(tmp_path: Path) -> None:
    async def story() -> None:
        store, platform = MemoryStore(), FakePlatform()
        async with bed_of(tmp_path, "one", store=store, platform=platform) as bed:
            await bed.say("a")
        async with bed_of(tmp_path, "two", "three", store=store, platform=platform) as bed:
            await bed.say("why?", reply_to="p1")
            assert bed.model.texts()[-1] == "> one\n\nwhy?"
            await bed.say("/new")
            await bed.say("and that?", reply_to="p1")
            assert bed.model.texts() == ["> one\n\nand that?"]

    run(story())


async def test_t3_d6_a_reply_that_waits_keeps_quote_and_place_over_a_restart_on_a_real_store(
    tmp_path: Path,
) -> None:
    for number in range(2):
        store = await SQLiteStore.open(tmp_path)
        try:
            hold = Hold()
            scripts = ["one", ["so ", hold]] if number == 0 else ["two", "three", "four"]
            async with bed_of(tmp_path, *scripts, store=store) as bed:
                async with asyncio.timeout(20):
                    if number == 0:
                        await bed.say("a")
                        await bed.platform.say("b")
                        await hold.reached.wait()
                        await bed.platform.say("c")
                        await bed.platform.say("why?", reply_to="p1")
                        await bed.platform.say("/reply 1 and why?")
                        while (
                            len(await store.waiting(bed.platform.address())) < 3 or len(bed.platform.sent) < 2
                        ):
                            await asyncio.sleep(0.001)
                    else:
                        await bed.platform.settled()
                        said = [texts[-1] for texts in map(bed.model.texts, range(len(bed.model.requests)))]
                        assert said == ["b", "c", "> one\n\nwhy?", "> one\n\nand why?"]
        finally:
            await store.close()


def test_d9_a_waiting_reply_is_edited_with_its_quote_kept_and_deleted(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed_of(tmp_path, "one", [hold, "two"]) as bed:
            await bed.say("a")
            await bed.platform.say("b")
            await hold.reached.wait()
            edited = await bed.platform.say("whi?", reply_to="p1")
            deleted = await bed.platform.say("never mind", reply_to="p1")
            await asyncio.sleep(0.01)
            here = bed.platform.address()
            await bed.platform.gateway.edited(here, edited.id, "why?")
            await bed.platform.gateway.deleted(here, deleted.id)
            hold.release()
            await bed.platform.settled()
            assert bed.model.texts() == ["a", "b", "> one\n\nwhy?"]

    run(story())


def test_t3_without_the_plugin_a_native_reply_is_an_ordinary_message(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, ["one"]) as bed:
            await bed.say("a")
            await bed.say("why?", reply_to="p1")
            assert bed.model.texts() == ["a", "why?"]

    run(story())


def test_stop_cancels_a_reply_that_waits(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed_of(tmp_path, "one", [hold, "two"]) as bed:
            await bed.say("a")
            await bed.platform.say("b")
            await hold.reached.wait()
            await bed.platform.say("why?", reply_to="p1")
            await bed.platform.say("/reply 1 and why?")
            await until(lambda: len(bed.platform.sent) == 2)
            assert await bed.say("/stop") == "Stopped. Cancelled 2 waiting messages."
            assert len(bed.model.requests) == 2

    run(story())
