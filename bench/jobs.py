"""Jobs: what a start costs, how many tiny ones fit into a second, and what running ones cost (J1 to J12).

Everything on the real store with `synchronous=FULL`, in a whole runtime. Each target stands beside its
figure; on a machine that is busy with other things the figures say little.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from hermes_core.hookspecs import hookimpl
from hermes_core.job import Job, JobEnd, JobRequest, JobState, job_id
from hermes_core.messages import Address, Author
from hermes_core.models import Request
from hermes_core.store import jobs as job_rows
from hermes_core.store.peek import peek
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.bed import Bed
from hermes_core.tools import AsyncTool, Program, async_tool

NOWHERE = Address("none", "bench", "1")  # no adapter serves it: events are stored and not delivered
ANN = Author("ann")


class Work:
    """tiny: ends at once; endless: never; shell: a process."""

    @hookimpl
    def hermes_async_tools(self) -> Iterable[AsyncTool]:
        @async_tool
        async def tiny(number: int) -> str:
            """End at once."""
            return "done"

        @async_tool
        async def endless(number: int) -> None:
            """Never end."""
            await asyncio.Event().wait()

        @async_tool
        def shell(command: str) -> Program:
            """Run a command."""
            return Program(("/bin/sh", "-c", command))

        return [tiny, endless, shell]


@asynccontextmanager
async def opened(folder: Path, **jobs: int) -> AsyncIterator[Bed]:
    """A runtime on the real store."""
    store = await SQLiteStore.open(folder)
    try:
        async with Bed(folder, plugins=[Work()], store=store, config={"jobs": jobs}) as bed:
            yield bed
    finally:
        await store.close()


def request(tool: str, key: str, address: Address = NOWHERE, **arguments: object) -> JobRequest:
    """A start."""
    return JobRequest(address, ANN, tool, arguments, key)


def line(name: str, figure: str, target: str) -> None:
    """One row."""
    print(f"{name:<54} {figure:>22}   target {target}")


async def starts(folder: Path) -> None:
    """How long a start takes until it is answered, one after the other."""
    async with opened(folder, max_running=1) as bed:
        jobs = bed.runtime.jobs
        await jobs.start(request("endless", "first", number=0))
        taken = []
        for number in range(1000):
            begin = time.perf_counter()
            await jobs.start(request("tiny", str(number), number=number))
            taken.append(1000 * (time.perf_counter() - begin))
        median, worst = statistics.median(taken), sorted(taken)[989]
        line("start answered, median (99%)", f"{median:.2f} ms ({worst:.2f} ms)", "2 ms")


async def tiny(folder: Path) -> None:
    """Tiny jobs a second, from the first start to the last end, events committed."""
    count = 5000
    async with opened(folder) as bed:
        ended = asyncio.Event()
        left = count

        def told(job: Job) -> None:
            nonlocal left
            left -= job.state.final
            if not left:
                ended.set()

        bed.runtime.jobs.events(told)
        begin = time.perf_counter()
        await asyncio.gather(
            *(bed.runtime.jobs.start(request("tiny", str(number), number=number)) for number in range(count))
        )
        await ended.wait()
        rate = count / (time.perf_counter() - begin)
        line("tiny function jobs, 8 at a time", f"{rate:,.0f} /s", "1,000 /s")


async def ends(folder: Path) -> None:
    """From the end of a process to the request that tells the model, in an idle conversation."""
    taken = []
    async with opened(folder) as bed:
        asked: asyncio.Queue[float] = asyncio.Queue()

        def script(asking: Request) -> str:
            asked.put_nowait(time.time())
            return ""

        bed.model.default = script
        for number in range(30):
            start = request("shell", str(number), bed.platform.address(), command="sleep 0.05; date +%s.%N")
            job = await bed.runtime.jobs.start(start)
            at = await asked.get()
            said = (await bed.runtime.jobs.result(job.id)).text
            taken.append(1000 * (at - float(said)))
            await bed.platform.settled()
    line(
        "end of a process -> model request, median (worst)",
        f"{statistics.median(taken):.1f} ms ({max(taken):.1f} ms)",
        "50 ms",
    )


async def idle(folder: Path) -> None:
    """CPU time that running jobs cost while nothing happens."""
    async with opened(folder, max_running=2000) as bed:
        jobs = bed.runtime.jobs
        await asyncio.gather(*(jobs.start(request("endless", str(n), number=n)) for n in range(1000)))
        for number in range(10):
            await jobs.start(request("shell", f"p{number}", command="sleep 600"))
        await asyncio.sleep(2)
        begin = time.process_time()
        await asyncio.sleep(5)
        used = 1000 * (time.process_time() - begin)
        line("1,000 functions and 10 processes run: CPU time in 5 s", f"{used:.1f} ms", "no polling")
        assert used < 50, "something polls"
        for number in range(10):
            await jobs.stop(job_id(NOWHERE, f"p{number}"), 5.0)


async def listing(folder: Path) -> None:
    """A list where 100,000 jobs have ended."""
    count = 100_000
    store = await SQLiteStore.open(folder)
    blank = Job("", NOWHERE, ANN, "tiny", '{"number":1}', "", "digest", time.time(), time.time() + 60)
    for begin in range(0, count, 5000):
        writes = []
        for number in range(begin, begin + 5000):
            address = Address("none", "bench", str(number % 50))
            job = replace(blank, id=job_id(address, str(number)), address=address, key=str(number))
            store.add_job(job)
            writes.append(store.end_job(job.id, JobEnd(JobState.DONE, time.time(), "done", "x" * 200)))
        await asyncio.gather(*writes)
    reads: list[tuple[str, Callable[[], Awaitable[list[Job]]]]] = [
        ("list_jobs of one conversation", lambda: store.jobs(Address("none", "bench", "7"), limit=20)),
        ("the open jobs, at a start", store.open_jobs),
    ]
    for name, read in reads:
        taken = []
        for _ in range(50):
            begin_at = time.perf_counter()
            await read()
            taken.append(1000 * (time.perf_counter() - begin_at))
        line(f"100,000 ended: {name}, median", f"{statistics.median(taken):.2f} ms", "50 ms")
    taken = []
    for _ in range(50):
        begin_at = time.perf_counter()
        found: list[Job] = peek(folder, job_rows.latest, [], None, 50, None)
        taken.append(1000 * (time.perf_counter() - begin_at))
        assert len(found) == 50
    line(
        "100,000 ended: `hermes jobs list`, its answer, median", f"{statistics.median(taken):.2f} ms", "50 ms"
    )
    command = [sys.executable, "-m", "hermes_core", "jobs", "list", "--set", f"runtime.data_dir={folder}"]
    begin_at = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    whole = 1000 * (time.perf_counter() - begin_at)
    line("100,000 ended: `hermes jobs list`, the whole process", f"{whole:.0f} ms", "-")
    await store.close()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What jobs cost.")
    parser.add_argument("--folder", default=".", help="where the store is: chooses the disk")
    options = parser.parse_args()
    for measure in (starts, tiny, ends, idle, listing):
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            asyncio.run(measure(Path(folder)))


if __name__ == "__main__":
    main()
