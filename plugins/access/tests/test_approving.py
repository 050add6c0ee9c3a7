"""Tool calls that wait for a person's yes: who may give it, for how long, and what becomes of it (cases 40, 52)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hermes_access.plugin import AccessPlugin
from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core.adapter import Features
from hermes_core.commands import Command, Context, command
from hermes_core.errors import SendError
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Author, Choice, Outgoing, Role, Step, ToolCall
from hermes_core.people import People
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Script
from hermes_core.testing.platform import FakePlatform
from hermes_core.testing.virtual import run
from hermes_core.tools import AsyncTool, Tool, async_tool, tool
from hermes_shell.plugin import ShellPlugin, ShellSettings

QUEUE = {"conversation": {"busy": "queue"}}


def wipe(path: str = "/tmp/x", id_: str = "1") -> ToolCall:
    return ToolCall(id_, "wipe", json.dumps({"path": path}))


class Wiper:
    """A plugin as anybody writes it: a dangerous tool, and what it did."""

    def __init__(self, approval: bool | Callable[[Mapping[str, Any]], str | None] = True) -> None:
        self.wiped: list[str] = []
        self._approval = approval

    @hookimpl
    def hermes_tools(self) -> Sequence[Tool]:
        @tool("wipe", approval=self._approval, deadline="10s")
        async def wipe(path: str) -> str:
            """Remove everything there."""
            self.wiped.append(path)
            await asyncio.sleep(5)
            return "gone"

        return [wipe]

    @hookimpl
    def hermes_async_tools(self) -> Sequence[AsyncTool]:
        @async_tool("scrub", approval=True)
        async def scrub(path: str) -> str:
            """Remove everything there, slowly."""
            self.wiped.append(path)
            return "gone"

        return [scrub]


def bed_for(folder: Path, scripts: Sequence[Script], wiper: Wiper, **more: Any) -> Bed:
    plugins = [AccessPlugin(), BasicsPlugin(), BusyPlugin(), wiper]
    return Bed(folder, scripts, plugins=plugins, **more)


async def until(condition: Callable[[], object]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


async def question(bed: Bed, number: int = 1, channel: str = "1") -> tuple[str, Outgoing]:
    """Id and message of the `number`-th question."""

    def asked() -> list[Outgoing]:
        return [
            one
            for one in bed.platform.sent
            if one.text.startswith("May I run this?") and one.address.channel == channel
        ]

    await until(lambda: len(asked()) >= number)
    found = asked()[number - 1]
    return found.key.split("#ask:")[1].split(":")[0], found


async def answer(bed: Bed, text: str, author: str = "ann", channel: str = "1", **more: Any) -> str:
    """The answer to a command, while the turn waits."""
    message = await bed.platform.say(text, channel, author, **more)
    await until(lambda: any(one.answers == message.id for one in bed.platform.sent))
    return next(one.text for one in bed.platform.sent if one.answers == message.id)


def results(bed: Bed) -> list[str]:
    """What the model read as results of its calls."""
    items = bed.model.requests[-1].items
    return [result.text for item in items if isinstance(item, Step) for result in item.results]


def test_a_call_waits_for_a_yes_and_then_runs_with_its_whole_deadline(tmp_path: Path) -> None:
    async def story() -> None:
        wiper = Wiper()
        async with bed_for(tmp_path, [[wipe()], "done"], wiper) as bed:
            first = await bed.platform.say("wipe it")
            id_, asked = await question(bed)
            assert asked.text.startswith(
                'May I run this? (wipe)\n\n```\n{\n  "path": "/tmp/x"\n}\n```\n\nType /approve '
            )
            assert asked.answers == first.id
            assert bed.platform.gateway.activity(bed.platform.address()).state == "asking"
            await asyncio.sleep(200)  # far beyond the deadline of the tool
            assert wiper.wiped == []
            assert (await answer(bed, f"/approve {id_}")).startswith("Approved: {")
            await bed.platform.settled()
            assert (wiper.wiped, results(bed)) == (["/tmp/x"], ["gone"])
            assert bed.platform.texts()[-1] == "done"

    run(story())


async def test_a_plain_handler_of_another_plugin_may_answer_from_its_thread(tmp_path: Path) -> None:
    """In real time: what waits is woken in the thread of the loop, which would sleep on else."""

    class Other:
        def __init__(self) -> None:
            self.thread = 0

        @hookimpl
        def hermes_commands(self) -> Sequence[Command]:
            @command("yes")
            def yes(context: Context) -> None:
                """Say yes to all that waits."""
                self.thread = threading.get_ident()
                for one in context.conversation.permissions():
                    context.conversation.permit(one.id, True)

            return [yes]

    wiper, other = Wiper(), Other()
    asyncio.get_running_loop().set_debug(True)  # then a call from another thread is an error
    async with Bed(tmp_path, [[wipe()], "done"], plugins=[AccessPlugin(), wiper, other]) as bed:
        waiting = bed.runtime.services.permissions.waiting
        await bed.platform.say("wipe it")
        async with asyncio.timeout(10):
            while not waiting(bed.platform.address()):
                await asyncio.sleep(0.001)
            await bed.platform.say("/yes")
            while not wiper.wiped:
                await asyncio.sleep(0.001)
        assert other.thread != threading.get_ident()


def test_status_says_what_waits_for_an_answer(tmp_path: Path) -> None:
    async def story() -> None:
        wiper = Wiper(lambda arguments: str(arguments["path"]))
        async with bed_for(tmp_path, [[wipe()], "done"], wiper) as bed:
            await bed.platform.say("wipe it")
            id_, _ = await question(bed)
            assert f"- For /approve or /deny: 1 ({id_} /tmp/x)\n" in await answer(bed, "/status")
            await answer(bed, f"/approve {id_}")
            await bed.platform.settled()
            assert "/deny" not in await answer(bed, "/status")

    run(story())


def test_a_no_is_told_to_the_model_and_nothing_runs(tmp_path: Path) -> None:
    async def story() -> None:
        wiper = Wiper()
        async with bed_for(tmp_path, [[wipe()], "I see"], wiper) as bed:
            await bed.platform.say("wipe it")
            await question(bed)
            assert (await answer(bed, "/deny")).startswith("Denied: {")
            await bed.platform.settled()
            assert wiper.wiped == []
            assert results(bed)[0].startswith("Ann said no to wipe. It was not run.")

    run(story())


def test_without_an_answer_it_is_a_no_after_the_time_that_is_set(tmp_path: Path) -> None:
    async def story() -> None:
        wiper = Wiper()
        config = {"permissions": {"expires": "3m"}}
        async with bed_for(tmp_path, [[wipe()], "I see"], wiper, config=config) as bed:
            before = asyncio.get_running_loop().time()
            await bed.platform.say("wipe it")
            id_, asked = await question(bed)
            assert "within 3 minutes" in asked.text
            await bed.platform.settled()
            assert asyncio.get_running_loop().time() - before == pytest.approx(180, abs=1)
            assert wiper.wiped == []
            assert results(bed)[0].startswith("Nobody gave wipe permission within 3 minutes.")
            assert (
                await answer(bed, f"/approve {id_}")
                == f"{id_} is no longer waiting: nobody answered in time."
            )

    run(story())


def test_case_40_the_question_stays_in_its_thread_and_is_answered_there_only(tmp_path: Path) -> None:
    async def story() -> None:
        wiper = Wiper()
        async with bed_for(tmp_path, [[wipe()], "done"], wiper) as bed:
            await bed.platform.say("wipe it", thread="t7")
            id_, asked = await question(bed)
            assert asked.address == bed.platform.address("1", "t7")
            for place in ({}, {"thread": "t8"}, {"channel": "2", "thread": "t7"}):
                said = await answer(bed, f"/approve {id_}", **place)
                assert said == f"Nothing waits for an answer under '{id_}' here."
            assert wiper.wiped == []
            await answer(bed, f"/approve {id_.upper()}", thread="t7")
            await bed.platform.gateway.settled(bed.platform.address("1", "t7"))
            assert wiper.wiped == ["/tmp/x"]
            assert {one.address.thread for one in bed.platform.sent if one.text == "done"} == {"t7"}

    run(story())


@pytest.mark.parametrize(
    ("by", "may", "may_not"),
    [("turn", ["bob"], ["ann", "cid", "eve"]), ("admins", ["ann", "cid"], ["bob", "eve"])],
)
def test_only_whose_turn_it_is_or_admins_as_it_is_set_may_say_yes(
    tmp_path: Path, by: str, may: list[str], may_not: list[str]
) -> None:
    async def story(person: str) -> None:
        wiper = Wiper()
        config = {"permissions": {"by": by}, "access": {"admins": ["fake:cid"]}}
        async with bed_for(tmp_path, [[wipe()], "done"], wiper, config=config) as bed:
            await bed.platform.say("wipe it", author="bob", group=True)
            id_, _ = await question(bed)
            for other in may_not:
                said = await answer(bed, f"/approve {id_}", other, group=True)
                assert said.startswith(f"{id_} is not yours to answer. Only ")
            assert wiper.wiped == []
            await answer(bed, f"/approve {id_}", person, group=True)
            await bed.platform.settled()
            assert wiper.wiped == ["/tmp/x"]

    for person in may:
        run(story(person))


def test_who_is_no_admin_any_more_cannot_say_yes_to_what_is_for_admins(tmp_path: Path) -> None:
    async def story() -> None:
        people = People(tmp_path)
        people.let_in("fake:bob", Role.ADMIN)
        shell = ShellPlugin(ShellSettings(cwd=str(tmp_path)))
        calls = [ToolCall("1", "run_command", '{"command": "touch it"}')]
        async with Bed(tmp_path, [calls, "I see"], plugins=[AccessPlugin(), shell]) as bed:
            await bed.platform.say("go", author="bob")
            id_, _ = await question(bed)
            people.let_in("fake:bob", Role.USER)
            bed.runtime.services.access.look_again()
            assert (await answer(bed, f"/approve {id_}", "bob")).startswith(f"{id_} is not yours to answer.")
            await bed.platform.settled()
            assert not (tmp_path / "it").exists()

    run(story())


def test_an_admin_may_say_no_to_what_runs_for_somebody_else_and_others_may_not(tmp_path: Path) -> None:
    async def story() -> None:
        wiper = Wiper()
        async with bed_for(tmp_path, [[wipe()], "I see"], wiper) as bed:
            await bed.platform.say("wipe it", author="bob", group=True)
            id_, _ = await question(bed)
            assert (await answer(bed, f"/deny {id_}", "eve")).startswith(f"{id_} is not yours to answer.")
            assert (await answer(bed, f"/deny {id_}", "ann")).startswith("Denied: ")
            await bed.platform.settled()
            assert wiper.wiped == []

    run(story())


@pytest.mark.parametrize("stop", ["/stop", "/new", "never mind"])
def test_a_question_dies_with_its_turn_and_a_late_yes_is_told_so(tmp_path: Path, stop: str) -> None:
    async def story() -> None:
        wiper = Wiper()
        async with bed_for(tmp_path, [[wipe()], "next"], wiper) as bed:
            await bed.platform.say("wipe it")
            id_, _ = await question(bed)
            await bed.platform.say(stop)
            await bed.platform.settled()
            assert await answer(bed, f"/approve {id_}") == (
                f"{id_} is no longer waiting: the work that asked was stopped."
            )
            assert await answer(bed, "/approve") == "Nothing waits for an answer here."
            assert wiper.wiped == []

    run(story())


def test_d4_after_a_crash_nothing_runs_that_was_not_approved(tmp_path: Path) -> None:
    """The model is told that the call was not run; a start that may be repeated is asked about again."""

    async def story() -> None:
        store = MemoryStore()
        wiper = Wiper()
        scrub = ToolCall("2", "start_scrub", json.dumps({"path": "/b", "idempotency_key": "k"}))
        async with bed_for(tmp_path, [[wipe("/a"), scrub]], wiper, store=store) as bed:
            await bed.platform.say("wipe them")
            old, _ = await question(bed, 1)
            await question(bed, 2)
            bed.runtime.services.closing = True
        async with bed_for(tmp_path, ["done"], wiper, store=store) as bed:
            id_, asked = await question(bed)
            assert '"/b"' in asked.text
            assert await answer(bed, f"/approve {old}") == f"Nothing waits for an answer under '{old}' here."
            assert wiper.wiped == []
            await answer(bed, f"/approve {id_}")
            await until(lambda: "done" in bed.platform.texts())
            await until(lambda: wiper.wiped)
            assert wiper.wiped == ["/b"]
            assert results(bed)[0].startswith("Not run: ")

    run(story())


@pytest.mark.parametrize("yes", ["/approve", "/approve always"])
def test_d4_what_ran_after_a_yes_may_have_taken_effect_when_a_crash_cuts_it(tmp_path: Path, yes: str) -> None:
    async def story() -> None:
        store = MemoryStore()
        wiper = Wiper()
        async with bed_for(tmp_path, [[wipe("/a")]], wiper, store=store) as bed:
            await bed.platform.say("wipe it")
            await question(bed)
            await answer(bed, yes)
            await until(lambda: wiper.wiped)
            bed.runtime.services.closing = True
        async with bed_for(tmp_path, ["done"], wiper, store=store) as bed:
            await until(lambda: "done" in bed.platform.texts())
            (told,) = results(bed)
            assert told.startswith("Interrupted by a restart of the program; it may have taken effect.")
            assert wiper.wiped == ["/a"]

    run(story())


def test_always_asks_no_more_about_just_this_here_until_new(tmp_path: Path) -> None:
    async def story() -> None:
        wiper = Wiper()
        scripts: list[Script] = [[wipe()], "1", [wipe()], "2", [wipe("/other")], "3", [wipe()], "4"]
        async with bed_for(tmp_path, scripts, wiper) as bed:
            await bed.platform.say("wipe it")
            await question(bed)
            assert (await answer(bed, "/approve always")).startswith(
                "Approved, and from now on without a question"
            )
            await bed.platform.settled()
            assert await bed.say("again") == "2"
            assert wiper.wiped == ["/tmp/x", "/tmp/x"]
            await bed.platform.say("the other")
            await question(bed, 2)
            await answer(bed, "/deny")
            await bed.platform.settled()
            await bed.say("/new")
            await bed.platform.say("again")
            await question(bed, 3)
            await answer(bed, "/deny")
            await bed.platform.settled()
            assert wiper.wiped == ["/tmp/x", "/tmp/x"]

    run(story())


def test_what_one_person_allowed_for_good_is_not_allowed_for_others(tmp_path: Path) -> None:
    async def story() -> None:
        wiper = Wiper()
        async with bed_for(tmp_path, [[wipe()], "1", [wipe()], "2"], wiper) as bed:
            await bed.platform.say("wipe it", author="bob", group=True)
            await question(bed)
            await answer(bed, "/approve always", "bob", group=True)
            await bed.platform.settled()
            await bed.platform.say("wipe it", author="eve", group=True)
            await question(bed, 2)
            await answer(bed, "/deny", "eve", group=True)
            await bed.platform.settled()
            assert wiper.wiped == ["/tmp/x"]

    run(story())


def test_buttons_are_shown_where_the_platform_has_them(tmp_path: Path) -> None:
    async def story(buttons: bool) -> tuple[Choice, ...]:
        platform = FakePlatform(features=Features(lookup=True, buttons=buttons))
        async with bed_for(tmp_path, [[wipe()], "I see"], Wiper(), platform=platform) as bed:
            await bed.platform.say("wipe it")
            id_, asked = await question(bed)
            assert f"Type /approve {id_} or /deny {id_} within 5 minutes" in asked.text
            await answer(bed, f"/deny {id_}")
            await bed.platform.settled()
            return asked.choices

    first, *_, last = run(story(True))
    assert first.label == "Approve"
    assert first.send.startswith("/approve ")
    assert last.send.startswith("/deny ")
    assert run(story(False)) == ()


@pytest.mark.parametrize(("said", "runs"), [("yes", True), ("Y", True), (" No. ", False), ("n", False)])
def test_d2_a_lone_yes_or_no_of_who_may_answer_is_the_answer_and_stops_nothing(
    tmp_path: Path, said: str, runs: bool
) -> None:
    async def story() -> None:
        wiper = Wiper()
        async with bed_for(tmp_path, [[wipe()], "done"], wiper) as bed:
            await bed.platform.say("wipe it", author="bob", group=True)
            await question(bed)
            await asyncio.sleep(2)
            assert (await answer(bed, said, "bob", group=True)).startswith("Approved" if runs else "Denied")
            await bed.platform.settled()
            assert wiper.wiped == (["/tmp/x"] if runs else [])
            assert len(bed.model.requests) == 2
            assert bed.platform.sent[-1].text == "done"

    run(story())


@pytest.mark.parametrize(
    ("said", "author", "after", "more"),
    [
        pytest.param("yes", "eve", 2.0, {}, id="of somebody else"),
        pytest.param("yes", "ann", 2.0, {}, id="of an admin, who may only say no"),
        pytest.param("yes", "bob", 0.5, {}, id="before the question could be read"),
        pytest.param("yes, but not there", "bob", 2.0, {}, id="with more words"),
        pytest.param("/queue yes", "bob", 2.0, {}, id="as a message that waits"),
        pytest.param("yes", "bob", 2.0, {"thread": "t8"}, id="in another thread"),
    ],
)
def test_t2_what_is_no_plain_answer_of_who_may_give_it_lets_nothing_run(
    tmp_path: Path, said: str, author: str, after: float, more: dict[str, Any]
) -> None:
    async def story() -> None:
        wiper = Wiper()
        async with bed_for(tmp_path, [[wipe()], "next", "next"], wiper) as bed:
            await bed.platform.say("wipe it", author="bob", group=True)
            await question(bed)
            await asyncio.sleep(after)
            await bed.platform.say(said, author=author, group=True, **more)
            await asyncio.sleep(400)
            assert wiper.wiped == []
            assert not any(one.text.startswith("Approved") for one in bed.platform.sent)

    run(story())


def test_a_yes_counts_only_once_the_question_stands_there(tmp_path: Path) -> None:
    async def story() -> None:
        wiper = Wiper()
        async with bed_for(tmp_path, [[wipe()], "next"], wiper) as bed:
            bed.platform.refuse.append(SendError("too fast", retry_after=60.0))
            await bed.platform.say("wipe it")
            await asyncio.sleep(30)
            await bed.platform.say("yes")
            await bed.platform.settled()
            assert wiper.wiped == []
            assert bed.platform.sent[-1].text == "next"

    run(story())


def test_a_yes_where_two_wait_is_answered_with_their_ids_and_stops_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        wiper = Wiper()
        async with bed_for(tmp_path, [[wipe("/a"), wipe("/b", "2")], "done"], wiper) as bed:
            await bed.platform.say("wipe them")
            first, _ = await question(bed, 1)
            await question(bed, 2)
            await asyncio.sleep(2)
            assert (await answer(bed, "yes")).startswith(f"2 wait for an answer: {first} ")
            await answer(bed, f"/deny {first}")
            assert (await answer(bed, "yes")).startswith("Approved")
            await bed.platform.settled()
            assert wiper.wiped == ["/b"]

    run(story())


def test_without_the_command_a_yes_is_a_message(tmp_path: Path) -> None:
    async def story() -> None:
        wiper = Wiper()
        async with Bed(tmp_path, [[wipe()], "next"], plugins=[wiper]) as bed:
            await bed.platform.say("wipe it")
            await question(bed)
            await asyncio.sleep(2)
            await bed.platform.say("yes")
            await bed.platform.settled()
            assert wiper.wiped == []
            assert bed.platform.sent[-1].text == "next"

    run(story())


def test_two_that_wait_have_an_id_each(tmp_path: Path) -> None:
    async def story() -> None:
        wiper = Wiper()
        async with bed_for(tmp_path, [[wipe("/a"), wipe("/b", "2")], "done"], wiper) as bed:
            await bed.platform.say("wipe them")
            first, _ = await question(bed, 1)
            second, _ = await question(bed, 2)
            said = await answer(bed, "/approve")
            assert said.startswith(f"2 wait for an answer: {first} ")
            assert said.endswith("Type /approve ID")
            await answer(bed, f"/deny {first}")
            assert (
                await answer(bed, f"/deny {first}") == f"{first} is no longer waiting: it was denied already."
            )
            await answer(bed, f"/approve {second}")
            await bed.platform.settled()
            assert wiper.wiped == ["/b"]

    run(story())


def test_nothing_can_hide_in_what_is_shown(tmp_path: Path) -> None:
    async def story() -> None:
        wiper = Wiper(lambda arguments: str(arguments["path"]))
        path = "ls ```\n\u202e/ fr- mr\x1b[2K\r"
        async with bed_for(tmp_path, [[wipe(path)], "I see", [wipe("x" * 4000)], "too long"], wiper) as bed:
            await bed.platform.say("wipe it")
            _, asked = await question(bed)
            assert "\n\n````\nls ```\n<U+202E>/ fr- mr<U+001B>[2K<U+000D>\n````\n\n" in asked.text
            await answer(bed, "/deny")
            await bed.platform.settled()
            assert await bed.say("wipe more") == "too long"
            assert "4000 characters are too many to read" in results(bed)[1]
            assert wiper.wiped == []

    run(story())


def test_an_answer_at_the_very_instant_of_the_end_counts(tmp_path: Path) -> None:
    async def story() -> None:
        wiper = Wiper()
        async with bed_for(tmp_path, [[wipe()], "done"], wiper) as bed:
            await bed.platform.say("wipe it")
            await question(bed)
            permissions, place = bed.runtime.services.permissions, bed.platform.address()
            (waiting,) = permissions.waiting(place)

            def approve() -> None:
                permissions.decide(place, waiting.id, Author("ann"), Role.OWNER, allow=True)

            # so close that the loop runs both in one go, and this one first
            asyncio.get_running_loop().call_at(waiting.expires - 5e-10, approve)
            await bed.platform.settled()
            assert wiper.wiped == ["/tmp/x"]

    run(story())


@pytest.mark.parametrize(
    "path",
    [
        "-----BEGIN X PRIVATE KEY-----; rm -rf / ;-----END X PRIVATE KEY-----",
        "sk-proj-0123456789012345678901234567890",
    ],
)
def test_what_would_be_hidden_as_a_secret_is_not_asked_about_and_not_run(tmp_path: Path, path: str) -> None:
    """A mask could stand for anything: nobody can say yes to it."""

    async def story() -> None:
        wiper = Wiper(lambda arguments: str(arguments["path"]))
        async with bed_for(tmp_path, [[wipe(path)], "I see"], wiper) as bed:
            assert await bed.say("wipe it") == "I see"
            assert "its arguments hold a secret" in results(bed)[0]
            assert wiper.wiped == []

    run(story())


@pytest.mark.parametrize("given", ["", " \n", 3, ["rm"]])
def test_a_question_that_says_nothing_shows_the_arguments(tmp_path: Path, given: Any) -> None:
    async def story() -> None:
        async with bed_for(tmp_path, [[wipe()], "I see"], Wiper(lambda arguments: given)) as bed:
            await bed.platform.say("wipe it")
            _, asked = await question(bed)
            assert '"path": "/tmp/x"' in asked.text
            await answer(bed, "/deny")
            await bed.platform.settled()

    run(story())


def test_a_tool_may_say_that_a_call_needs_no_question_and_its_fault_is_a_question(tmp_path: Path) -> None:
    async def story() -> None:
        def approval(arguments: Mapping[str, Any]) -> str | None:
            return None if arguments["path"] == "/tmp/x" else str(1 // 0)

        wiper = Wiper(approval)
        async with bed_for(tmp_path, [[wipe()], "done", [wipe("/home")], "I see"], wiper) as bed:
            assert await bed.say("wipe it") == "done"
            await bed.platform.say("wipe home")
            _, asked = await question(bed)
            assert '"path": "/home"' in asked.text
            await answer(bed, "/deny")
            await bed.platform.settled()
            assert wiper.wiped == ["/tmp/x"]

    run(story())


def test_arguments_that_do_not_fit_are_no_question(tmp_path: Path) -> None:
    async def story() -> None:
        wrong = ToolCall("1", "wipe", '{"path": 3, "more": 1}')
        async with bed_for(tmp_path, [[wrong], "I see"], Wiper()) as bed:
            assert await bed.say("wipe it") == "I see"
            assert results(bed)[0].startswith("The arguments of wipe do not fit")

    run(story())


def test_where_nobody_can_answer_it_is_a_no_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        platform = FakePlatform(features=Features(unattended=True))
        wiper = Wiper()
        async with bed_for(tmp_path, [[wipe()], "I see"], wiper, platform=platform) as bed:
            assert await bed.say("wipe it") == "I see"
            assert results(bed)[0].startswith(
                "wipe needs a person's permission, and nobody can be asked here."
            )
            assert wiper.wiped == []

    run(story())


def test_the_shell_asks_about_the_command_and_only_admins_may_answer(tmp_path: Path) -> None:
    async def story() -> None:
        start = {"command": "rm -r work", "idempotency_key": "k", "deadline": "1h"}
        calls = [
            ToolCall("1", "run_command", '{"command": "rm -rf work", "timeout": 5}'),
            ToolCall("2", "start_command", json.dumps(start)),
        ]
        shell = ShellPlugin(ShellSettings(cwd=str(tmp_path)))
        config = {"access": {"admins": ["fake:bob"]}}
        async with Bed(tmp_path, [calls, "I see"], plugins=[AccessPlugin(), shell], config=config) as bed:
            await bed.platform.say("clean up")
            for number, command in ((1, "rm -rf work"), (2, "rm -r work")):
                id_, asked = await question(bed, number)
                assert f"\n```\n{command}\n```\n" in asked.text
                assert (await answer(bed, f"/approve {id_}", "eve")).startswith(f"{id_} is not yours")
                assert await answer(bed, f"/deny {id_}", "bob") == f"Denied: {command}"
            await bed.platform.settled()
            assert all(text.startswith("Bob said no to ") for text in results(bed))
            assert (
                bed.runtime.services.access.role("fake", bed.platform.message("", author="bob").author)
                is Role.ADMIN
            )

    run(story())
