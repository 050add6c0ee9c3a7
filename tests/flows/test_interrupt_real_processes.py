"""I3 and I8 over real processes: an interrupt leaves nothing of a command alive, whatever the command does.

What lives is looked up in /proc by its working folder; no signal and no answer is trusted.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from hermes_core.hookspecs import Interruption, hookimpl
from hermes_core.processes import tree
from hermes_core.testing.bed import Bed
from hermes_core.testing.model_server import Answer, Asked, ModelServer, asks, says
from hermes_core.tools import Tool, tool

from .real import accepted, answers, check_openai, house, living, said, until

pytestmark = pytest.mark.skipif(not tree.VISIBLE, reason="needs /proc")

DETACH = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if sys.argv[1] == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open("up", "w").close()
        time.sleep(60)
    os._exit(0)
time.sleep(60)
"""

COMMANDS = {
    "plain": ": > up; sleep 60",
    "ignores SIGTERM": "trap '' TERM; : > up; sleep 60; sleep 60",
    "double fork and setsid": f"{sys.executable} -I -S ../detach.py listening",
    "double fork and setsid, ignores SIGTERM": f"{sys.executable} -I -S ../detach.py deaf",
    "background children": "sleep 60 & (sleep 60 & sleep 60) & setsid sleep 60 & : > up; wait",
    "children of a leader that is gone": "(trap '' TERM; sleep 60) & setsid sleep 60 & : > up",
    "100 children": "for i in $(seq 100); do sleep 60 & done; : > up; wait",
    "starts others when it is told to end": "trap 'sleep 60 & setsid sleep 60 & wait' TERM; : > up; sleep 60 & wait",
    "writes without end": "trap '' TERM; : > up; yes; yes",
}
DEAF = {name for name in COMMANDS if "ignores" in name or name.startswith(("children", "starts", "writes"))}


class Watcher:
    """Keeps what `hermes_interrupted` is told."""

    def __init__(self) -> None:
        self.reports: list[Interruption] = []

    @hookimpl
    def hermes_interrupted(self, interruption: Interruption) -> None:
        self.reports.append(interruption)


def command(text: str, timeout: float = 60.0) -> tuple[str, str]:
    """A call of run_command."""
    return "run_command", json.dumps({"command": text, "timeout": timeout})


async def running(server: ModelServer, bed: Bed, folder: Path, *commands: str) -> Asked:
    """Let the agent run these, and wait until the last has come to its point."""
    server.script(asks(*map(command, commands)))
    await bed.platform.say("work")
    asked = await server.asked()
    await until((folder / "work" / "up").exists)
    return asked


@pytest.mark.parametrize("kind", COMMANDS)
async def test_case_13_nothing_of_a_command_survives_an_interrupt(tmp_path: Path, kind: str) -> None:
    """(I3, I8) Case 13: a child that made its own session or ignores SIGTERM survived."""
    (tmp_path / "detach.py").write_text(DETACH)
    watcher = Watcher()
    async with ModelServer() as server, house(tmp_path, server.base_url, watcher) as bed:
        await running(server, bed, tmp_path, COMMANDS[kind])
        assert living(tmp_path / "work"), "it runs"
        _, at = await accepted(bed, "something else")
        following = await server.asked(2)
        assert living(tmp_path / "work") == [], "before the next turn asks its model, all of it is gone"
        assert following.at - at < (0.3 if kind in DEAF else 0) + 0.5, "I8: kill_after is 0.3 s here"
        assert said(following) == ["work", "something else"]
        assert await answers(bed, 1) == ["All well."]
        await until(lambda: watcher.reports)
        (report,) = watcher.reports
        assert (report.killed, report.unreachable, report.abandoned) == (("run_command",), (), ())
        check_openai(server)


async def test_i8_the_default_patience_with_a_command_that_ignores_sigterm_is_a_second(
    tmp_path: Path,
) -> None:
    """(I3, I8) The next turn starts within 1.2 s in the worst case; the bound here leaves room for a busy machine."""
    tables = {"interrupt": {"kill_after": 1.0}}
    async with ModelServer() as server, house(tmp_path, server.base_url, tables=tables) as bed:
        await running(server, bed, tmp_path, COMMANDS["ignores SIGTERM"])
        _, at = await accepted(bed, "something else")
        following = await server.asked(2)
        assert living(tmp_path / "work") == []
        assert 1.0 <= following.at - at < 1.7


async def test_case_12_several_commands_at_once_are_all_ended_side_by_side(tmp_path: Path) -> None:
    """(I3) Their times do not add up, and `/stop` is answered before any of them has ended."""
    watcher = Watcher()
    commands = ["trap '' TERM; sleep 60; sleep 60"] * 4 + [
        "trap '' TERM; sleep 0.2; : > up; sleep 60; sleep 60"
    ]
    async with ModelServer() as server, house(tmp_path, server.base_url, watcher) as bed:
        await running(server, bed, tmp_path, *commands)
        _, at = await accepted(bed, "/stop")
        await until(lambda: bed.platform.sent)
        assert asyncio.get_running_loop().time() - at < 0.25
        assert bed.platform.texts() == ["Stopped."]
        await bed.platform.settled()
        assert asyncio.get_running_loop().time() - at < 1.0
        assert living(tmp_path / "work") == []
        await until(lambda: watcher.reports)
        assert watcher.reports[0].killed == ("run_command",) * 5
        assert len(server.requests) == 1, "I10: nothing starts"


async def test_i4_calls_that_had_not_started_never_do(tmp_path: Path) -> None:
    """(I1, I4) Eight run at a time; the ninth and tenth wait for a place, and never get it."""
    watcher = Watcher()
    commands = [*["sleep 60"] * 7, ": > up; sleep 60", ": > ninth", ": > tenth"]
    async with ModelServer() as server, house(tmp_path, server.base_url, watcher) as bed:
        await running(server, bed, tmp_path, *commands)
        await bed.platform.say("something else")
        assert await answers(bed, 1) == ["All well."]
        assert not (tmp_path / "work" / "ninth").exists()
        assert not (tmp_path / "work" / "tenth").exists()
        await until(lambda: watcher.reports)
        assert len(watcher.reports[0].killed) == 8
        assert watcher.reports[0].skipped == ("run_command",) * 2


async def test_case_14_what_a_killed_command_wrote_or_would_have_written_is_seen_by_nobody(
    tmp_path: Path,
) -> None:
    """(I3) Case 14: the command finished later, and its output appeared in the resumed conversation.

    The command ignores SIGTERM and would write on after it; that nothing of it is alive shows that it does not.
    """
    async with ModelServer() as server, house(tmp_path, server.base_url) as bed:
        await running(
            server,
            bed,
            tmp_path,
            "trap 'echo GHOST; : > ghost' TERM; echo GHOST; : > up; sleep 60; echo GHOST; sleep 60",
        )
        await bed.platform.say("something else")
        await server.asked(2)
        assert living(tmp_path / "work") == []
        server.script(says("third"))
        assert await answers(bed, 1) == ["All well."]
        await bed.platform.say("and now?")
        assert await answers(bed, 2) == ["All well.", "third"]
        for asked in server.requests:
            assert "GHOST" not in str(asked.body["messages"])
        assert "GHOST" not in str(bed.platform.shown)
        check_openai(server)


async def test_case_14_a_thread_that_cannot_be_stopped_holds_nothing_up_and_its_late_result_is_discarded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """(I3) It is abandoned and named."""
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    watcher = Watcher()

    class Stubborn:
        @hookimpl
        def hermes_tools(self) -> Iterable[Tool]:
            @tool
            def stubborn() -> str:
                """Wait in a thread."""
                begun.set()
                go_on.wait(30)
                ended.set()
                return "GHOST"

            return [stubborn]

    async with ModelServer() as server, house(tmp_path, server.base_url, Stubborn(), watcher) as bed:
        try:
            server.script(asks(("stubborn", "{}")))
            await bed.platform.say("work")
            await until(begun.is_set)
            _, at = await accepted(bed, "something else")
            following = await server.asked(2)
            assert following.at - at < 0.5, "I8"
            await answers(bed, 1)
            await until(lambda: watcher.reports)
            assert watcher.reports[0].abandoned == ("stubborn",)
            assert "stubborn" in caplog.text
        finally:
            go_on.set()
        await until(ended.is_set)
        await bed.platform.say("and now?")
        await answers(bed, 2)
        assert "GHOST" not in str([asked.body["messages"] for asked in server.requests])


async def test_i9_the_next_turn_runs_commands_as_if_nothing_had_been(tmp_path: Path) -> None:
    """(I1, I9, case 16) The stop belongs to the old turn; the new one is not touched by it."""
    async with ModelServer() as server, house(tmp_path, server.base_url) as bed:
        await running(server, bed, tmp_path, ": > up; sleep 60")
        server.script(asks(command("echo it works")))
        await bed.platform.say("something else")
        assert await answers(bed, 1) == ["All well."]
        last = server.requests[-1].body["messages"][-1]
        assert (last["role"], last["content"]) == ("tool", "it works")


async def test_d4_processes_of_a_turn_end_with_the_program_and_the_turn_goes_on_at_the_next_start(
    tmp_path: Path,
) -> None:
    """(D4, E5) A stop of the program is no interrupt: the turn is taken up again."""
    async with ModelServer() as server:
        async with house(tmp_path, server.base_url) as bed:
            await running(server, bed, tmp_path, ": > up; sleep 60")
        assert living(tmp_path / "work") == []
        async with house(tmp_path, server.base_url) as bed:
            assert await answers(bed, 1) == ["All well."]
            last = server.requests[-1].body["messages"][-1]
            assert "restart" in last["content"]
            check_openai(server)


async def test_i3_a_command_that_starts_at_the_very_instant_of_the_interrupt_is_ended_as_well(
    tmp_path: Path,
) -> None:
    """(I1, I3) The interrupt comes after any number of turns of the event loop since the calls came in."""
    async with ModelServer() as server, house(tmp_path, server.base_url) as bed:
        for number, loops in enumerate([0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144]):
            server.script(asks(command("sleep 60"), command("setsid sleep 60")))
            await bed.platform.say(f"work {number}")
            await server.asked(2 * number + 1)
            for _ in range(loops):
                await asyncio.sleep(0)
            server.script(Answer(says("stopped").parts))
            await bed.platform.say("/interrupt now")
            await server.asked(2 * number + 2)
            assert living(tmp_path / "work") == []
            await answers(bed, number + 1)
        check_openai(server)
