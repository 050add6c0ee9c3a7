"""What only SQLiteStore promises: the folder, shared commits, versions, indexes."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_core.errors import StoreError, StoreInUse, StoreUnwritable
from hermes_core.messages import (
    Address,
    Author,
    Entry,
    EntryState,
    Outgoing,
    Step,
    TurnEnd,
    When,
)
from hermes_core.store import Ending, rows
from hermes_core.store.schema import MIGRATIONS, migrate, version
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.store.writes import Writes

PROGRAM = Path(__file__).with_name("store_program.py")
VERSION_1 = Path(__file__).with_name("store_version_1.sql")
HERE = Address("test", "bot", "talk")
FLOOD = Address("test", "bot", "flood")


def entry(id_: str, address: Address = HERE, text: str = "hello") -> Entry:
    return Entry(id_, address, Author("1"), text, When.QUEUE)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    store = await SQLiteStore.open(tmp_path / "data")
    yield store
    await store.close()


# ---- the folder


async def test_data_is_for_its_owner_only(store: SQLiteStore, tmp_path: Path) -> None:
    """(X2)"""
    await store.admit(entry("a"))
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "data").iterdir()}
    assert {"hermes.db", "hermes.db-wal", "lock"} <= modes.keys()
    assert set(modes.values()) == {0o600}


async def test_a_second_process_is_told_which_one_has_the_folder(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, PROGRAM, "hold", tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(StoreInUse, match=rf"process {holder.pid}\b.*Stop that process"):
            await SQLiteStore.open(tmp_path)
        holder.kill()
        holder.wait()
        await (await SQLiteStore.open(tmp_path)).close()
    finally:
        holder.kill()
        holder.communicate()


DYING = """
import os, signal, sys, time
from pathlib import Path
from hermes_core.store.lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
if os.fork() == 0:  # as between the fork and the exec of a program that is being started
    time.sleep(float(sys.argv[2]))
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


async def test_a_start_right_behind_a_kill_waits_for_what_the_dead_one_was_just_starting(
    tmp_path: Path,
) -> None:
    """(D6) A child has the descriptors of its parent until it is another program."""
    done = subprocess.run([sys.executable, "-c", DYING, tmp_path, "0.5"], check=False)
    assert done.returncode == -9
    await (await SQLiteStore.open(tmp_path)).close()


async def test_the_same_process_cannot_open_a_folder_twice_but_again_once_it_is_closed(
    tmp_path: Path,
) -> None:
    first = await SQLiteStore.open(tmp_path)
    with pytest.raises(StoreInUse, match=str(os.getpid())):
        await SQLiteStore.open(tmp_path)
    await asyncio.gather(first.close(), first.close())
    second = await SQLiteStore.open(tmp_path)
    await second.close()


async def test_a_cancelled_opening_lets_the_folder_go(tmp_path: Path) -> None:
    opening = asyncio.create_task(SQLiteStore.open(tmp_path))
    await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait({opening})
    assert opening.cancelled()
    async with asyncio.timeout(10):
        while True:  # its thread needs a moment
            try:
                await (await SQLiteStore.open(tmp_path)).close()
                break
            except StoreInUse:
                await asyncio.sleep(0.01)


async def test_nothing_is_taken_after_the_end(tmp_path: Path) -> None:
    store = await SQLiteStore.open(tmp_path)
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        store.admit(entry("a"))


# ---- commits


async def test_what_waits_together_is_committed_together(store: SQLiteStore) -> None:
    before = store.commits
    admissions = await asyncio.gather(*(store.admit(entry(str(number))) for number in range(100)))
    assert [one.fresh for one in admissions] == [True] * 100
    assert 1 <= store.commits - before <= 20


async def test_a_lone_write_is_committed_at_once(store: SQLiteStore) -> None:
    before = store.commits
    for number in range(5):
        await store.admit(entry(str(number)))
    assert store.commits - before == 5


async def test_reading_commits_nothing(store: SQLiteStore) -> None:
    before = store.commits
    await store.history(HERE)
    await store.open_work()
    assert store.commits == before


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """The lines of the store's log. They are not handed on: a record that is kept keeps the futures alive."""
    lines: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        lines.append(record.getMessage())
        return False

    logger = logging.getLogger("hermes_core.store.threads")
    logger.addFilter(keep)
    yield lines
    logger.removeFilter(keep)


async def test_data_that_cannot_be_stored_fails_alone_and_is_logged_once_though_nobody_awaits_it(
    store: SQLiteStore, logged: list[str]
) -> None:
    """(D7) A lone surrogate is no text; SQLite has no number of 70 bits."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    store.admit(entry("bad", text="\ud800"))
    store.start_turn(FLOOD, 2**70, [], [])
    good = store.admit(entry("good"))
    assert (await good).fresh
    assert [one.id for one in await store.waiting(HERE)] == ["good"]
    assert [str(one.address) for one in await store.conversations()] == [str(HERE)]
    gc.collect()
    assert complaints == []
    refused = [re.match(r"(\d+) of \d+ writes were refused", line) for line in logged]
    assert sum(int(match[1]) for match in refused if match) == 2
    assert len(logged) <= 2
    with pytest.raises(StoreError, match="not text"):
        await store.admit(entry("bad", text="\ud800"))


async def test_a_read_that_fails_leaves_the_next_one_alone(store: SQLiteStore, logged: list[str]) -> None:
    await store.admit(entry("a"))
    with pytest.raises(StoreError):
        await store.replies(HERE, [2**70])
    assert [one.id for one in await store.waiting(HERE)] == ["a"]
    assert len(logged) == 1


async def test_a_fault_of_the_disk_in_the_middle_takes_back_what_its_transaction_had_done(
    store: SQLiteStore, logged: list[str]
) -> None:
    """(D7) SQLite mostly rolls back by itself; where it does not, the store does."""

    def cut(writes: Writes) -> None:
        writes.admit(entry("cut"))
        fault = sqlite3.OperationalError("disk I/O error")
        fault.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
        raise fault

    with pytest.raises(StoreUnwritable):
        await store._write(cut)
    assert await store.conversations() == []
    assert [(await store.admit(entry(id_))).fresh for id_ in ("cut", "after", "cut")] == [True, True, False]
    assert [one.id for one in await store.waiting(HERE)] == ["cut", "after"]
    assert len(logged) == 1


async def test_writes_are_acknowledged_while_a_long_read_goes_on(store: SQLiteStore) -> None:
    """The read is held up by a gate instead of by the length of a history."""
    begun, gate = threading.Event(), threading.Event()

    def slowly(connection: sqlite3.Connection) -> int:
        begun.set()
        assert gate.wait(30)
        return len(rows.waiting(connection, HERE))

    await store.admit(entry("a"))
    reading = store._read(slowly)
    assert await asyncio.to_thread(begun.wait, 30)
    assert (await store.admit(entry("b"))).fresh
    assert not reading.done()
    gate.set()
    assert await reading >= 1


# ---- versions


def tables(connection: sqlite3.Connection) -> list[str]:
    return [
        row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL ORDER BY name")
    ]


@pytest.fixture
def plain() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    yield connection
    connection.close()


async def test_data_of_version_1_is_taken_over(tmp_path: Path) -> None:
    """The fixture was written by version 1 and is never written anew."""
    with sqlite3.connect(tmp_path / "hermes.db") as old:
        old.executescript(VERSION_1.read_text("utf-8"))
    old.close()
    store = await SQLiteStore.open(tmp_path)
    (work,) = await store.open_work()
    assert [one.id for one in work.entries] == ["waits"]
    assert work.turn is not None
    assert (work.turn.record.number, [one.id for one in work.turn.entries]) == (2, ["taken"])
    assert work.turn.planned == Step("let me see")
    assert [one.key for one in work.outbox] == ["r1", "k"]
    assert work.uncertain == {"k"}
    assert (work.conversation.busy, work.conversation.replies) == (When.STEER, 1)
    assert [turn.number for turn in await store.history(HERE)] == [1]
    assert await store.replies(HERE, [1]) == {1: "an answer"}
    await store.close()
    with sqlite3.connect(tmp_path / "hermes.db") as now:
        assert version(now) == len(MIGRATIONS)
    now.close()


def test_migrations_run_in_order_from_the_version_that_is_there(plain: sqlite3.Connection) -> None:
    steps = (("CREATE TABLE a (x)",), ("ALTER TABLE a ADD COLUMN y", "INSERT INTO a VALUES (1, 2)"))
    migrate(plain, steps[:1])
    migrate(plain, steps)
    migrate(plain, steps)
    assert version(plain) == 2
    assert plain.execute("SELECT * FROM a").fetchall() == [(1, 2)]


def test_a_migration_that_fails_leaves_the_version_before_it(plain: sqlite3.Connection) -> None:
    steps = (("CREATE TABLE a (x)",), ("CREATE TABLE b (x)", "CREATE TABLE a (x)"))
    with pytest.raises(sqlite3.OperationalError, match="exists"):
        migrate(plain, steps)
    assert version(plain) == 1
    assert tables(plain) == ["CREATE TABLE a (x)"]
    assert not plain.in_transaction


async def test_data_of_a_later_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    later = len(MIGRATIONS) + 1
    with sqlite3.connect(tmp_path / "hermes.db") as connection:
        connection.execute(f"PRAGMA user_version = {later}")
        connection.execute("CREATE TABLE unheard_of (x)")
    connection.close()
    for _ in range(20):  # the folder is free again each time
        with pytest.raises(
            StoreError, match=rf"later version of Hermes \(schema {later}.*Install that version"
        ):
            await SQLiteStore.open(tmp_path)
    with sqlite3.connect(tmp_path / "hermes.db") as connection:
        assert tables(connection) == ["CREATE TABLE unheard_of (x)"]
        assert version(connection) == later
    connection.close()


# ---- size


def use_everything(writes: Writes) -> None:
    out = Outgoing("k", HERE, "text")
    for id_ in ("a", "b", "c", "a"):
        writes.admit(entry(id_))
    writes.amend(entry("a"))
    writes.settle(HERE, ["b"], EntryState.HANDLED, out)
    writes.start_turn(HERE, 1, [Step("x")], ["a"])
    writes.plan(HERE, 1, Step("y"))
    writes.halt(HERE, 1)
    writes.append(HERE, 1, [Step("z")], ["c"])
    rows.open_work(writes.connection)
    writes.finish(Ending(HERE, 1, TurnEnd.COMPLETED, (Step("z"),), ("a",), 1, Outgoing("l", HERE, ""), 1))
    writes.reset(HERE)
    writes.set_busy(HERE, None)
    writes.post(out)
    writes.sending("k")
    writes.unsent("k")
    writes.sent("k", ["1"])
    writes.undeliverable("l", "gone")
    rows.record_of(writes.connection, HERE)
    rows.history(writes.connection, HERE)
    rows.replies(writes.connection, HERE, [1])
    rows.waiting(writes.connection, HERE)
    rows.notes(writes.connection, HERE)
    rows.text_of(writes.connection, HERE, "1")


def test_every_statement_finds_its_rows_through_an_index(plain: sqlite3.Connection) -> None:
    """However old the store: only the start of a run reads more, and that from partial indexes only."""
    migrate(plain)
    statements: list[str] = []
    plain.set_trace_callback(statements.append)
    use_everything(Writes(plain))
    plain.set_trace_callback(None)
    asked = {text for text in statements if text.startswith(("SELECT", "UPDATE", "DELETE", "INSERT"))}
    assert len(asked) > 30
    unfinished = re.compile(
        r"SCAN (entries|turns|outbox) USING (COVERING )?INDEX (entries_open|turns_running|outbox_unsent)"
    )
    for text in asked:
        for *_, detail in plain.execute(f"EXPLAIN QUERY PLAN {text}"):
            assert detail.startswith(("SEARCH", "SCALAR SUBQUERY", "SCAN CONSTANT ROW")) or unfinished.match(
                detail
            ), (
                text,
                detail,
            )


async def test_one_row_that_cannot_be_read_does_not_keep_the_others_from_their_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    there = Address("test", "me", "2")
    store = await SQLiteStore.open(tmp_path)
    await store.admit(entry("bad"))
    await store.admit(entry("good"))
    await store.admit(entry("other", there))
    await store.admit(entry("taken", there))
    await store.start_turn(there, 1, [Step("x")], ["taken"])
    await store.plan(there, 1, Step("y"))
    await store.close()
    with sqlite3.connect(tmp_path / "hermes.db") as database:
        database.execute("UPDATE entries SET body = '{' WHERE id = 'bad'")
        database.execute("UPDATE turns SET planned = '7'")
    database.close()
    store = await SQLiteStore.open(tmp_path)
    here, elsewhere = await store.open_work()
    assert [one.id for one in here.entries] == ["good"]
    assert [one.id for one in elsewhere.entries] == ["other"]
    assert elsewhere.turn is not None
    assert elsewhere.turn.halted, "nobody knows what it ran"
    assert "entry 1 cannot be read" in caplog.text
    await store.close()
