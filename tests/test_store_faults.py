"""What SQLiteStore survives: kill -9, full and read-only disks, locks, damage. All of them for real."""

from __future__ import annotations

import asyncio
import json
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_core.errors import StoreError, StoreUnwritable
from hermes_core.messages import Address, Author, Entry, TurnEnd, When
from hermes_core.store.sqlite import SQLiteStore

PROGRAM = Path(__file__).with_name("store_program.py")
HERE = Address("test", "bot", "talk")
FLOOD = Address("test", "bot", "flood")


def entry(id_: str, address: Address = HERE, text: str = "hello") -> Entry:
    return Entry(id_, address, Author("1"), text, When.QUEUE)


def report_of(*command: str | Path) -> dict[str, Any]:
    """What the program found, from its last line."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    store = await SQLiteStore.open(tmp_path / "data")
    yield store
    await store.close()


# ---- kill -9


async def test_whatever_was_acknowledged_survives_a_kill_at_any_instant(tmp_path: Path) -> None:
    """(D1, D3, D6) Twenty processes, each killed after another number of acknowledgements."""
    instants = random.Random(7)
    admitted: list[str] = []
    replied = 0
    for number in range(20):
        writer = subprocess.Popen(
            [sys.executable, PROGRAM, "write", tmp_path, str(number)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(instants.randrange(1, 300))]
        writer.kill()
        rest, _ = writer.communicate()
        words = [line.split() for line in lines + rest.splitlines()]
        admitted += [word[1] for word in words if word[0] == "admitted"]
        replied = max([replied, *(int(word[1]) for word in words if word[0] == "replied")])
        store = await SQLiteStore.open(tmp_path)
        await check_what_a_kill_left(store, admitted, replied)
        await store.close()
    assert len(admitted) > 500
    assert replied > 20


async def check_what_a_kill_left(store: SQLiteStore, admitted: list[str], replied: int) -> None:
    found = [one.id for one in await store.waiting(FLOOD)]
    assert len(found) == len(set(found))
    assert set(admitted) <= set(found)
    completed = [turn for turn in await store.history(HERE) if turn.end is TurnEnd.COMPLETED]
    record = await store.conversation(HERE)
    talks = [work for work in await store.open_work() if work.conversation.address == HERE]
    left = [one.number for work in talks for one in work.outbox]
    assert record.replies >= replied
    assert [turn.reply for turn in completed] == left == list(range(1, record.replies + 1))
    assert sum(len(work.entries) + len(work.turn.entries if work.turn else ()) for work in talks) <= 1


# ---- disks and files that do not take it (D7)


def check_full_disk(found: dict[str, Any]) -> None:
    assert found["kept"] > 10
    assert len(found["failures"]) == 4
    for text in found["failures"]:
        assert re.fullmatch(r"The disk (is full|does not take or give data)\. .*try again later\.", text)
    assert found["others"] in ([], ["StoreUnwritable"])
    assert found["fresh"]
    assert found["readable"] + 1 == found["ids"]
    assert found["kept"] == found["readable"]
    assert found["last"] == "after"
    assert found["cpu"] < 0.1


def test_a_file_that_may_not_grow_is_survived(tmp_path: Path) -> None:
    check_full_disk(report_of(sys.executable, PROGRAM, "fill-file", tmp_path))


def test_a_full_disk_is_survived(tmp_path: Path) -> None:
    """A file system of 4 MB in a mount namespace of the child's own, which ends with it."""
    inside = ["unshare", "--map-root-user", "--mount"]
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(tmp_path)]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*inside, *mount], capture_output=True, check=False).returncode
    ):
        pytest.skip("this system lets nobody mount a small file system; the limit on a file's size is tested")
    shell = ["sh", "-c", f'{" ".join(mount[:-1])} "$0" && exec "$@"', str(tmp_path)]
    check_full_disk(report_of(*inside, *shell, sys.executable, PROGRAM, "fill-disk", tmp_path))


@pytest.fixture
def anyones() -> Iterator[Path]:
    """A folder that another user can reach, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp())
    yield folder
    shutil.rmtree(folder)


def test_a_read_only_folder_or_file_is_said_so_and_works_again_afterwards(anyones: Path) -> None:
    found = report_of(sys.executable, PROGRAM, "read-only", anyones)
    for name in ("folder", "file"):
        assert re.fullmatch(r"The data(base)? .*(cannot|read-only|not be).*try again later\.", found[name]), (
            found
        )
        assert str(anyones) not in found[name]
    assert found["after"] == "['a']"


async def test_a_database_that_another_program_has_locked_is_said_so_and_works_again_afterwards(
    store: SQLiteStore, tmp_path: Path
) -> None:
    await store.admit(entry("before"))
    other = sqlite3.connect(tmp_path / "data" / "hermes.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    results = await asyncio.gather(*(store.admit(entry(str(n))) for n in range(5)), return_exceptions=True)
    assert {type(one) for one in results} == {StoreUnwritable}
    assert "locked" in str(results[0])
    assert len({id(one) for one in results}) == 5
    assert [one.id for one in await store.waiting(HERE)] == ["before"]
    other.execute("ROLLBACK")
    other.close()
    assert (await store.admit(entry("0"))).fresh


async def open_and_admit(folder: Path) -> None:
    store = await SQLiteStore.open(folder)
    try:
        await store.admit(entry("b"))
    finally:
        await store.close()


@pytest.mark.parametrize("offset", [0, 100], ids=["no database at all", "a database with a torn page"])
async def test_a_damaged_file_is_called_so_and_left_alone(tmp_path: Path, offset: int) -> None:
    store = await SQLiteStore.open(tmp_path)
    await store.admit(entry("a"))
    await store.close()
    file = tmp_path / "hermes.db"
    damaged = file.read_bytes()[:offset] + b"?" * (file.stat().st_size - offset)
    file.write_bytes(damaged)
    with pytest.raises(StoreError, match="damaged") as caught:
        await open_and_admit(tmp_path)
    assert not isinstance(caught.value, StoreUnwritable)
    assert str(tmp_path) not in str(caught.value)
    assert file.read_bytes() == damaged
