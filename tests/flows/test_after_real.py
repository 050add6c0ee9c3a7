"""Notes and replies in real processes, over a pipe and on a terminal, after `kill -9`; and what they cost."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import sqlite3
import sys
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from hermes_after.plugin import AfterPlugin
from hermes_core.messages import Address, Author, Entry, When, encode
from hermes_core.store import rows
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.virtual import run
from hermes_followup.plugin import FollowupPlugin
from hermes_memory.plugin import MemoryPlugin, MemorySettings

from .test_run import PATIENCE, Program, ask, turn_runs, until

CONVERSATIONS, NOTES = 10_000, 50


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[list[Program]]:
    """Programs that do not outlive the test."""
    started: list[Program] = []
    yield started
    for one in started:
        assert one.process.stdin is not None
        one.process.stdin.close()
        one.process.kill()
        one.process.wait(PATIENCE)


def start(programs: list[Program], folder: Path, *arguments: str) -> Program:
    programs.append(Program(folder, "chat", *arguments))
    return programs[-1]


def kill(program: Program) -> None:
    program.process.kill()
    program.process.wait(PATIENCE)


def notes(folder: Path) -> list[list[str]]:
    """The notes that stand in each ended turn of the store."""
    turns = ask(folder, "SELECT items FROM turns WHERE end IS NOT NULL ORDER BY number")
    return [[item["text"] for item in json.loads(items) if item.get("kind") == "note"] for items in turns]


# ---- over a pipe


def test_over_a_pipe_a_note_lands_and_a_reply_has_its_quote(programs: list[Program], tmp_path: Path) -> None:
    out = start(programs, tmp_path).end(
        "count to 3",
        "/after 1 look again",
        "/after two look again",
        "count to 4",
        "/after list",
        "count to 5",
        "/reply 3 what was that?",
    )
    assert "Noted [a" in out
    assert "after reply 2 (1 from now). The latest reply is 1: “1, 2, 3. Done.”" in out
    assert "/after: N must be a whole number, not 'two'." in out
    assert "next turn: look again" in out
    assert "To reply 1: “1, 2, 3. Done.”." in out
    places = [
        out.index(text) for text in ("1, 2, 3, 4. Done.", "Your note for this point has come: “look again”")
    ]
    assert places == sorted(places)
    assert notes(tmp_path) == [[], [], ["look again"], []]
    assert ask(tmp_path, "SELECT count(*) FROM entries WHERE state = 'waiting'") == ["0"]


def test_a4_a5_notes_survive_a_kill_at_their_place_waiting_and_riding(
    programs: list[Program], tmp_path: Path
) -> None:
    """(A4, A5, D6) One rides with the turn that is killed, one waits for the reply after it."""
    first = start(programs, tmp_path)
    first.type("/after 0 rides", "/after 1 waits", "count to 1000")
    until(lambda: turn_runs(tmp_path))
    kill(first)
    assert "1, 2, 3" not in first.output()
    out = start(programs, tmp_path).end("/after list", "count to 3", "count to 4")
    assert out.count("Your note for this point has come: “rides”.") == 1
    assert out.index("998, 999, 1000") < out.index("next turn: waits") < out.index("come: “waits”.")
    assert notes(tmp_path) == [["rides"], ["waits"], []]
    assert start(programs, tmp_path).end() == ""  # all is said


def test_a4_killed_at_any_instant_around_the_command_it_is_one_note_or_none_that_was_not_taken(
    programs: list[Program], tmp_path: Path
) -> None:
    """(D1, A4) The kill comes as soon as the note stands in the store: before, while or after it is answered."""
    first = start(programs, tmp_path)
    first.type("/after 0 the note")
    until(lambda: note_count(tmp_path) == 1)
    kill(first)
    out = start(programs, tmp_path).end("count to 3", "count to 4")
    assert (first.output() + out).count("Noted [a") >= 1
    assert notes(tmp_path) == [["the note"], []]


def note_count(folder: Path) -> int:
    with contextlib.suppress(sqlite3.OperationalError):  # there is no table yet
        return int(ask(folder, "SELECT count(*) FROM entries WHERE note = 1")[0])
    return 0


# ---- on a terminal


def test_on_a_terminal_it_is_the_same(tmp_path: Path) -> None:
    words = ["-m", "hermes_core", "chat", "--set", f"runtime.data_dir={tmp_path / 'data'}"]
    terminal = pexpect.spawn(
        sys.executable,
        [*words, "--set", "plugins.demo.pace=0"],
        cwd=str(tmp_path),
        dimensions=(40, 120),
        timeout=PATIENCE,
        encoding="utf-8",
    )
    try:
        terminal.expect("Hermes, conversation main")
        for typed, seen in [
            ("count to 3", "Done"),
            ("/af 0 look again", r"Noted \[a"),
            ("count to 4", "Your note for this point has come"),
            ("/reply 2 what was that", "To reply 1: “1, 2, 3. Done"),
        ]:
            terminal.send(f"{typed}\r")
            terminal.expect(seen)
        until(lambda: len(notes(tmp_path)) == 3)
        terminal.send("\x04")
        terminal.expect(pexpect.EOF)
    finally:
        terminal.close(force=True)
    assert notes(tmp_path) == [[], ["look again"], []]


# ---- what it costs


class Counted:
    """A store that counts its calls."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.calls: collections.Counter[str] = collections.Counter()

    def __getattr__(self, name: str) -> Any:
        target = getattr(self._store, name)

        def call(*arguments: Any) -> Awaitable[Any]:
            self.calls[name] += 1
            result: Awaitable[Any] = target(*arguments)
            return result

        return call


def calls_of_a_message(folder: Path, plugins: list[object], note: bool = False) -> dict[str, int]:
    async def story() -> dict[str, int]:
        store: Any = Counted(MemoryStore())
        async with Bed(folder, plugins=plugins, store=store) as bed:
            if note:
                await bed.say("/after 9 far away")
            await bed.say("warm")
            store.calls.clear()
            await bed.say("hello")
            return dict(store.calls)

    return run(story())


def test_a3_with_no_note_waiting_a_message_makes_the_same_calls_as_without_the_plugins(
    tmp_path: Path,
) -> None:
    def all_plugins() -> list[object]:
        return [AfterPlugin(), FollowupPlugin(), MemoryPlugin(MemorySettings())]

    bare = calls_of_a_message(tmp_path, [])
    assert bare == {"admit": 1, "start_turn": 1, "finish": 1, "sent": 1}
    assert calls_of_a_message(tmp_path, all_plugins()) == bare
    assert calls_of_a_message(tmp_path, all_plugins(), note=True) == bare, "nor does one that waits"


def fill(folder: Path) -> None:
    """Notes in as many conversations, as a long life would have left them."""
    entry = Entry(
        "ID", Address("fake", "agent", "CHANNEL"), Author("ann"), "note TEXT", When.AT_REPLY, at_reply=0
    )
    body = encode(entry)
    with contextlib.closing(sqlite3.connect(folder / "hermes.db")) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
            " INSERT INTO conversations (id, address) SELECT i, 'fake:agent:' || i FROM n",
            (CONVERSATIONS,),
        )
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ? - 1)"
            " INSERT INTO entries (conversation, id, note, body)"
            " SELECT i / ? + 1, 'm' || i || '+1', 1,"
            " replace(replace(replace(?, 'ID', 'm' || i || '+1'), 'CHANNEL', i / ? + 1), 'TEXT', i % ?) FROM n",
            (CONVERSATIONS * NOTES, NOTES, body, NOTES, NOTES),
        )
        connection.commit()


async def seconds_to_start(folder: Path) -> float:
    """The best of three starts of the whole runtime, with nothing in memory of what waits."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        store = await SQLiteStore.open(folder)
        try:
            async with Bed(folder, plugins=[AfterPlugin()], store=store) as bed:
                times.append(time.perf_counter() - began)
                assert bed.runtime.router._lanes == {}
                assert await store.open_work() == []
        finally:
            await store.close()
    return min(times)


async def test_a3_fifty_notes_in_each_of_ten_thousand_conversations_are_read_with_their_conversation_only(
    tmp_path: Path,
) -> None:
    empty, full = tmp_path / "empty", tmp_path / "full"
    bare = await seconds_to_start(empty)
    await (await SQLiteStore.open(full)).close()
    fill(full)
    loaded = await seconds_to_start(full)
    assert loaded < 5 * bare + 0.1, f"{loaded * 1000:.0f} ms in place of {bare * 1000:.0f} ms"

    with contextlib.closing(sqlite3.connect(full / "hermes.db")) as connection:
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        connection.set_progress_handler(count, 100)  # called each 100 instructions of the database
        assert rows.open_work(connection) == []
        assert steps < 10, "a start looks at nothing that waits as a note"
        mine = rows.notes(connection, Address("fake", "agent", "77"))
        assert [note.text for note in mine] == [f"note {number}" for number in range(NOTES)]
        assert steps < 50, "and a conversation looks at its own only"

    store = await SQLiteStore.open(full)
    try:
        async with Bed(full, plugins=[AfterPlugin()], store=store) as bed, asyncio.timeout(PATIENCE):
            assert (await bed.say("/after list", channel="77")).count("\n") == NOTES - 1
            assert len(bed.runtime.router._lanes) == 1
            await bed.say("hello", channel="77")
            assert bed.model.texts() == [*(f"note {number}" for number in range(NOTES)), "hello"]
            assert await bed.say("/after 0 one more", channel="77") != ""
    finally:
        await store.close()
