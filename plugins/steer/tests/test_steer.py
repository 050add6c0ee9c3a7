"""/steer: what it does at every point of a turn, what it says and refuses (T2, S1 to S4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from hermes_core import history
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Said, SaidKind, Step, ToolCall
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold, Script
from hermes_core.testing.virtual import run
from hermes_core.tools import Tool, tool
from hermes_steer.plugin import SteerPlugin

GOES_IN = "This goes into the running work at its next step."


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


class Digging:
    """A tool that digs until it may stop."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.may_end = asyncio.Event()

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        @tool
        async def dig(depth: int) -> str:
            """Dig."""
            self.begun.append(depth)
            await self.may_end.wait()
            return f"dug {depth}"

        return [dig]


def dig(*depths: int) -> list[ToolCall]:
    return [ToolCall(f"c{depth}", "dig", f'{{"depth": {depth}}}') for depth in depths]


def steers(bed: Bed, call: int = -1) -> list[str]:
    """The hints that one model call read."""
    return [
        one.text
        for one in bed.model.requests[call].items
        if isinstance(one, Said) and one.kind is SaidKind.STEER
    ]


def test_t2_when_idle_it_is_a_plain_message(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[SteerPlugin()]) as bed:
            assert await bed.say("/steer look left") == "you said: look left"
            assert bed.platform.texts() == ["you said: look left"], "no answer besides"
            assert steers(bed) == []

    run(story())


@pytest.mark.parametrize("text", ["/steer", "/steer   ", "/steer\n"])
def test_without_a_text_it_says_what_to_type(tmp_path: Path, text: str) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[SteerPlugin()]) as bed:
            assert await bed.say(text) == "/steer: TEXT is missing. Type /steer TEXT"
            assert bed.model.requests == []

    run(story())


def test_s1_hints_enter_after_the_results_of_the_running_tools_in_their_order(tmp_path: Path) -> None:
    async def story() -> None:
        digging = Digging()
        async with Bed(tmp_path, [dig(1), "done"], plugins=[SteerPlugin(), digging]) as bed:
            await bed.platform.say("work")
            await until(lambda: digging.begun)
            await bed.platform.say("/steer left")
            await bed.platform.say("/steer then right")
            await until(lambda: len(bed.platform.sent) == 2)
            assert bed.platform.texts() == [GOES_IN, GOES_IN]
            digging.may_end.set()
            await bed.platform.settled()
            assert bed.platform.texts()[2:] == ["done"], "one reply for the whole turn"
            items = bed.model.requests[-1].items
            history.check(items)
            assert isinstance(items[1], Step)
            assert items[1].results[0].text == "dug 1"
            assert steers(bed) == ["left", "then right"]
            assert bed.model.cut == 0

    run(story())


def test_s2_a_final_text_is_not_the_end_while_a_hint_waits(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with Bed(tmp_path, [["first", hold], "second"], plugins=[SteerPlugin()]) as bed:
            await bed.platform.say("work")
            await hold.reached.wait()
            await bed.platform.say("/steer shorter")
            await until(lambda: bed.platform.sent)
            hold.release()
            await bed.platform.settled()
            assert bed.platform.texts() == [GOES_IN, "second"]
            assert bed.platform.sent[-1].number == 1
            assert steers(bed) == ["shorter"]

    run(story())


def test_s3_the_hints_of_a_turn_that_was_stopped_are_the_next_prompt_and_are_used_once(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        digging, store = Digging(), MemoryStore()
        async with Bed(tmp_path, [dig(1), "done"], plugins=[SteerPlugin(), digging], store=store) as bed:
            await bed.platform.say("work")
            await until(lambda: digging.begun)
            await bed.platform.say("/steer left")
            await until(lambda: bed.platform.sent)
            await bed.say("stop that")
            assert bed.model.texts() == ["work", "stop that\nleft"]
        async with Bed(tmp_path, plugins=[SteerPlugin()], store=store) as bed:
            await bed.say("and now?")
            assert bed.model.texts() == ["work", "stop that\nleft", "and now?"]

    run(story())


@pytest.mark.parametrize(("skip", "begun"), [(False, 10), (True, 8)])
def test_s4_calls_that_have_not_started_go_on_or_are_skipped_as_configured(
    tmp_path: Path, skip: bool, begun: int
) -> None:
    async def story() -> None:
        digging = Digging()
        config = {"steer": {"skip_pending": skip}}
        script: list[Script] = [dig(*range(10)), "done"]
        async with Bed(tmp_path, script, plugins=[SteerPlugin(), digging], config=config) as bed:
            await bed.platform.say("work")
            await until(lambda: len(digging.begun) == 8)
            await bed.platform.say("/steer not so deep")
            await until(lambda: bed.platform.sent)
            digging.may_end.set()
            await bed.platform.settled()
            assert len(digging.begun) == begun
            items = bed.model.requests[-1].items
            history.check(items)
            assert isinstance(items[1], Step)
            assert sum("Skipped" in result.text for result in items[1].results) == 10 - begun

    run(story())


def test_t2_somebody_else_cannot_steer_and_is_told_so(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with Bed(tmp_path, [["so ", hold, "done"]], plugins=[SteerPlugin()]) as bed:
            await bed.platform.say("work", author="bob", group=True)
            await hold.reached.wait()
            await bed.platform.say("/steer to me", author="eve", group=True)
            await until(lambda: bed.platform.sent)
            assert bed.platform.texts() == [
                "Queued at position 1: only the person whose work runs can steer it."
            ]
            hold.release()
            await bed.platform.settled()
            assert bed.model.texts()[-1] == "to me"
            assert steers(bed) == []

    run(story())
