"""/help, /status and /new: what they say, and what they refuse (T5, T7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from hermes_basics.plugin import BasicsPlugin
from hermes_core.commands import Command, Context, command
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Role
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold
from hermes_core.testing.virtual import run

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
        "- Waiting: 0, notes: 0",
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
            lines = bed.platform.texts()[-1].splitlines()
            assert lines[:4] == [
                "- Now: writing (turn 2)",
                "- Waiting: 1, notes: 0",
                "- Replies so far: 1, turns in the context: 1",
                "- A message during work: queue",
            ]
            hold.release()

    run(story())


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
