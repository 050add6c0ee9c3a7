"""One plugin's fault stays its own, and the others' service goes on meanwhile (P2)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hermes_core.commands import Command, Context, command
from hermes_core.hookspecs import Answer, hookimpl
from hermes_core.messages import Entry, ToolCall
from hermes_core.plugins import within
from hermes_core.plugins.aside import Aside
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Hold
from hermes_core.testing.virtual import run

from .foreign import Foreign


class HangsPlugin:
    """Its hook never ends for an urgent message; `deaf`, it does not let itself be cancelled either."""

    def __init__(self, deaf: bool) -> None:
        self.deaf = deaf

    @hookimpl
    async def hermes_message(self, entry: Entry) -> Answer | None:
        while entry.text == "urgent":
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if not self.deaf:
                    raise
        return None


class GoodPlugin:
    """Another plugin, which keeps answering."""

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        @command("good")
        async def good(context: Context) -> str:
            """Answer."""
            return "here I am"

        return [good]

    @hookimpl
    async def hermes_message(self, entry: Entry) -> Answer | None:
        return Answer("pong") if entry.text == "ping" else None


@pytest.mark.parametrize(("deaf", "bound"), [(False, 1.0), (True, 2.0)])
def test_p2_i8_an_interrupt_takes_effect_although_a_plugins_hook_hangs(
    tmp_path: Path, deaf: bool, bound: float
) -> None:
    hold = Hold()

    async def story() -> None:
        async with Bed(tmp_path, [["thinking", hold]], plugins=[HangsPlugin(deaf), GoodPlugin()]) as bed:
            loop = asyncio.get_running_loop()
            await bed.platform.say("long work")
            await hold.reached.wait()
            began = loop.time()
            await bed.platform.say("urgent")
            # meanwhile everything else is served, here and elsewhere
            assert await bed.say("ping", channel="2") == "pong"
            await bed.platform.say("/good")
            while "here I am" not in bed.platform.texts("1"):
                await asyncio.sleep(0)
            assert loop.time() == began
            await bed.platform.settled()
            assert bed.model.cut == 1
            assert bed.platform.texts("1")[-1] == "you said: urgent"
            assert loop.time() - began <= bound + 0.1
            assert "hermes_message failed" in bed.plugins.infos["hangs"].problem
            assert bed.plugins.infos["good"].problem == ""

    run(story())


def test_p2_a_hook_that_hangs_again_and_again_is_given_a_rest_so_that_messages_do_not_wait_for_it(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        hangs = HangsPlugin(deaf=False)
        async with Bed(tmp_path, plugins=[hangs, GoodPlugin()]) as bed:
            loop = asyncio.get_running_loop()

            async def took(text: str) -> float:
                began = loop.time()
                assert await bed.say(text) == f"you said: {text}"
                return loop.time() - began

            assert [await took("urgent") for _ in range(3)] == [1.0, 1.0, 1.0]
            assert [await took("urgent") for _ in range(5)] == [0.0] * 5
            assert await bed.say("ping") == "pong"
            await asyncio.sleep(60)
            assert [await took("urgent") for _ in range(2)] == [1.0, 0.0], "it is tried once more"
            await asyncio.sleep(60)
            assert await took("harmless") == 0.0
            assert [await took("urgent") for _ in range(4)] == [1.0, 1.0, 1.0, 0.0], (
                "it had been right in between"
            )

    run(story())


# ---- plain handlers: in real time, because they run in threads


class PlainPlugin:
    """Handlers that are plain functions, and wait as such functions do."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.where: list[str] = []

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        @command("wait")
        def wait(context: Context) -> str:
            """Wait."""
            self.where.append(threading.current_thread().name)
            assert self.go.wait(10)
            return f"waited, {len(context.conversation.snapshot().waiting)} in the queue"

        @command("fault")
        def fault(context: Context, kind: str) -> str:
            """Fail."""
            raise {"stop": StopIteration, "exit": SystemExit, "cancelled": asyncio.CancelledError}[kind]("no")

        return [wait, fault]


async def test_p2_a_plain_handler_that_waits_holds_up_nobody(tmp_path: Path) -> None:
    plain, hold = PlainPlugin(), Hold()
    config = {"conversation": {"busy": "queue"}}
    async with Bed(tmp_path, [["x", hold]], plugins=[plain, GoodPlugin()], config=config) as bed:
        await bed.platform.say("work")
        await hold.reached.wait()
        await bed.platform.say("one that is queued")
        await bed.platform.say("/wait")
        assert await bed.say("/good", channel="2") == "here I am"
        await bed.platform.say("/good")
        async with asyncio.timeout(10):
            while "here I am" not in bed.platform.texts("1"):
                await asyncio.sleep(0.001)
        plain.go.set()
        hold.release()
        await bed.platform.settled()
        assert any(text.startswith("waited, ") for text in bed.platform.texts("1"))
        assert plain.where == ["plugin plain"]


@pytest.mark.parametrize("kind", ["stop", "exit", "cancelled"])
async def test_p2_a_plain_handler_may_raise_anything(tmp_path: Path, kind: str) -> None:
    async with Bed(tmp_path, plugins=[PlainPlugin(), GoodPlugin()]) as bed:
        assert (await bed.say(f"/fault {kind}")).startswith("/fault failed (error ")
        assert await bed.say("/good") == "here I am"


async def test_p2_a_plugin_whose_handlers_hang_is_refused_more_and_no_other_is(tmp_path: Path) -> None:
    plain = PlainPlugin()
    async with Bed(tmp_path, plugins=[plain, GoodPlugin()]) as bed:
        for _ in range(17):
            await bed.platform.say("/wait")
        async with asyncio.timeout(10):
            while not bed.platform.texts("1"):
                await asyncio.sleep(0.001)
        assert bed.platform.texts("1") == [
            "The plugin plain is busy: 16 of its calls have not ended. Try again later."
        ]
        assert await bed.say("/good", channel="2") == "here I am"
        plain.go.set()
        await bed.platform.settled()
        assert (await bed.say("/wait")).startswith("waited"), "they have ended, so there is room again"


async def test_a_handler_that_is_given_up_goes_on_beside_and_is_counted_until_it_ends() -> None:
    aside, go = Aside(), threading.Event()
    with pytest.raises(TimeoutError):
        await within(aside.call("slow", go.wait, 10), 0.01)
    assert aside.running("slow") == 1
    go.set()
    async with asyncio.timeout(10):
        while aside.running("slow"):
            await asyncio.sleep(0.001)


# ---- every kind of fault, in an installed plugin, beside one whose service is looked at meanwhile

GOOD = """
    class Plugin:
        @hookimpl
        def hermes_commands(self) -> list[Command]:
            @command("good", help="x")
            async def good(context: Context) -> str:
                return "here I am"

            @command("taken", help="x")
            async def taken(context: Context) -> str:
                return "the first one's"

            return [good, taken]

        @hookimpl
        async def hermes_message(self, entry: Entry) -> Answer | None:
            return Answer("pong") if entry.text == "ping" else None

        @hookimpl
        def hermes_tools(self) -> list[Tool]:
            @tool
            async def look() -> str:
                "Look."
                return "seen"

            return [look]
"""


def body(hook: str) -> str:
    return "class Plugin:\n    @hookimpl\n    " + hook.replace("\n", "\n    ")


FAULTS = {
    "import error": ("import nothing_of_this_name", "cannot be loaded: ModuleNotFoundError"),
    "syntax error": ("def (:", "cannot be loaded: SyntaxError"),
    "ends the program": ("raise SystemExit(3)", "cannot be loaded: SystemExit"),
    "cannot be made": (
        "class Plugin:\n    def __init__(self):\n        raise ValueError('no')",
        "cannot be loaded",
    ),
    "wrong hook": (body("def hermes_mesage(self, entry): ..."), "Did you mean hermes_message"),
    "wrong argument": (body("def hermes_message(self, mesage): ..."), "mesage"),
    "no mark": ("class Plugin:\n    def hermes_message(self): ...", "lacks the mark @hookimpl"),
    "brings nonsense": (body("def hermes_tools(self):\n    return [7]"), "gave int, not Tool"),
    "taken name": (
        body("def hermes_commands(self):\n    return [command('taken', help='x')(lambda context: 'mine')]"),
        "/taken of plugin 'zbad' is taken by plugin 'good'",
    ),
    "hook raises": (body("def hermes_message(self):\n    raise ValueError('no')"), "hermes_message failed"),
    "hook raises later": (
        body("async def hermes_message(self):\n    await asyncio.sleep(0)\n    raise ValueError('no')"),
        "hermes_message failed",
    ),
    "hook ends the program": (
        body("async def hermes_message(self):\n    raise SystemExit"),
        "hermes_message failed",
    ),
    "hook hangs": (
        body("async def hermes_message(self):\n    await asyncio.sleep(3600)"),
        "hermes_message failed",
    ),
    "another hook hangs": (
        body("async def hermes_turn_started(self):\n    await asyncio.sleep(3600)"),
        "hermes_turn_started failed",
    ),
    "prompt hangs": (
        body(
            "async def hermes_system_prompt(self, prompt):\n    await asyncio.sleep(3600)\n    return prompt"
        ),
        "hermes_system_prompt failed",
    ),
    "injections hang": (
        body("async def hermes_injections(self):\n    await asyncio.sleep(3600)\n    return []"),
        "hermes_injections failed",
    ),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_case_44_whatever_is_wrong_with_a_plugin_the_others_serve_and_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """In virtual time: what the others do takes none, but where a turn asks the one that hangs (its limit)."""
    fault, says = FAULTS[kind]
    for name, text in (("good", GOOD), ("zbad", fault)):
        foreign = Foreign(tmp_path / "installed", name)
        foreign.write(text)
        foreign.on_path(monkeypatch)
    config: dict[str, Any] = {"plugins": {"good": {"enabled": True}, "zbad": {"enabled": True}}}

    async def story() -> None:
        scripts: list[Any] = [[ToolCall("1", "look", "{}")], "it saw"]
        async with Bed(tmp_path / "data", scripts, config=config, installed=True) as bed:
            loop = asyncio.get_running_loop()
            answers = [await bed.say(text) for text in ("ping", "/good", "/taken")]
            assert answers == ["pong", "here I am", "the first one's"]
            assert loop.time() == 0, "no other plugin's service waits for it"
            assert await bed.say("use the tool") == "it saw"
            await asyncio.sleep(10.0 - loop.time())
            assert says in bed.plugins.infos["zbad"].problem
            assert bed.plugins.infos["good"].problem == ""
            assert "zbad" in await bed.say("/status")

    run(story())


# ---- what is typed, and what stays in memory


def test_case_50_a_longer_word_is_another_command(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[GoodPlugin()]) as bed:
            assert await bed.say("/GOOD") == "here I am"
            said = await bed.say("/goodness gracious")
            assert said == "There is no command /goodness. Did you mean /good?"
            assert await bed.say("say /good for me") == "you said: say /good for me"

    run(story())


def test_case_53_ended_conversations_are_forgotten_and_remembered_when_they_go_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path) as bed:
            for number in range(2000):
                assert await bed.say(f"hello {number}", channel=str(number)) == f"you said: hello {number}"
            assert len(bed.runtime.router._lanes) <= 256
            await bed.say("and again", channel="0")
            assert bed.model.texts() == ["hello 0", "and again"], "its history is in the store"

    run(story())
