"""/help, /status and /new: what they say, and what they refuse (T5, T7)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from hermes_after.plugin import AfterPlugin
from hermes_basics.plugin import BasicsPlugin
from hermes_core.commands import Command, Context, command
from hermes_core.errors import ModelError
from hermes_core.hookspecs import hookimpl
from hermes_core.job import JobRequest
from hermes_core.messages import Author, Role
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold
from hermes_core.testing.virtual import run
from hermes_core.tools import AsyncTool, JobContext, async_tool

QUEUE = {"conversation": {"busy": "queue"}}


class OwnersOnly:
    """Brings a command that not everybody may use."""

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        @command("wipe", role=Role.OWNER)
        async def wipe(context: Context) -> str:
            """Wipe everything."""
            return "wiped"

        return [wipe]


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


def timeless(text: str) -> str:
    """Without the seconds, which depend on the machine."""
    return re.sub(r"[\d.]+ s\b", "N s", text)


def ask(folder: Path, text: str, author: str = "ann") -> str:
    async def story() -> str:
        async with Bed(folder, plugins=[BasicsPlugin(), OwnersOnly()]) as bed:
            answer = await bed.say(text, author=author)
            assert bed.model.requests == [], "a command never reaches the model"
            return answer

    return run(story())


# ---- /help


def test_help_lists_every_command_with_its_usage_and_its_help_by_name(tmp_path: Path) -> None:
    lines = ask(tmp_path, "/help").splitlines()
    rows = [line.split("  ", 1)[0] for line in lines if line.startswith("/")]
    assert rows == ["/help [NAME]", "/new", "/plugins [reload NAME]", "/status", "/wipe"]
    assert "/wipe                   Wipe everything." in lines


def test_help_hides_what_the_person_may_not_use(tmp_path: Path) -> None:
    assert "/wipe" not in ask(tmp_path, "/help", author="bob")


@pytest.mark.parametrize("text", ["/help new", "/help /new", "/help RESET", "/commands new"])
def test_help_about_one_command_takes_any_of_its_names(tmp_path: Path, text: str) -> None:
    assert ask(tmp_path, text) == (
        "/new: Begin with an empty history; what waits and all notes are cancelled.\nAlso: /reset"
    )


def test_help_says_whom_a_command_is_for(tmp_path: Path) -> None:
    assert ask(tmp_path, "/help wipe") == "/wipe: Wipe everything.\nFor owners."


@pytest.mark.parametrize(
    ("text", "author", "answer"),
    [
        ("/help stats", "ann", "There is no command /stats. Did you mean /status?"),
        ("/help xyzzy", "ann", "There is no command /xyzzy. Type /help"),
        ("/help wipe", "bob", "There is no command /wipe. Type /help"),
        ("/help new status", "ann", "/help takes no more than 1 arguments. Type /help [NAME]"),
        ("/status now", "ann", "/status takes no arguments. Type /status"),
        ("/new please", "ann", "/new takes no arguments. Type /new"),
    ],
)
def test_what_is_refused_says_what_to_type_instead(
    tmp_path: Path, text: str, author: str, answer: str
) -> None:
    assert ask(tmp_path, text, author) == answer


# ---- /status


def test_status_of_an_idle_conversation(tmp_path: Path) -> None:
    assert ask(tmp_path, "/status").splitlines() == [
        "- Now: idle",
        "- Waiting: nothing",
        "- Replies so far: 0, turns in the context: 0",
        "- A message during work: interrupt",
        "- Model: scripted",
        "- Conversation: fake:agent:1",
    ]


def test_status_while_a_turn_runs_says_what_it_does_and_what_waits(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with Bed(tmp_path, ["one", ["so", hold]], plugins=[BasicsPlugin()], config=QUEUE) as bed:
            await bed.say("first")
            await bed.platform.say("second")
            await hold.reached.wait()
            await bed.platform.say("third")
            await bed.platform.say("/status")
            await until(lambda: len(bed.platform.sent) == 2)
            lines = timeless(bed.platform.texts()[-1]).splitlines()
            assert lines[:5] == [
                "- Now: writing (turn 2, for N s)",
                "- Waiting: 1 (q3 “third”)",
                "- Last turn: completed after N s, reply 1",
                "- Replies so far: 1, turns in the context: 1",
                "- A message during work: queue",
            ]
            hold.release()

    run(story())


def test_status_shows_the_first_of_what_waits_notes_with_their_place_and_jobs(tmp_path: Path) -> None:
    go = asyncio.Event()

    class Digs:
        @hookimpl
        def hermes_async_tools(self) -> Iterable[AsyncTool]:
            @async_tool
            async def dig(context: JobContext) -> str:
                """Dig."""
                context.progress("one spade")
                await go.wait()
                return "a hole"

            return [dig]

    async def story() -> None:
        hold = Hold()
        plugins = [BasicsPlugin(), AfterPlugin(), Digs()]
        async with Bed(tmp_path, [[hold]], plugins=plugins, config=QUEUE) as bed:
            request = JobRequest(bed.platform.address(), Author("ann"), "dig", {}, "k", notify=False)
            job = await bed.runtime.jobs.start(request)
            await bed.platform.say("first")
            await hold.reached.wait()
            for number in range(5):
                await bed.platform.say(f"number {number}")
            await bed.platform.say("/after 2 remember the umbrella")
            await until(lambda: len(bed.platform.sent) == 1)
            await bed.platform.say("/status")
            await until(lambda: len(bed.platform.sent) == 2)
            lines = bed.platform.texts()[-1].splitlines()
            assert lines[1] == "- Waiting: 5 (q2 “number 0”, q3 “number 1”, q4 “number 2”, and 2 more)"
            assert lines[2] == "- Notes: 1 (a8 after reply 2: “remember the umbrella”)"
            assert lines[3] == f"- Jobs: 1 ({job.id} dig running one spade)"
            go.set()
            hold.release()

    run(story())


def test_status_says_what_went_wrong_last_and_how_long_ago(tmp_path: Path) -> None:
    async def story() -> str:
        script = [ModelError("The server is not there.", "Is it started?")]
        async with Bed(tmp_path, [script], plugins=[BasicsPlugin()]) as bed:
            await bed.say("hello")
            await bed.say("again")
            return await bed.say("/status")

    lines = timeless(run(story())).splitlines()
    assert "- Last error: N s ago: The server is not there. Is it started?" in lines


# ---- /new (T7)


def test_t7_new_stops_the_turn_cancels_what_waits_and_begins_with_an_empty_history(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with Bed(tmp_path, ["one", [hold, "late"]], plugins=[BasicsPlugin()], config=QUEUE) as bed:
            await bed.say("first")
            await bed.platform.say("second")
            await hold.reached.wait()
            await bed.platform.say("third")
            await bed.platform.say("fourth")
            answer = await bed.say("/reset")
            assert (
                answer
                == "This is a new conversation. The running work was stopped. Cancelled: 2 that waited."
            )
            assert bed.model.cut == 1
            assert await bed.say("fresh") == "you said: fresh"
            assert bed.model.texts() == ["fresh"]
            assert "late" not in bed.platform.texts()

    run(story())


def test_t7_the_empty_history_and_the_count_of_replies_outlive_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        async with Bed(tmp_path, plugins=[BasicsPlugin()], store=store) as bed:
            await bed.say("first")
            await bed.say("/new")
        async with Bed(tmp_path, plugins=[BasicsPlugin()], store=store) as bed:
            await bed.say("fresh")
            assert bed.model.texts() == ["fresh"]
            assert bed.platform.sent[-1].number == 2

    run(story())
