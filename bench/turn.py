"""What a turn costs beside its model: `python bench/turn.py [--turns 200]`.

A trivial turn, from the adapter's call with a message to the reply handed to the adapter, against a bare
httpx stream of the same request to the same model server, in the same process. The server
(`python -m hermes_core.testing.model_server`) is a process of its own and answers at once. The two take
turns, so that a busy machine is unfair to both alike. Each turn is in a conversation of its own: a history
that grows would make the requests differ. Besides: a turn with the store in memory, and what three commits
cost, because a message that came, its turn and its reply are each on the disk before they count.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core.adapter import Sent
from hermes_core.messages import Outgoing, Said, SaidKind, When
from hermes_core.models import Request
from hermes_core.store import Store
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.platform import FakePlatform
from hermes_openai.plugin import OpenAIPlugin
from hermes_openai.wire import body

WARM_UP = 20


class Platform(FakePlatform):
    """Tells when the reply was handed to it."""

    def __init__(self) -> None:
        super().__init__()
        self.replied = asyncio.Event()
        self.at = 0.0

    async def send(self, outgoing: Outgoing) -> Sent:
        self.at = time.perf_counter()
        self.replied.set()
        return await super().send(outgoing)


@contextlib.asynccontextmanager
async def server() -> AsyncIterator[str]:
    """A model server that answers at once; gives its base URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hermes_core.testing.model_server", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}/v1"
    finally:
        process.terminate()
        await process.wait()


async def bare(client: httpx.AsyncClient, url: str, content: bytes) -> float:
    """Seconds of the request alone, to its last byte."""
    began = time.perf_counter()
    async with client.stream("POST", url, content=content) as response:
        async for _ in response.aiter_bytes():
            pass
    return time.perf_counter() - began


async def turn(platform: Platform, channel: str) -> float:
    """Seconds from the message to the reply."""
    platform.replied.clear()
    began = time.perf_counter()
    await platform.say("Good morning.", channel)
    await platform.replied.wait()
    took = platform.at - began
    await platform.settled(channel)
    return took


async def commits(store: Store, number: int) -> float:
    """Seconds of three writes, each committed before the next."""
    address = Platform().address(f"commits{number}")
    began = time.perf_counter()
    await store.set_busy(address, When.QUEUE)
    await store.set_busy(address, None)
    await store.set_busy(address, When.QUEUE)
    return time.perf_counter() - began


@contextlib.asynccontextmanager
async def house(folder: Path, url: str, store: Store) -> AsyncIterator[Platform]:
    """A runtime with this store."""
    platform = Platform()
    config = {"model": {"provider": "openai", "name": "m", "base_url": url}}
    plugins = [OpenAIPlugin(), BusyPlugin(), BasicsPlugin()]
    async with Bed(folder, plugins=plugins, config=config, store=store, platform=platform):
        yield platform


async def measure(turns: int, folder: Path) -> dict[str, list[float]]:
    """All figures, one of each after the other."""
    figures: dict[str, list[float]] = {"bare": [], "memory": [], "commits": [], "sqlite": []}
    content = body(Request("", (Said(SaidKind.MESSAGE, "Good morning."),)), "m")
    store = await SQLiteStore.open(folder / "sqlite")
    async with (
        server() as url,
        httpx.AsyncClient(headers={"content-type": "application/json"}) as client,
        house(folder / "1", url, store) as durable,
        house(folder / "2", url, MemoryStore()) as memory,
    ):
        for number in range(-WARM_UP, turns):
            took = {
                "bare": await bare(client, f"{url}/chat/completions", content),
                "memory": await turn(memory, f"turn{number}"),
                "commits": await commits(store, number),
                "sqlite": await turn(durable, f"turn{number}"),
            }
            if number >= 0:
                for name, seconds in took.items():
                    figures[name].append(seconds)
    await store.close()
    return figures


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument(
        "--folder", type=Path, default=Path.cwd(), help="where the store is; the disk decides much"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        figures = asyncio.run(measure(given.turns, Path(name)))
    titles = {
        "bare": "bare httpx stream",
        "memory": "a turn, store in memory",
        "commits": "three commits",
        "sqlite": "a turn, SQLite",
    }
    print(f"{given.turns} of each, milliseconds{'':8}median    p95  worst    beside the bare one (median)")
    floor = statistics.median(figures["bare"])
    for name, title in titles.items():
        some = sorted(figures[name])
        middle, late = statistics.median(some), some[int(len(some) * 0.95)]
        beside = f"{(middle - floor) * 1e3:+12.2f}" if name in ("memory", "sqlite") else ""
        target = "   target: at most +2" if name == "sqlite" else ""
        print(f"{title:32}{middle * 1e3:8.2f}{late * 1e3:7.2f}{some[-1] * 1e3:7.2f}{beside}{target}")


if __name__ == "__main__":
    main()
