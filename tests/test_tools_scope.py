"""Scope: running tools of each of the three kinds, with a deadline, and ending them all (I3)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from hermes_core.errors import ToolError
from hermes_core.messages import Address, Author, Role
from hermes_core.processes import tree
from hermes_core.tools import Outcome, Program, Scope, Tool, ToolContext, tool

needs_proc = pytest.mark.skipif(not tree.VISIBLE, reason="reads /proc")


def started(before: set[int]) -> list[psutil.Process]:
    """The processes below this one that were not there before: other tests may have servers running."""
    return [one for one in psutil.Process().children(recursive=True) if one.pid not in before]


def known() -> set[int]:
    """The ids of the processes below this one."""
    return {one.pid for one in psutil.Process().children(recursive=True)}


async def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it never came true"
        await asyncio.sleep(0.002)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What a stubborn tool of a test waits for; set at the latest when the test ends, however it does."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
async def scope(tmp_path: Path) -> AsyncIterator[Scope]:
    made = Scope(tmp_path, kill_after=0.2)
    yield made
    await made.stop(0.2)
    assert list(tmp_path.glob("*.process*")) == []


def context(scope: Scope, role: Role = Role.OWNER) -> ToolContext:
    return ToolContext(Address("test", "bot", "here"), Author("1"), role, scope)


async def call(scope: Scope, called: Tool, role: Role = Role.OWNER, /, **arguments: Any) -> Outcome:
    return await scope.call(called, json.dumps(arguments), context(scope, role))


class Point(msgspec.Struct):
    """A place."""

    x: int


@tool(role=Role.ADMIN)
def paint(context: ToolContext, what: str, at: list[Point]) -> str:
    """Paint something."""
    return f"{what} {at} {context.author.id}"


# ---- calling: what is the same for all kinds


async def test_each_kind_gives_its_result(scope: Scope) -> None:
    @tool
    async def in_loop(n: int) -> dict[str, int]:
        """Do."""
        return {"n": n}

    @tool
    def in_thread(n: int) -> str:
        """Do."""
        return f"{n} {threading.current_thread() is threading.main_thread()}"

    @tool
    def in_process(n: int) -> Program:
        """Do."""
        return Program(("echo", str(n)))

    @tool
    async def in_process_later(n: int) -> Program:
        """Do."""
        await asyncio.sleep(0)
        return Program(("echo", str(n)))

    results = [await call(scope, one, n=7) for one in (in_loop, in_thread, in_process, in_process_later)]
    assert results == [Outcome('{"n":7}'), Outcome("7 False"), Outcome("7"), Outcome("7")]


async def test_the_context_is_handed_over_and_hidden_from_the_model(scope: Scope) -> None:
    outcome = await call(scope, paint, what="door", at=[{"x": 1}])
    assert outcome == Outcome("door [Point(x=1)] 1")


async def test_who_may_not_use_a_tool_is_told_so(scope: Scope) -> None:
    outcome = await call(scope, paint, Role.USER, what="door", at=[])
    assert outcome == Outcome("paint is for admins.", error=True)


async def test_arguments_that_do_not_fit_are_an_error_result(scope: Scope) -> None:
    outcome = await call(scope, paint, at=[])
    assert outcome.error
    assert "missing required field `what`" in outcome.text


class Opaque:
    pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        ("", ""),
        ("ä\ud800", "ä?"),
        (Point(1), '{"x":1}'),
        ([1, None, "ä"], '[1,null,"ä"]'),
        (Opaque(), "answer gave back something that cannot be shown: Opaque."),
    ],
    ids=["none", "empty", "surrogate", "struct", "list", "opaque"],
)
async def test_results_are_text_or_json(scope: Scope, value: object, text: str) -> None:
    @tool
    async def answer() -> Any:
        """Do."""
        return value

    assert (await call(scope, answer)).text == text


def _fail(kind: str) -> None:
    if kind == "os":
        Path("/nowhere/at/all/notes.txt").read_text(encoding="utf-8")
    if kind == "tool":
        raise ToolError("There is no such note.", "List them first.")
    if kind == "exit":
        sys.exit(3)
    if kind == "stop":
        raise StopIteration
    if kind == "cancel":
        raise asyncio.CancelledError
    raise ValueError(f"cannot read /home/someone/secret/notes.txt with {kind}\nand a second line")


FAILURES = [
    ("os", "FileNotFoundError: No such file or directory: notes.txt"),
    ("tool", "There is no such note. List them first."),
    ("stop", "RuntimeError|StopIteration"),
    ("exit", "tried to end the program|SystemExit"),
    ("cancel", "cancelled|CancelledError"),
    ("hunter2", r"ValueError: cannot read …/notes.txt with \*\*\*$"),
]


@pytest.mark.parametrize(("kind", "text"), FAILURES, ids=[kind for kind, _ in FAILURES])
@pytest.mark.parametrize("where", ["loop", "thread", "process"])
async def test_a_tool_that_fails_is_an_error_result_without_paths_and_secrets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, where: str, kind: str, text: str
) -> None:
    @tool("broken")
    async def in_loop() -> None:
        """Do."""
        _fail(kind)

    @tool("broken")
    def in_thread() -> None:
        """Do."""
        _fail(kind)

    @tool("broken")
    def in_process() -> Program:
        """Do."""
        _fail(kind)
        raise AssertionError

    scope = Scope(tmp_path, mask=lambda one: one.replace("hunter2", "***"))
    broken = {"loop": in_loop, "thread": in_thread, "process": in_process}[where]
    with caplog.at_level(logging.WARNING):
        outcome = await call(scope, broken)
    assert outcome.error
    assert re.search(text, outcome.text), outcome.text
    assert "Traceback" not in outcome.text
    if kind in ("os", "hunter2"):
        assert any(record.exc_info for record in caplog.records), "the cause is in the log"


async def test_a_long_result_is_cut_in_the_middle_and_says_by_how_much(tmp_path: Path) -> None:
    @tool
    async def write() -> str:
        """Do."""
        return "".join(map(str, range(10_000)))

    scope = Scope(tmp_path, limit=1000)
    text = (await call(scope, write)).text
    whole = "".join(map(str, range(10_000)))
    assert len(text) <= 1000
    head, _, rest = text.partition("\n[… ")
    count, _, tail = rest.partition(" characters left out …]\n")
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(head) + int(count) + len(tail) == len(whole)
    assert len(head) > 400
    assert len(tail) > 400


# ---- deadlines


async def test_an_async_tool_is_cancelled_at_its_deadline(scope: Scope) -> None:
    ended = asyncio.Event()

    @tool(deadline=0.05)
    async def wait() -> None:
        """Do."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    outcome = await call(scope, wait)
    assert outcome == Outcome("wait was stopped: it did not end within 0.05 s.", error=True)
    assert ended.is_set()
    assert scope.abandoned() == ()
    assert scope.running() == ()


async def test_an_async_tool_that_swallows_its_cancellation_is_abandoned(
    scope: Scope, release: threading.Event
) -> None:

    @tool(deadline=0.05)
    async def stubborn() -> None:
        """Do."""
        while not release.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    begun = time.monotonic()
    outcome = await call(scope, stubborn)
    assert time.monotonic() - begun < 1.5
    assert outcome.error
    assert "may still be running" in outcome.text
    assert scope.abandoned() == ("stubborn",)
    assert scope.running() == ()
    release.set()
    await until(lambda: scope.abandoned() == ())


async def test_a_thread_is_abandoned_at_its_deadline_and_its_late_result_discarded(
    scope: Scope, release: threading.Event
) -> None:

    @tool(deadline=0.05)
    def slow() -> str:
        """Do."""
        release.wait(10)
        raise ValueError("nobody hears this")

    outcome = await call(scope, slow)
    assert outcome.error
    assert "may still be running" in outcome.text
    assert scope.abandoned() == ("slow",)
    release.set()
    await until(lambda: scope.abandoned() == ())


@needs_proc
async def test_a_process_is_stopped_at_its_deadline_and_shows_what_it_wrote(scope: Scope) -> None:
    @tool(deadline=30)
    def slow(seconds: float) -> Program:
        """Do."""
        return Program(("/bin/sh", "-c", "echo $$; sleep 60; true"), deadline=seconds)

    outcome = await call(scope, slow, seconds=0.3)
    pid, _, end = outcome.text.partition("\n")
    assert end == "[stopped: it did not end within 0.3 s]"
    assert outcome.error
    assert not psutil.pid_exists(int(pid))


@pytest.mark.parametrize(
    ("script", "text", "error"),
    [
        ("true", "(no output)", False),
        ("echo a; echo b >&2", "a\nb", False),
        ("echo no; exit 3", "no\n[exit code 3]", True),
        ("exit 1", "[exit code 1]", True),
        ("kill -TERM $$", "[ended by SIGTERM]", True),
        ("seq 1 5000", "bytes left out", False),
    ],
)
async def test_how_a_process_ended_is_said_where_it_was_not_well(
    scope: Scope, script: str, text: str, error: bool
) -> None:
    @tool
    def shell(command: str) -> Program:
        """Do."""
        return Program(("/bin/sh", "-c", command), output_limit=1000)

    outcome = await call(scope, shell, command=script)
    assert text in outcome.text
    assert outcome.error == error


async def test_a_command_that_is_not_there_is_an_error_result(scope: Scope) -> None:
    @tool
    def missing() -> Program:
        """Do."""
        return Program(("hermes-no-such-command",))

    assert await call(scope, missing) == Outcome(
        "The command cannot be started: No such file or directory.", error=True
    )


async def test_a_tool_may_run_programs_of_its_own(scope: Scope) -> None:
    @tool
    async def compare(context: ToolContext) -> str:
        """Do."""
        one, two = await asyncio.gather(
            context.scope.run(Program(("echo", "1"))), context.scope.run(Program(("echo", "2")))
        )
        return one.output + two.output

    assert await call(scope, compare) == Outcome("1\n2\n")


@needs_proc
async def test_programs_of_a_tool_end_with_its_deadline(scope: Scope) -> None:
    pids: list[int] = []
    before = known()

    @tool(deadline=0.3)
    async def outer(context: ToolContext) -> str:
        """Do."""
        running = asyncio.ensure_future(context.scope.run(Program(("sleep", "60"), deadline=50)))
        await until(lambda: context.scope.running() == ("sleep", "outer"))
        pids.extend(child.pid for child in started(before))
        return (await running).output

    outcome = await call(scope, outer)
    assert outcome.error
    assert pids
    await until(lambda: not any(psutil.pid_exists(pid) for pid in pids))


async def test_a_program_of_a_tool_may_have_a_deadline_of_its_own(scope: Scope) -> None:
    @tool
    async def outer(context: ToolContext) -> str:
        """Do."""
        return (await context.scope.run(Program(("sleep", "60"), deadline=0.1))).output

    assert await call(scope, outer) == Outcome("sleep was stopped: it did not end within 0.1 s.", error=True)


# ---- interrupts


@tool
def forever() -> Program:
    """Do."""
    return Program(("/bin/sh", "-c", "trap '' TERM; echo up; sleep 60; sleep 60"))


@needs_proc
async def test_an_interrupt_ends_everything_and_says_what(scope: Scope, release: threading.Event) -> None:
    cleaned = asyncio.Event()
    before = known()

    @tool
    async def gentle() -> None:
        """Do."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            cleaned.set()
            raise

    @tool
    async def stubborn() -> None:
        """Do."""
        while not release.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    @tool
    def threaded() -> None:
        """Do."""
        release.wait(10)

    calls = [asyncio.create_task(call(scope, one)) for one in (forever, gentle, stubborn, threaded)]
    await until(lambda: len(scope.running()) == 4)
    (process,) = scope._processes
    await until(lambda: "up" in process.output_so_far())
    await until(lambda: len(started(before)) >= 3)
    children = started(before)

    scope.terminate()
    for one in calls:
        one.cancel()
    begun = time.monotonic()
    ended = await scope.stop(0.2)
    assert time.monotonic() - begun < 1.5
    assert ended.killed == ("forever", "gentle")
    assert sorted(ended.abandoned) == ["stubborn", "threaded"]
    assert ended.unreachable == ()
    assert cleaned.is_set(), "clean-up of a tool is not cut short by a second cancellation at once"
    await asyncio.wait(calls)
    assert all(one.cancelled() for one in calls)
    assert not any(child.is_running() for child in children)
    release.set()
    await until(lambda: scope.abandoned() == ())


@needs_proc
async def test_a_cancelled_call_leaves_the_killing_to_its_owner(scope: Scope) -> None:
    calling = asyncio.create_task(call(scope, forever))
    await until(lambda: scope.running() == ("forever",))
    (process,) = scope._processes
    await until(lambda: process.pid is not None)
    calling.cancel()
    begun = time.monotonic()
    await asyncio.wait({calling})
    assert time.monotonic() - begun < 0.15
    assert calling.cancelled()
    assert scope.running() == ("forever",)
    assert (await scope.stop(0.1)).killed == ("forever",)


async def test_after_terminate_nothing_starts(scope: Scope) -> None:
    started = asyncio.Event()

    @tool
    async def quick() -> None:
        """Do."""
        started.set()

    @tool
    async def late(context: ToolContext) -> Program:
        """Do."""
        context.scope.terminate()
        return Program(("true",))

    outcome = await call(scope, late)
    assert outcome.error
    assert await call(scope, quick) == Outcome("Not started: the turn was interrupted.", error=True)
    assert not started.is_set()


async def test_a_stop_with_nothing_to_stop_is_done_at_once(scope: Scope) -> None:
    begun = time.monotonic()
    ended = await scope.stop(5.0)
    assert time.monotonic() - begun < 0.1
    assert (ended.killed, ended.abandoned, ended.unreachable) == ((), (), ())


def test_an_abandoned_thread_does_not_hold_the_exit_of_the_program(tmp_path: Path) -> None:
    script = """
import asyncio, sys, time
from pathlib import Path
from hermes_core.messages import Address, Author, Role
from hermes_core.tools import Scope, ToolContext, tool

@tool(deadline=0.05)
def slow() -> None:
    "Do."
    time.sleep(60)

async def main():
    scope = Scope(Path(sys.argv[1]))
    print((await scope.call(slow, "", ToolContext(Address("a", "b", "c"), Author("1"), Role.USER, scope))).error)

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=20,
        cwd=Path(__file__).parents[1],
        env=os.environ,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)
