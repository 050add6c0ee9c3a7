"""How many messages a second the store acknowledges durably, and what of it is SQLite itself.

    python bench/store.py [--seconds 1] [--rounds 5] [--flight 100] [--folder DIR]

The rows take turns in one folder, so that a busy machine is unfair to all of them alike. `bare loop`
inserts batches of the same size into the same tables and commits each with `synchronous=FULL`, with
no thread, no event loop and no check. `SQLiteStore` admits with that many calls in flight. `one in
flight` is what a single person waits. What counts is the ratio (the median of the rounds); the
figures themselves belong to the disk. `--folder` chooses the disk (default: a temporary folder in the
present one, because /tmp may be in memory).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hermes_core.messages import Address, Author, Entry, When, encode
from hermes_core.store.schema import migrate
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.memory import MemoryStore

Row = tuple[str, float, list[float]]


def entries(name: str) -> Iterator[Entry]:
    """Messages as they come, in 100 conversations."""
    author = Author("42", "Ada")
    addresses = [Address("bench", name, str(number)) for number in range(100)]
    for number in itertools.count():
        yield Entry(
            str(number), addresses[number % 100], author, "please look at this " * 4, When.QUEUE, arrived=1.5
        )


def bare(folder: Path, seconds: float, flight: int) -> Row:
    """The floor: nothing but inserts and commits."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    migrate(connection)
    connection.executemany(
        "INSERT INTO conversations (id, address) VALUES (?, ?)", ((n, str(n)) for n in range(100))
    )
    source, done, times = entries("bare"), 0, []
    cursor = connection.cursor()
    start = time.perf_counter()
    while (began := time.perf_counter()) - start < seconds:
        cursor.execute("BEGIN IMMEDIATE")
        for entry in itertools.islice(source, flight):
            cursor.execute(
                "INSERT INTO entries (conversation, id, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                (done % 100, entry.id, encode(entry)),
            )
            done += 1
        cursor.execute("COMMIT")
        times.append(time.perf_counter() - began)
    spent = time.perf_counter() - start
    connection.close()
    return f"bare loop, batches of {flight}", done / spent, times


async def admitting(store: SQLiteStore | MemoryStore, name: str, seconds: float, flight: int) -> Row:
    """`flight` callers, each with one admit after the other."""
    source, times = entries(name), []
    start = time.perf_counter()

    async def caller() -> None:
        while (began := time.perf_counter()) - start < seconds:
            admission = await store.admit(next(source))
            assert admission.fresh
            times.append(time.perf_counter() - began)

    await asyncio.gather(*(caller() for _ in range(flight)))
    return name, len(times) / (time.perf_counter() - start), times


def memory(calls: int) -> Row:
    """The store in memory, without an event loop: what a benchmark of dispatching pays for its store."""
    store = MemoryStore()
    ready = list(itertools.islice(entries("memory"), calls))

    async def run() -> float:
        start = time.perf_counter()
        for entry in ready:
            await store.admit(entry)
        return time.perf_counter() - start

    spent = asyncio.run(run())
    return "MemoryStore, one in flight", calls / spent, [spent / calls]


async def durable(folder: Path, seconds: float, flight: int) -> list[Row]:
    store = await SQLiteStore.open(folder)
    try:
        many = await admitting(store, f"SQLiteStore, {flight} in flight", seconds, flight)
        gathered = len(many[2]) / store.commits
        one = await admitting(store, "SQLiteStore, one in flight", seconds, 1)
    finally:
        await store.close()
    print(f"  a round: {many[1]:,.0f} admits/s, {gathered:.0f} a commit")
    return [many, one]


def show(rounds: list[list[Row]]) -> None:
    print(f"SQLite {sqlite3.sqlite_version}, msgspec {msgspec.__version__}, WAL, synchronous=FULL")
    print(f"{'':32} {'admits/s':>10} {'of bare':>8} {'p50 ms':>8} {'p99 ms':>8}")
    for place, (label, _, _) in enumerate(rounds[0]):
        rate = statistics.median(row[place][1] for row in rounds)
        share = statistics.median(row[place][1] / row[0][1] for row in rounds)
        times = sorted(itertools.chain.from_iterable(row[place][2] for row in rounds))
        middle, late = statistics.median(times), times[int(len(times) * 0.99)]
        print(f"{label:32} {rate:10,.0f} {share:8.2f} {middle * 1e3:8.3f} {late * 1e3:8.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="of each row in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--flight", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=Path.cwd())
    options = parser.parse_args()
    rounds: list[list[Row]] = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix=".bench-store-", dir=options.folder) as name:
            rows = [bare(Path(name), options.seconds, options.flight)]
            rows += asyncio.run(durable(Path(name) / "store", options.seconds, options.flight))
            rounds.append([*rows, memory(50_000)])
    show(rounds)


if __name__ == "__main__":
    main()
