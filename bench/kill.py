"""How long it takes to end a process tree: `python bench/kill.py [ROUNDS]`.

Starts real commands as tools are started, stops each, and prints median and worst, in milliseconds. For the
trees that will not go by themselves the number is what lies beyond `kill_after`.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from hermes_core.processes import Program, start

DETACH = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if sys.argv[1] == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(1, b"up\\n")
        time.sleep(60)
    os._exit(0)
time.sleep(60)
"""
PYTHON = (sys.executable, "-I", "-S", "-c", DETACH)
DEAF = "trap '' TERM; echo up; sleep 60; sleep 60"
MANY = "for i in $(seq 200); do sleep 60 & done; echo up; wait"

CASES: dict[str, tuple[Program, float, bool]] = {
    "sleep 60": (Program(("sleep", "60")), 1.0, False),
    "ignores SIGTERM": (Program(("/bin/sh", "-c", DEAF)), 0.2, True),
    "detached grandchild": (Program((*PYTHON, "listening")), 1.0, False),
    "detached, ignores SIGTERM": (Program((*PYTHON, "deaf")), 0.2, True),
    "200 children": (Program(("/bin/sh", "-c", MANY)), 1.0, False),
}


async def measure(program: Program, kill_after: float, folder: Path) -> tuple[float, float]:
    """Milliseconds of one start and of one stop."""
    begun = time.perf_counter()
    process = await start(program, folder)
    started = time.perf_counter()
    while program.argv[0] != "sleep" and "up" not in process.output_so_far():
        await asyncio.sleep(0.001)
    stopping = time.perf_counter()
    stopped = await process.stop(kill_after)
    stopped_at = time.perf_counter()
    assert stopped.exit is not None
    assert not stopped.unreachable
    return (started - begun) * 1000, (stopped_at - stopping) * 1000


async def main(rounds: int) -> None:
    print(f"{rounds} rounds, milliseconds        start          stop    (beyond kill_after)")
    print(f"{'':28}median  worst   median  worst")
    with tempfile.TemporaryDirectory() as name:
        for title, (program, kill_after, deaf) in CASES.items():
            figures = [await measure(program, kill_after, Path(name)) for _ in range(rounds)]
            starts = [one for one, _ in figures]
            stops = [two - (kill_after * 1000 if deaf else 0) for _, two in figures]
            print(
                f"{title:28}{statistics.median(starts):6.1f} {max(starts):6.1f}"
                f"   {statistics.median(stops):6.1f} {max(stops):6.1f}"
            )


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 30))
