"""How many messages a second are taken in durably, the whole way: `python bench/admit.py [--rounds 5]`.

100 conversations, each with a turn that is busy and one message on its way at a time: from the adapter's
`Gateway.receive` to the committed entry that stands in its queue. Against the bare loop of `bench/store.py`,
which inserts and commits as many at a time into the same tables, with no thread, no event loop and no
check; and against that store alone. They take turns in one folder, so that a busy machine is unfair to all
alike; what counts is the ratio. "plugins": with those that are on by default, one of which looks at every message.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from store import Row, admitting, bare

from hermes_after.plugin import AfterPlugin
from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core.adapter import Adapter, AdapterFactory, Features, Gateway, Sent, Shown
from hermes_core.config import Config
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Address, Author, Message, Outgoing
from hermes_core.plugins import Plugins
from hermes_core.runtime import Runtime
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.model import Hold, ScriptedModel
from hermes_followup.plugin import FollowupPlugin
from hermes_steer.plugin import SteerPlugin

FLIGHT = 100


class Platform:
    """An adapter that shows nothing."""

    platform = "bench"
    features = Features(receipts=True, status=True, drafts=True)

    def __init__(self) -> None:
        self.gateway: asyncio.Future[Gateway] = asyncio.get_running_loop().create_future()
        self.shown = 0

    async def run(self, gateway: Gateway) -> None:
        self.gateway.set_result(gateway)
        await asyncio.Event().wait()

    async def send(self, outgoing: Outgoing) -> Sent:
        return Sent()

    def show(self, address: Address, shown: Shown) -> None:
        self.shown += 1

    async def find(self, key: str, address: Address) -> Sent | None:
        return None

    @hookimpl
    def hermes_adapters(self) -> Iterable[AdapterFactory]:
        def open_(options: Mapping[str, Any]) -> Adapter:
            return self

        return [AdapterFactory("bench", open_)]


async def receiving(folder: Path, seconds: float, name: str, plugins: Iterable[object]) -> Row:
    """The whole way through a runtime."""
    store = await SQLiteStore.open(folder)
    platform, model, loaded = Platform(), ScriptedModel(default=lambda request: [Hold()]), Plugins()
    for plugin in (platform, model, *plugins):
        loaded.add(type(plugin).__name__.lower(), plugin)
    tables = {
        "runtime": {"data_dir": str(folder)},
        "model": {"provider": "scripted"},
        "access": {"allow": ["*"], "per_minute": 0},
        "conversation": {"busy": "queue"},
    }
    author = Author("42", "Ada")
    addresses = [Address("bench", "me", str(number)) for number in range(FLIGHT)]
    times: list[float] = []
    async with Runtime(Config.of(tables), adapters=["bench"], store=store, plugins=loaded) as runtime:
        running = asyncio.create_task(runtime.run())
        gateway = await platform.gateway
        for address in addresses:
            await gateway.receive(Message("first", address, author, "work"))
        while len(model.requests) < FLIGHT:
            await asyncio.sleep(0.01)

        async def caller(address: Address) -> None:
            for number in itertools.count():
                began = time.perf_counter()
                if began - start > seconds:
                    return
                await gateway.receive(Message(str(number), address, author, "please look at this " * 4))
                times.append(time.perf_counter() - began)

        shown = platform.shown
        start = time.perf_counter()
        await asyncio.gather(*map(caller, addresses))
        spent = time.perf_counter() - start
        assert platform.shown >= shown + len(times), "each waits in its queue, and was told so"
        runtime.stop()
        await running
    return name, len(times) / spent, times


async def alone(folder: Path, seconds: float) -> Row:
    """The store without the house."""
    store = await SQLiteStore.open(folder)
    try:
        return await admitting(store, "SQLiteStore alone", seconds, FLIGHT)
    finally:
        await store.close()


def round_(folder: Path, seconds: float) -> list[Row]:
    """One of each."""
    plugins = (BasicsPlugin(), BusyPlugin(), SteerPlugin(), FollowupPlugin(), AfterPlugin())
    runs: list[Callable[[Path], Row]] = [
        lambda here: bare(here, seconds, FLIGHT),
        lambda here: asyncio.run(alone(here, seconds)),
        lambda here: asyncio.run(receiving(here, seconds, "the whole way", ())),
        lambda here: asyncio.run(receiving(here, seconds, "the whole way, plugins", plugins)),
    ]
    rows = []
    for number, run in enumerate(runs):
        gc.collect()
        here = folder / str(number)
        here.mkdir()
        rows.append(run(here))
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="of each row in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where the store is")
    given = parser.parse_args()
    rounds = []
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory(dir=given.folder) as name:
            rounds.append(round_(Path(name), given.seconds))
    print(f"{'':30}{'admits/s':>10} {'of bare':>8} {'p50 ms':>8} {'p99 ms':>8}   target: 30% of bare")
    for place, (label, _, _) in enumerate(rounds[0]):
        rate = statistics.median(row[place][1] for row in rounds)
        share = statistics.median(row[place][1] / row[0][1] for row in rounds)
        times = sorted(itertools.chain.from_iterable(row[place][2] for row in rounds))
        late = times[int(len(times) * 0.99)]
        print(f"{label:30}{rate:10,.0f} {share:8.0%} {statistics.median(times) * 1e3:8.2f} {late * 1e3:8.2f}")


if __name__ == "__main__":
    main()
