"""A plugin is loaded anew while everything goes on, and a broken new version takes nothing away (case 49)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hermes_core.messages import ToolCall
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Hold

from .foreign import Foreign

PLUGIN = """
    from . import helper

    class Plugin:
        def __init__(self) -> None:
            self.task = None

        @hookimpl
        def hermes_commands(self) -> list[Command]:
            @command("say", help="x")
            async def say(context: Context) -> str:
                return "VERSION " + helper.WORD

            @command("begin", help="x")
            async def begin(context: Context) -> str:
                self.task = asyncio.create_task(helper.work(), name="background VERSION")
                return "begun"

            return [say, begin]

        @hookimpl
        async def hermes_message(self, entry: Entry) -> Answer | None:
            return Answer("VERSION pong") if entry.text == "ping" else None

        @hookimpl
        def hermes_tools(self) -> list[Tool]:
            @tool
            async def look() -> str:
                "Look."
                await helper.gate()
                return "VERSION " + helper.WORD

            return [look]
"""
HELPER = """
    WORD = "VERSION word"
    GATE = None
    ALIVE = []

    async def gate() -> None:
        if GATE is not None:
            await GATE.wait()

    async def work() -> None:
        ALIVE.append("VERSION")
        try:
            await asyncio.sleep(3600)
        finally:
            ALIVE.remove("VERSION")
"""


def write(foreign: Foreign, version: str, plugin: str = PLUGIN, helper: str = HELPER) -> None:
    """Put this version where it is installed. Versions of equal length in one second have equal times and sizes."""
    foreign.write(plugin.replace("VERSION", version), helper=helper.replace("VERSION", version))


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Foreign:
    one = Foreign(tmp_path / "installed", "fresh")
    write(one, "v1")
    one.on_path(monkeypatch)
    return one


@contextlib.asynccontextmanager
async def house(folder: Path, scripts: Any = (), **more: Mapping[str, Any]) -> AsyncIterator[Bed]:
    config: dict[str, Any] = {"plugins": {"fresh": {"enabled": True}}, **more}
    async with Bed(folder / "data", scripts, config=config, installed=True) as bed:
        yield bed


def helper() -> Any:
    return sys.modules["hermes_fresh.helper"]


async def test_case_49_all_its_modules_are_fresh_and_its_old_tasks_are_ended(
    foreign: Foreign, tmp_path: Path
) -> None:
    async with house(tmp_path) as bed:
        assert await bed.say("/begin") == "begun"
        old = helper()
        assert old.ALIVE == ["v1"]
        write(foreign, "v2")
        assert await bed.say("/plugins reload fresh") == (
            "fresh 1.0 is reloaded: 2 modules, 1 tasks of the old version ended."
        )
        assert old.ALIVE == []
        assert await bed.say("/say") == "v2 v2 word"
        assert await bed.say("ping") == "v2 pong"
        assert helper() is not old
        assert await bed.say("/begin") == "begun"
        assert helper().ALIVE == ["v2"]
        write(foreign, "v3")
        await bed.say("/plugins reload fresh")


BROKEN = {
    "import": "import nothing_of_this_name",
    "syntax": "def (:",
    "helper": "from .helper import NOT_THERE\n" + PLUGIN.replace("\n    ", "\n"),
    "hook": PLUGIN.replace("hermes_message", "hermes_mesage"),
    "taken": PLUGIN.replace('"begin"', '"status"'),
    "fails": PLUGIN.replace("return [look]", "raise ValueError('secret /etc/x')"),
    "made": PLUGIN.replace("self.task = None", "self.task = asyncio.create_task(helper.work()); 1 / 0"),
    "nonsense": PLUGIN.replace("return [look]", "return ['look']"),
    "exit": "raise SystemExit(3)",
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_case_49_a_broken_new_version_does_not_take_the_old_one_away(
    foreign: Foreign, tmp_path: Path, kind: str
) -> None:
    async with house(tmp_path) as bed:
        await bed.say("/begin")
        old = {name: one for name, one in sys.modules.items() if name.startswith("hermes_fresh")}
        alive = helper().ALIVE
        write(foreign, "v2", BROKEN[kind])
        said = await bed.say("/plugins reload fresh")
        assert said.startswith("plugin 'fresh': not reloaded: ")
        assert "The old version goes on." in said
        assert "secret" not in said
        assert "Traceback" not in said
        assert await bed.say("/say") == "v1 v1 word"
        assert await bed.say("ping") == "v1 pong"
        assert {name: one for name, one in sys.modules.items() if name.startswith("hermes_fresh")} == old
        await asyncio.sleep(0)
        assert alive == ["v1"], "its task goes on"
        works = [one for one in asyncio.all_tasks() if getattr(one.get_coro(), "__qualname__", "") == "work"]
        assert len(works) == 1, "and what the new version had begun is ended"
        assert (
            "not reloaded" in bed.plugins.infos["fresh"].problem
            or "reload" in bed.plugins.infos["fresh"].problem
        )
        assert "fresh" in await bed.say("/status")
        write(foreign, "v3")
        assert "is reloaded" in await bed.say("/plugins reload fresh")
        assert await bed.say("/say") == "v3 v3 word"
        assert bed.plugins.infos["fresh"].problem == ""


async def test_case_49_no_turn_is_dropped_and_a_running_one_keeps_the_tools_it_began_with(
    foreign: Foreign, tmp_path: Path
) -> None:
    """The call that runs ends with the code it began with; the next turn has the new version's."""
    look = [ToolCall("1", "look", "{}")]
    hold = Hold()
    async with house(tmp_path, [look, [hold, ToolCall("2", "look", "{}")], "one", look, "two"]) as bed:
        helper().GATE = gate = asyncio.Event()
        await bed.platform.say("work")
        async with asyncio.timeout(10):
            while bed.runtime.router.activity(bed.platform.address()).tool != "look":
                await asyncio.sleep(0)
        write(foreign, "v2")
        assert "is reloaded" in await bed.say("/plugins reload fresh", channel="2")
        gate.set()
        await hold.reached.wait()
        hold.release()
        await bed.platform.settled()
        assert bed.platform.texts("1") == ["one"]
        results = [one.text for step in bed.model.requests[2].items for one in getattr(step, "results", ())]
        assert results == ["v1 v1 word", "v1 v1 word"]
        assert await bed.say("again") == "two"
        last = [one.text for step in bed.model.requests[-1].items for one in getattr(step, "results", ())]
        assert last[-1] == "v2 v2 word"


async def test_case_49_twenty_reloads_leave_nothing_of_the_old_versions(
    foreign: Foreign, tmp_path: Path
) -> None:
    def versions() -> int:
        gc.collect()
        return sum(
            type(one).__name__ == "Plugin" and type(one).__module__ == "hermes_fresh"
            for one in gc.get_objects()
        )

    async with house(tmp_path) as bed:
        await bed.say("/begin")
        for number in range(20):
            write(foreign, f"v{number}")
            assert "is reloaded" in await bed.say("/plugins reload fresh")
            assert await bed.say("/begin") == "begun"
        modules = [name for name in sys.modules if name.startswith("hermes_fresh")]
        assert sorted(modules) == ["hermes_fresh", "hermes_fresh.helper"]
        assert sum("background" in task.get_name() for task in asyncio.all_tasks()) == 1
        assert await bed.say("/say") == "v19 v19 word"
        assert versions() == 1


async def test_a_task_that_swallows_its_end_is_left_behind_and_named(
    foreign: Foreign, tmp_path: Path
) -> None:
    deaf = HELPER.replace(
        "finally:", "except asyncio.CancelledError:\n            await work()\n        finally:"
    )
    write(foreign, "v1", helper=deaf)
    async with house(tmp_path) as bed:
        await bed.say("/begin")
        write(foreign, "v2")
        said = await bed.say("/plugins reload fresh")
        assert said.endswith("Still running of the old version: task background v1.")
        assert await bed.say("/say") == "v2 v2 word"
        for task in asyncio.all_tasks():
            if task.get_name() == "background v1":
                task.get_coro().close()


async def test_one_that_could_not_be_loaded_at_the_start_is_loaded_once_it_is_repaired(
    foreign: Foreign, tmp_path: Path
) -> None:
    write(foreign, "v1", "import nothing_of_this_name")
    async with house(tmp_path) as bed:
        assert (await bed.say("/say")).startswith("There is no command /say.")
        write(foreign, "v2")
        assert "is reloaded" in await bed.say("/plugins reload fresh")
        assert await bed.say("/say") == "v2 v2 word"


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("/plugins reload", "/plugins reload: NAME is missing. Type /plugins to see them all."),
        ("/plugins reload frehs", "plugin 'frehs': there is no such plugin here. There are: "),
        ("/plugins reload shell", "plugin 'shell': it is not enabled."),
        ("/plugins reload fake", "The plugin fake brings the adapter fake, which is in use"),
        ("/plugins reload scripted", "plugin 'scripted': it was not loaded from an installed package"),
        ("/plugins", "- access "),
    ],
)
async def test_what_cannot_be_reloaded_is_said(
    foreign: Foreign, tmp_path: Path, typed: str, says: str
) -> None:
    async with house(tmp_path) as bed:
        assert (await bed.say(typed)).startswith(says)
        assert await bed.say(typed, author="bob") == "/plugins is for owners."


MODEL = """
    from hermes_core.models import Model, ModelFactory, Stop, Text

    LOG = []
    GATE = None

    class Own:
        def __init__(self, settings):
            LOG.append("opened")

        async def stream(self, request):
            yield Text("VERSION ")
            if GATE is not None:
                await GATE.wait()
            yield Text("says so")
            yield Stop("end")

        async def aclose(self):
            LOG.append("closed")

    class Plugin:
        @hookimpl
        def hermes_models(self) -> list[ModelFactory]:
            return [ModelFactory("own", Own)]
"""


async def test_case_49_the_model_in_use_is_opened_anew_and_a_running_turn_ends_with_the_old_one(
    foreign: Foreign, tmp_path: Path
) -> None:
    write(foreign, "v1", MODEL)
    async with house(tmp_path, model={"provider": "own"}) as bed:
        old: Any = sys.modules["hermes_fresh"]
        old.GATE = gate = asyncio.Event()
        await bed.platform.say("hello")
        async with asyncio.timeout(10):
            while "v1" not in bed.platform.drafts():
                await asyncio.sleep(0)
        for broken in (
            MODEL.replace('LOG.append("opened")', "1 / 0"),
            MODEL.replace('ModelFactory("own"', 'ModelFactory("other"'),
            MODEL,
        ):
            write(foreign, "v2", broken)
            said = await bed.say("/plugins reload fresh", channel="2")
            assert ("The old version goes on." in said) == (broken != MODEL)
        assert await bed.say("hello", channel="3") == "v2 says so"
        assert old.LOG == ["opened"], "a turn has it"
        gate.set()
        await bed.platform.settled()
        assert bed.platform.texts("1") == ["v1 says so"]
        async with asyncio.timeout(10):
            while old.LOG != ["opened", "closed"]:
                await asyncio.sleep(0)
        assert await bed.say("again") == "v2 says so"
        new: Any = sys.modules["hermes_fresh"]
    assert new.LOG == ["opened", "closed"]


async def test_a_plugin_that_shares_its_modules_with_another_is_not_loaded_anew_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = Foreign(tmp_path / "installed", "fresh", "twin = hermes_fresh:Twin\n")
    twin = "\n    class Twin:\n        def __init__(self):\n            self.task = asyncio.create_task(helper.work())"
    write(foreign, "v1", PLUGIN + twin)
    foreign.on_path(monkeypatch)
    async with house(tmp_path, plugins={"fresh": {"enabled": True}, "twin": {"enabled": True}}) as bed:
        await asyncio.sleep(0)
        assert (await bed.say("/plugins reload fresh")).startswith(
            "plugin 'fresh': it shares its modules with twin, so it cannot be loaded anew by itself."
        )
        assert helper().ALIVE == ["v1"], "the other one's work goes on"
