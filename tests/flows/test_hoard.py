"""Who takes much memory is named in the log, and nobody else is (P2). In real time, on real memory."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hermes_core.messages import ToolCall
from hermes_core.plugins import Culprit, Work
from hermes_core.testing.bed import Bed
from hermes_core.watchdog.memory import MIB, Memory

from .foreign import Foreign

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="looks at /proc (Linux)")

HOG = """
    KEPT = []

    def hoard() -> str:
        KEPT.append(b"x" * (160 << 20))
        return "taken"

    class Plugin:
        @hookimpl
        async def hermes_message(self, entry: Entry) -> None:
            if entry.text == "take":
                hoard()

        @hookimpl
        def hermes_commands(self) -> list[Command]:
            @command("take", help="x")
            async def take(context: Context) -> str:
                return hoard()

            @command("aside", help="x")
            def aside(context: Context) -> str:
                return hoard()

            @command("free", help="x")
            async def free(context: Context) -> str:
                KEPT.clear()
                return "given back"

            return [take, aside, free]

        @hookimpl
        def hermes_tools(self) -> list[Tool]:
            @tool
            async def take() -> str:
                "Take."
                return hoard()

            @tool
            def take_aside() -> str:
                "Take in a thread."
                return hoard()

            return [take, take_aside]
"""
GOOD = """
    class Plugin:
        @hookimpl
        async def hermes_message(self, entry: Entry) -> Answer | None:
            return Answer("pong") if entry.text == "ping" else None
"""


@pytest.fixture
async def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bed]:
    """A house with a plugin that takes 160 MiB a time and one that takes none; 100 MiB are said."""
    for name, text in (("hog", HOG), ("good", GOOD)):
        foreign = Foreign(tmp_path / "installed", name)
        foreign.write(text)
        foreign.on_path(monkeypatch)
    config: dict[str, Any] = {
        "plugins": {"hog": {"enabled": True}, "good": {"enabled": True}},
        "runtime": {"blocked_after": 1.0, "memory_step": 100},
    }
    async with Bed(tmp_path / "data", config=config, installed=True) as bed:
        yield bed
        await bed.say("/free")
    gc.collect()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = [one.getMessage() for one in caplog.records if one.name == "hermes.watchdog"]
    return [text for text in texts if text.startswith("memory grew")]


@pytest.mark.parametrize("text", ["take", "/take", "/aside", "tool take", "tool take_aside"])
async def test_p2_a_plugin_that_takes_much_memory_is_named_and_the_others_go_on(
    bed: Bed, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    caplog.set_level(logging.WARNING)
    if text.startswith("tool "):
        bed.model.scripts = [[ToolCall("1", text.removeprefix("tool "), "{}")], "seen"]
    await bed.say(text)
    assert await bed.say("ping", channel="2") == "pong"
    async with asyncio.timeout(10):
        while not lines(caplog):
            await asyncio.sleep(0.01)
    assert re.match(
        r"memory grew by 1[0-9]{2} MiB, to \d+ MiB, during the work of plugin hog\b", lines(caplog)[0]
    )
    assert "memory" in bed.plugins.infos["hog"].problem
    assert bed.plugins.infos["good"].problem == ""


# ---- who is named, on figures


class Figures(Memory):
    """Memory as a test says it is."""

    def __init__(self, step: int) -> None:
        self.now = 500
        super().__init__(step * MIB)

    def resident(self) -> int:
        """What the test says."""
        return self.now * MIB


def work(running: tuple[str, ...] = (), **ended: float) -> Work:
    return Work(ended, frozenset(running))


IN_C = Culprit(("c",), "c.py:1 in f")


@pytest.mark.parametrize(
    ("done", "running", "named"),
    [
        (work(a=0.2), None, ("a",)),
        (work(a=0.2, b=0.001), None, ("a",)),
        (work(a=0.2, b=0.006), None, ("a",)),
        (work(a=0.02, b=0.02), None, ("a", "b")),
        (work(a=0.02, running=("b",)), None, ("a", "b")),
        (work(running=("b",)), None, ("b",)),
        (work(a=0.02, b=0.02), IN_C, ("c",)),
        (work(a=0.001), None, ()),
        (work(), Culprit((), "turn.py:1 in run"), ()),
    ],
)
def test_it_names_whoever_was_at_work_and_everybody_where_that_cannot_be_told(
    done: Work, running: Culprit | None, named: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    memory = Figures(100)
    memory.now += 99
    assert memory.look(done, running) == ()
    assert lines(caplog) == []
    memory.now += 1
    assert memory.look(done, running) == named
    assert "memory grew by 100 MiB, to 600 MiB" in lines(caplog)[0]
    for name in named:
        assert name in lines(caplog)[0].partition("work of ")[2]


def test_what_is_given_back_is_not_held_against_anybody(caplog: pytest.LogCaptureFixture) -> None:
    memory = Figures(100)
    for _ in range(50):
        memory.now += 60
        assert memory.look(work(a=0.2), None) == ()
        memory.now -= 60
        assert memory.look(work(), None) == ()
    assert lines(caplog) == []
