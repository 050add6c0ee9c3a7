"""The four busy modes as the how-to draws them, and what an interrupt keeps (T2, T3, S1, I1, I4 to I9, I11)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core import history
from hermes_core.hookspecs import Interruption, hookimpl
from hermes_core.messages import Address, Said, Step, ToolCall
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold
from hermes_core.testing.virtual import run
from hermes_core.tools import Tool, tool

LOOK, BUILD = ToolCall("1", "look", "{}"), ToolCall("2", "build", "{}")


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


class ToolsPlugin:
    """`look` is done at once, `build` takes an hour; and it writes down what it sees of interrupts."""

    def __init__(self) -> None:
        self.building = asyncio.Event()
        self.may_end = asyncio.Event()
        self.ended = 0
        self.seen: list[object] = []

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        @tool
        async def look() -> str:
            """Look."""
            return "a wall"

        @tool(deadline="2h")
        async def build() -> str:
            """Build."""
            self.building.set()
            try:
                await self.may_end.wait()
            finally:
                self.ended += 1
            return "built"

        return [look, build]

    @hookimpl
    def hermes_interrupt(self, address: Address, turn: int) -> None:
        self.seen.append(turn)

    @hookimpl
    def hermes_interrupted(self, interruption: Interruption) -> None:
        self.seen.append(interruption)


def spoken(bed: Bed, call: int = -1) -> list[str]:
    """What one model call read: texts of people as they stand, steps as the results of their tools."""
    read: list[str] = []
    for item in bed.model.requests[call].items:
        if isinstance(item, Said):
            read.append(history.render(item))
        elif isinstance(item, Step):
            read.append(item.text or " ".join(result.text for result in item.results))
    return read


async def three_during_a_tool(folder: Path, mode: str) -> Bed:
    """ann asks for something; while its tool runs she writes "b" and "c"; then the tool may end."""
    tools = ToolsPlugin()
    plugins = [BusyPlugin(), tools]
    async with Bed(folder, [[BUILD], "A"], plugins=plugins, config={"conversation": {"busy": mode}}) as bed:
        await bed.platform.say("a")
        await tools.building.wait()
        await bed.platform.say("b")
        await bed.platform.say("c")
        await asyncio.sleep(0.01)
        tools.may_end.set()
        await bed.platform.settled()
        for request in bed.model.requests:
            history.check(request.items)
        return bed


def test_queue_waits_and_goes_together(tmp_path: Path) -> None:
    async def story() -> None:
        bed = await three_during_a_tool(tmp_path, "queue")
        assert bed.platform.texts() == ["A", "you said: b\nc"]
        assert spoken(bed) == ["a", "built", "A", "b\nc"]

    run(story())


def test_followup_waits_and_has_a_turn_each(tmp_path: Path) -> None:
    async def story() -> None:
        bed = await three_during_a_tool(tmp_path, "followup")
        assert bed.platform.texts() == ["A", "you said: b", "you said: c"]

    run(story())


def test_steer_enters_the_running_turn_after_its_tool(tmp_path: Path) -> None:
    async def story() -> None:
        bed = await three_during_a_tool(tmp_path, "steer")
        assert bed.platform.texts() == ["A"]
        mark = "[The user adds, while you work:]\n"
        assert spoken(bed) == ["a", "built", f"{mark}b", f"{mark}c"]

    run(story())


def test_interrupt_stops_the_turn_and_begins_anew(tmp_path: Path) -> None:
    async def story() -> None:
        bed = await three_during_a_tool(tmp_path, "interrupt")
        assert bed.platform.texts()[-1] == "A"
        assert spoken(bed) == ["a", "b\nc"], "one turn for both: c came while the first was stopping"
        assert len(bed.model.requests) == 2

    run(story())


# ---- what an interrupt keeps


@pytest.mark.parametrize(("keep", "kept"), [("finished", ["a", "a wall", "b"]), ("nothing", ["b"])])
def test_i6_of_two_tool_calls_the_finished_one_stays_with_its_result(
    tmp_path: Path, keep: str, kept: list[str]
) -> None:
    async def story() -> None:
        tools, store = ToolsPlugin(), MemoryStore()
        config = {"interrupt": {"keep": keep}}
        async with Bed(tmp_path, [[LOOK, BUILD], "B"], plugins=[tools], config=config, store=store) as bed:
            await bed.platform.say("a")
            await tools.building.wait()
            await asyncio.sleep(0.01)
            assert await bed.say("b") == "B"
            assert spoken(bed) == kept
            history.check(bed.model.requests[-1].items)
            assert tools.ended == 1, "the running tool was cancelled"
        async with Bed(tmp_path, plugins=[ToolsPlugin()], config=config, store=store) as bed:
            await bed.say("c")
            assert spoken(bed) == [*kept, "B", "c"], "the same after a restart"

    run(story())


def test_i5_the_half_of_an_answer_is_marked_on_the_platform_and_is_not_in_history(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with Bed(tmp_path, [["half of an ans", hold, "wer"]]) as bed:
            await bed.platform.say("a")
            await hold.reached.wait()
            await bed.say("b")
            assert bed.platform.broken() == [1]
            assert spoken(bed) == ["a", "b"]
            assert "half" not in " ".join(bed.platform.texts())

    run(story())


def test_i1_i4_calls_that_had_not_started_never_start(tmp_path: Path) -> None:
    async def story() -> None:
        started: list[int] = []
        full = asyncio.Event()

        class Many:
            @hookimpl
            def hermes_tools(self) -> Iterable[Tool]:
                @tool
                async def wait(number: int) -> str:
                    """Wait."""
                    started.append(number)
                    if len(started) == 8:
                        full.set()
                    await asyncio.sleep(60)
                    return "waited"

                return [wait]

        watch = ToolsPlugin()
        calls = [ToolCall(str(n), "wait", f'{{"number": {n}}}') for n in range(12)]
        async with Bed(tmp_path, [calls], plugins=[Many(), watch]) as bed:
            await bed.platform.say("a")
            await full.wait()
            await bed.say("b")
            assert started == list(range(8)), "eight run side by side, four waited for a place"
            assert len(bed.model.requests) == 2
            report = watch.seen[-1]
            assert isinstance(report, Interruption)
            assert (len(report.killed), len(report.skipped)) == (8, 4)

    run(story())


def test_i7_what_is_typed_while_the_turn_stops_is_joined_behind_the_interrupting_message(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        stubborn = asyncio.Event()

        class Stubborn:
            @hookimpl
            def hermes_tools(self) -> Iterable[Tool]:
                @tool
                async def build() -> str:
                    """Build, and take a while to let go."""
                    stubborn.set()
                    try:
                        await asyncio.sleep(60)
                    except asyncio.CancelledError:
                        await asyncio.sleep(0.1)
                        raise
                    return "built"

                return [build]

        async with Bed(tmp_path, [[BUILD]], plugins=[Stubborn()]) as bed:
            await bed.platform.say("a")
            await stubborn.wait()
            for text in ("b", "c", "d"):
                await bed.platform.say(text)
                await asyncio.sleep(0.01)
            await bed.platform.settled()
            assert spoken(bed) == ["a", "b\nc\nd"]

    run(story())


def test_i8_a_tool_that_swallows_its_cancellation_holds_nothing_up(tmp_path: Path) -> None:
    async def story() -> None:
        deaf = asyncio.Event()

        class Deaf:
            @hookimpl
            def hermes_tools(self) -> Iterable[Tool]:
                @tool(deadline="2h")
                async def build() -> str:
                    """Build, whatever anybody says."""
                    deaf.set()
                    for _ in range(20):
                        try:
                            await asyncio.sleep(1)
                        except asyncio.CancelledError:
                            continue
                    return "built, late"

                return [build]

        async with Bed(tmp_path, [[BUILD]], plugins=[Deaf()]) as bed:
            await bed.platform.say("a")
            await deaf.wait()
            clock = asyncio.get_running_loop()
            before = clock.time()
            assert await bed.say("b") == "you said: b"
            assert clock.time() - before <= 1.2
            await asyncio.sleep(60)
            await bed.say("c")
            assert "built, late" not in spoken(bed), "its late result is thrown away"

    run(story())


def test_i9_the_system_prompt_is_made_anew_for_the_next_turn(tmp_path: Path) -> None:
    async def story() -> None:
        made: list[int] = []

        class Prompt:
            @hookimpl
            def hermes_system_prompt(self, prompt: str) -> str:
                made.append(1)
                return f"{prompt}Version {len(made)}."

        hold = Hold()
        async with Bed(tmp_path, [[hold]], plugins=[Prompt()]) as bed:
            await bed.platform.say("a")
            await hold.reached.wait()
            await bed.say("b")
            assert [request.system for request in bed.model.requests] == ["Version 1.", "Version 2."]

    run(story())


def test_i11_plugins_are_told_before_and_after_with_what_was_killed_and_kept(tmp_path: Path) -> None:
    async def story() -> None:
        tools = ToolsPlugin()
        async with Bed(tmp_path, [[LOOK, BUILD]], plugins=[BusyPlugin(), tools]) as bed:
            await bed.platform.say("a")
            await tools.building.wait()
            await asyncio.sleep(0.01)
            await bed.say("/stop")
            assert tools.seen == [
                1,
                Interruption(bed.platform.address(), 1, killed=("build",), skipped=(), kept=("look",)),
            ]

    run(story())


@pytest.mark.parametrize("verb", ["message", "command", "bare", "stop", "new"])
def test_p3_i11_the_hooks_fire_whichever_way_the_turn_is_stopped(tmp_path: Path, verb: str) -> None:
    typed = {"message": "b", "command": "/interrupt b", "bare": "/interrupt", "stop": "/stop", "new": "/new"}

    async def story() -> None:
        tools = ToolsPlugin()
        async with Bed(tmp_path, [[BUILD]], plugins=[BasicsPlugin(), BusyPlugin(), tools]) as bed:
            await bed.platform.say("a")
            await tools.building.wait()
            await bed.say(typed[verb])
            await until(lambda: len(tools.seen) == 2)
            assert tools.seen[0] == 1
            assert isinstance(tools.seen[1], Interruption)
            assert tools.seen[1].killed == ("build",)

    run(story())
