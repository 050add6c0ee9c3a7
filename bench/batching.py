"""Batching: what gathering saves, simulated on the real router in virtual time (T4, J8).

Triggers come by a Poisson process, 1 to 40 a minute; a model call takes 6.1 s and 0.3 s for each event
that it carries. Batched, each trigger is the end of a job: it waits while a call runs, and the next
call carries all that wait. Unbatched, each trigger has a turn of its own (`followup`). Latency is from
the trigger to the end of the call that carried it.

An unbatched agent is busy 6.4 s for each trigger, so above 9.4 a minute its queue grows without end:
its latency then only tells how long the simulation ran.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path

import msgspec

from hermes_core.config import ModelSettings
from hermes_core.hookspecs import hookimpl
from hermes_core.job import Job, JobState, event, job_id
from hermes_core.messages import Author, Said, Step, When
from hermes_core.models import Delta, ModelFactory, Request, Stop, Text
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import ScriptedModel
from hermes_core.testing.virtual import run

RATES = (1, 2, 5, 8, 9, 10, 15, 20, 30, 40)  # triggers a minute
MINUTES = 120
CALL = 6.1  # seconds of one model call
EVENT = 0.3  # seconds more for each event in it


class SlowModel(ScriptedModel):
    """Takes its time, and keeps what each call carried: when it ended, and the numbers of its triggers."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[float, list[int]]] = []
        self.busy = 0.0

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """One decision about everything that came since the last one."""
        fresh: list[int] = []
        for item in reversed(request.items):
            if isinstance(item, Step):
                break
            assert isinstance(item, Said)
            fresh.extend(int(word[1:]) for word in item.text.split() if word.startswith("#"))
        seconds = CALL + EVENT * len(fresh)
        await asyncio.sleep(seconds)
        self.busy += seconds
        self.calls.append((asyncio.get_running_loop().time(), fresh))
        yield Text("ok")
        yield Stop("end")

    def _open_slow(self, settings: ModelSettings) -> SlowModel:
        return self

    @hookimpl
    def hermes_models(self) -> Iterable[ModelFactory]:
        """Offers itself."""
        return [ModelFactory("scripted", self._open_slow)]


class Outcome(msgspec.Struct, frozen=True):
    """What one simulation measured."""

    triggers: int
    calls: int
    busy: float
    latencies: list[float]
    seconds: float

    @property
    def batch(self) -> float:
        """Triggers that one call carried, on average."""
        return self.triggers / self.calls

    def row(self, rate: int) -> str:
        """One line of the table."""
        ordered = sorted(self.latencies)
        p95 = ordered[int(0.95 * (len(ordered) - 1))]
        load = self.busy / self.seconds
        return (
            f"{rate:>5} {self.batch:>8.2f} {self.busy / self.triggers:>12.2f} {statistics.mean(ordered):>10.1f}"
            f" {p95:>8.1f} {load:>8.0%}"
        )


def finished(bed: Bed, number: int) -> Job:
    """A job that has ended, as the runner hands its event to the router."""
    address, key = bed.platform.address(), str(number)
    return Job(
        job_id(address, key), address, Author("ann"), "watch", "{}", key, "", 0.0, 0.0,
        state=JobState.DONE, summary=f"trigger #{number}",
    )  # fmt: skip


async def simulate(rate: int, batched: bool, minutes: int, seed: int) -> Outcome:
    """Triggers for so many minutes, then the rest of the work."""
    chance = random.Random(seed)
    model = SlowModel()
    arrived: list[float] = []
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryDirectory() as folder:
        config = {"model": {"context_chars": 20_000}}
        async with Bed(Path(folder), model=model, store=MemoryStore(), config=config) as bed:
            begin = loop.time()
            while loop.time() - begin < 60 * minutes:
                await asyncio.sleep(chance.expovariate(rate / 60))
                entry = event(finished(bed, len(arrived)))
                if not batched:
                    entry = msgspec.structs.replace(entry, when=When.FOLLOWUP)
                arrived.append(loop.time())
                admission = await bed.store.admit(entry)
                bed.runtime.router.deliver(admission.entry)
            await bed.platform.settled()
            seconds = loop.time() - begin
    latencies = [end - arrived[number] for end, numbers in model.calls for number in numbers]
    assert len(latencies) == len(arrived), "each trigger was carried once"
    return Outcome(len(arrived), len(model.calls), model.busy, latencies, seconds)


def main() -> None:
    """Print the table."""
    head = f"{'/min':>5} {'batch':>8} {'s per event':>12} {'latency s':>10} {'p95 s':>8} {'load':>8}"
    for batched, name in ((True, "batched: jobs' events"), (False, "unbatched: one turn each")):
        print(f"\n{name}\n{head}")
        for rate in RATES:
            print(run(simulate(rate, batched, MINUTES, seed=rate)).row(rate))
    most = run(simulate(40, True, MINUTES, seed=40))
    assert most.busy / most.triggers <= 1.6, "busy at most 1.6 s for each event at 40 a minute"
    assert max(most.latencies) < 120, "stable at 40 a minute"
    print(
        "\npublished for such an agent: batch 1.0 to 2.8, from 6.4 s to 1.6 s for each decision;"
        f" here at 40 a minute: batch {most.batch:.1f}, {most.busy / most.triggers:.2f} s"
    )


if __name__ == "__main__":
    main()
