"""A process of its own for the tests of the store: it is killed, starved of disk, or locked out.

`python store_program.py write|hold|fill-file|fill-disk|read-only FOLDER [NAME]`; it says on stdout what
it was acknowledged, or at the end a JSON object with what it found.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from hermes_core.errors import StoreUnwritable
from hermes_core.messages import Address, Author, Entry, Outgoing, Said, SaidKind, Step, TurnEnd, When
from hermes_core.store import Admission, Ending
from hermes_core.store.sqlite import SQLiteStore

TALK = Address("test", "bot", "talk")
FLOOD = Address("test", "bot", "flood")
NOBODY = 65534


def entry(id_: str, address: Address, text: str = "hello") -> Entry:
    return Entry(id_, address, Author("1"), text, When.QUEUE)


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")  # one call, so that a kill never leaves half a line behind


async def flood(store: SQLiteStore, name: str) -> None:
    for number in itertools.count():
        await store.admit(entry(f"{name}-{number}", FLOOD))
        say(f"admitted {name}-{number}")


async def talk(store: SQLiteStore, name: str) -> None:
    """Turn after turn, each with a reply, going on from what an earlier process left."""
    for work in await store.open_work():
        if work.turn is not None:
            turn, used = work.turn.record.number, tuple(one.id for one in work.turn.entries)
            await store.finish(Ending(TALK, turn, TurnEnd.INTERRUPTED, work.turn.record.items, used))
    record = await store.conversation(TALK)
    for turn, reply in zip(
        itertools.count(record.turns + 1), itertools.count(record.replies + 1), strict=False
    ):
        asked = Said(SaidKind.MESSAGE, f"question {turn}")
        store.admit(entry(f"{name}:{turn}", TALK))
        await store.start_turn(TALK, turn, [asked], [f"{name}:{turn}"])
        store.append(TALK, turn, [Step("thinking")])
        answer = Outgoing(f"reply {reply}", TALK, f"answer {turn}", number=reply)
        items = (asked, Step(f"answer {turn}"))
        await store.finish(Ending(TALK, turn, TurnEnd.COMPLETED, items, (f"{name}:{turn}",), reply, answer))
        say(f"replied {reply}")


async def write(folder: Path, name: str) -> None:
    store = await SQLiteStore.open(folder)
    await asyncio.gather(talk(store, name), *(flood(store, f"{name}.{number}") for number in range(10)))


async def hold(folder: Path) -> None:
    store = await SQLiteStore.open(folder)
    say("open")
    await asyncio.to_thread(sys.stdin.read)
    await store.close()


async def fill(folder: Path, begin: Callable[[], None], relieve: Callable[[], None]) -> None:
    """Write until there is no room, read, make room, write again, start again."""
    store = await SQLiteStore.open(folder / "data")
    begin()
    kept, failures = 0, list[str]()
    for number in range(2000):
        try:
            await store.admit(entry(str(number), FLOOD, "x" * 20_000))
            kept += 1
        except StoreUnwritable as error:
            failures.append(str(error))
            if len(failures) == 3:
                break
    # One write of 30 MB fails within its transaction, not at its end; the small ones share its fate or are kept.
    calls = [store.admit(entry(f"small {number}", FLOOD)) for number in range(5)]
    giant = store.admit(entry("giant", FLOOD, "x" * 30_000_000))
    calls += [store.admit(entry(f"small {number}", FLOOD)) for number in range(5, 10)]
    small = await asyncio.gather(*calls, return_exceptions=True)
    kept += sum(isinstance(one, Admission) for one in small)
    others = sorted({type(one).__name__ for one in small if not isinstance(one, Admission)})
    try:
        await giant
    except StoreUnwritable as error:
        failures.append(str(error))
    readable = len(await store.waiting(FLOOD))
    before = os.times()
    await asyncio.sleep(0.2)
    after = os.times()
    cpu = after.user + after.system - before.user - before.system
    relieve()
    fresh = (await store.admit(entry("after", FLOOD))).fresh
    await store.close()
    store = await SQLiteStore.open(folder / "data")
    ids = [one.id for one in await store.waiting(FLOOD)]
    await store.close()
    report = {"kept": kept, "failures": failures, "others": others, "readable": readable, "fresh": fresh}
    say(json.dumps({**report, "ids": len(ids), "last": ids[-1], "cpu": cpu}))


def fill_file(folder: Path) -> None:
    """No file may grow beyond 2 MB: any user can set this on any system."""
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, unlimited[1]))

    asyncio.run(fill(folder, limit, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)))


def fill_disk(folder: Path) -> None:
    """FOLDER is a small file system of its own; a third of it is put aside to make room later."""
    ballast = folder / "ballast"
    ballast.write_bytes(b"x" * 1_300_000)
    asyncio.run(fill(folder, lambda: None, ballast.unlink))


async def read_only(folder: Path) -> None:
    """Root may write everywhere, so be somebody else."""
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    data = folder / "data"
    store = await SQLiteStore.open(data)
    await store.admit(entry("a", TALK))
    await store.close()
    found = {}
    for name, path, mode in (("folder", data, 0o500), ("file", data / "hermes.db", 0o400)):
        usual = path.stat().st_mode
        path.chmod(mode)
        try:
            store = await SQLiteStore.open(data)
            found[name] = "opened"
            await store.close()
        except StoreUnwritable as error:
            found[name] = str(error)
        path.chmod(usual)
    store = await SQLiteStore.open(data)
    found["after"] = str([one.id for one in await store.waiting(TALK)])
    await store.close()
    say(json.dumps(found))


if __name__ == "__main__":
    match sys.argv[1], Path(sys.argv[2]):
        case "write", folder:
            asyncio.run(write(folder, sys.argv[3]))
        case "hold", folder:
            asyncio.run(hold(folder))
        case "fill-file", folder:
            fill_file(folder)
        case "fill-disk", folder:
            fill_disk(folder)
        case "read-only", folder:
            asyncio.run(read_only(folder))
