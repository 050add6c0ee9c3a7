"""Who blocks the event loop is named in the log, by plugin and line, and nobody else is (P2, case 45).

In real time, because it is about real time; the limits are wide, so that a slow machine changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import re
import selectors
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hermes_core.messages import ToolCall
from hermes_core.plugins import Plugins
from hermes_core.testing.bed import Bed
from hermes_core.watchdog import Watchdog

from .foreign import Foreign

BLOCKS = """
    class Plugin:
        @hookimpl
        async def hermes_message(self, entry: Entry) -> None:
            if entry.text == "block the hook":
                from . import deep
                deep.nap()

        @hookimpl
        def hermes_commands(self) -> list[Command]:
            @command("block", help="x")
            async def block(context: Context) -> str:
                from . import deep
                deep.nap()
                return "done"

            @command("wait", help="x")
            async def wait(context: Context) -> str:
                subprocess.run(["sleep", "0.9"], capture_output=True)
                return "done"

            @command("hold", help="x")
            async def hold(context: Context, length: int) -> str:
                re.match(r"(a|a)*b", "a" * length)
                return "done"

            return [block, wait, hold]

        @hookimpl
        def hermes_tools(self) -> list[Tool]:
            @tool
            async def slow() -> str:
                "Block."
                from . import deep
                deep.nap()
                return "done"

            @tool
            def threaded() -> str:
                "Take long in a thread."
                time.sleep(1.2)
                return "done"

            return [slow, threaded]
"""
DEEP = """
    def nap() -> None:
        time.sleep(0.9)
"""
GOOD = """
    class Plugin:
        @hookimpl
        def hermes_commands(self) -> list[Command]:
            @command("good", help="x")
            async def good(context: Context) -> str:
                return "here I am"
            return [good]
"""


@pytest.fixture
async def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bed]:
    """A house with the plugin that blocks and one that does not."""
    for name, text, more in (("slow", BLOCKS, {"deep": DEEP}), ("good", GOOD, {})):
        foreign = Foreign(tmp_path / "installed", name)
        foreign.write(text, **more)
        foreign.on_path(monkeypatch)
    config: dict[str, Any] = {
        "plugins": {"slow": {"enabled": True}, "good": {"enabled": True}},
        "runtime": {"blocked_after": 0.3},
    }
    async with Bed(tmp_path / "data", config=config, installed=True) as bed:
        yield bed


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "hermes.watchdog"]


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("text", ["block the hook", "/block", "use the tool"])
async def test_case_45_who_blocks_the_event_loop_is_named_with_file_line_and_length(
    bed: Bed, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    caplog.set_level(logging.WARNING)
    if text == "use the tool":
        bed.model.scripts = [[ToolCall("1", "slow", "{}")], "seen"]
    await bed.say(text)
    await until(lambda: len(lines(caplog)) >= 2)
    begin, end = lines(caplog)
    line = DEEP.splitlines().index("        time.sleep(0.9)") + 1 + 7
    assert re.fullmatch(
        rf"the event loop has been blocked for 0\.\d s by plugin slow, deep\.py:{line} in nap; everybody waits for it",
        begin,
    )
    assert re.search(rf"was blocked for [01]\.\d s by plugin slow, deep\.py:{line} in nap", end)
    assert "blocked the event loop" in bed.plugins.infos["slow"].problem
    assert await bed.say("/good") == "here I am"
    assert bed.plugins.infos["good"].problem == ""


async def test_case_45_a_plugin_that_waits_for_a_program_is_named_and_not_taken_for_an_idle_loop(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    """`subprocess` waits in a selector, as the event loop itself does."""
    await bed.say("/wait")
    await until(lambda: len(lines(caplog)) >= 2)
    assert re.search(
        r"by plugin slow, hermes_slow/__init__\.py:\d+ in .*wait \(inside selectors\.py", lines(caplog)[0]
    )


@pytest.fixture
def length() -> int:
    """How long a text must be for a bad pattern to take more than a second with it."""

    def took(length: int) -> float:
        began = time.monotonic()
        re.match(r"(a|a)*b", "a" * length)
        return time.monotonic() - began

    length = 18
    while (seconds := took(length)) < 1.0:
        length += 1 if seconds > 0.3 else 2
    return length


async def test_case_45_a_plugin_that_holds_the_interpreter_is_named_afterwards(
    length: int, bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    """Code in C, so that no other thread runs meanwhile, and nobody can look."""
    await bed.say(f"/hold {length}")
    await until(lambda: lines(caplog))
    who = r"by plugin slow, hermes_slow/__init__\.py:\d+ in .*hold \(inside re/__init__"
    assert re.search(rf"blocked for \d\.\d s {who}", lines(caplog)[0])
    assert "event loop" in bed.plugins.infos["slow"].problem


async def test_what_runs_in_a_thread_and_what_only_waits_is_not_named(
    bed: Bed, caplog: pytest.LogCaptureFixture
) -> None:
    bed.model.scripts = [[ToolCall("1", "threaded", "{}")], "seen"]
    assert await bed.say("use the thread") == "seen"
    await asyncio.sleep(0.8)  # idle
    busy = time.monotonic() + 0.8
    while time.monotonic() < busy:  # never idle, and never blocked
        await asyncio.sleep(0)
    assert lines(caplog) == []


def test_an_idle_loop_is_never_woken_to_be_watched() -> None:
    class Counting(selectors.SelectSelector):
        asked = 0

        def select(self, timeout: float | None = None) -> Any:
            self.asked += 1
            return super().select(timeout)

    selector = Counting()

    async def story() -> int:
        watchdog = Watchdog(Plugins(), 0.04)
        await asyncio.sleep(0.2)
        before = selector.asked
        await asyncio.sleep(0.6)  # 60 looks
        woken = selector.asked - before
        watchdog.close()
        return woken

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        assert runner.run(story()) <= 4


async def test_what_belongs_to_no_plugin_is_named_as_the_programs_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watchdog = Watchdog(Plugins(), 0.2)
    await asyncio.sleep(0)
    time.sleep(0.7)
    await until(lambda: len(lines(caplog)) >= 2)
    watchdog.close()
    assert "by the program itself, test_blocked.py" in lines(caplog)[0]


async def test_it_ends_with_its_house(tmp_path: Path) -> None:
    import threading

    def watching() -> int:
        return sum(one.name == "watchdog" for one in threading.enumerate())

    before = watching()
    async with Bed(tmp_path, config={"runtime": {"blocked_after": 0.3}}):
        assert watching() == before + 1
    assert watching() == before
    async with Bed(tmp_path, config={"runtime": {"blocked_after": 0}}):
        assert watching() == before
