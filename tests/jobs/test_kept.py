"""Kept processes: they outlive who started them, and their true end is read afterwards (J10, J12, E5, I3)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from hermes_core.errors import ToolError
from hermes_core.processes import Kept, KeptEnd, Program, attach, forget, keep, records, sweep, tree

pytestmark = pytest.mark.skipif(
    not tree.VISIBLE, reason="what is proven here needs /proc and child subreapers"
)

ROOT = Path(__file__).parents[2]


class Place:
    """Where one kept process has its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record = folder / "j1-1.process"
        self.output = folder / "j1.out"

    def keep(
        self, script: str, *, deadline: float = 0.0, kill_after: float = 0.3, limit: int = 65536
    ) -> Kept:
        program = Program(("/bin/sh", "-c", script), output_limit=limit)
        return keep(program, self.record, self.output, kill_after=kill_after, deadline=deadline, label="job")

    def text(self) -> str:
        return self.output.read_text()

    def keeper(self) -> int:
        return records.process(records.read(self.record)["shim"])[0]


def bearing(mark: str) -> list[int]:
    """Living processes with `mark` as a word of their command line: no shell and no keeper, which hold more."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and mark in process.cmdline():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it never came true"
        await asyncio.sleep(0.005)


@pytest.fixture
def mark(tmp_path: Path) -> str:
    return f"{3000 + os.getpid() % 1000}.{abs(hash(str(tmp_path))) % 10**9:09d}"


@pytest.fixture
async def place(tmp_path: Path, mark: str) -> AsyncIterator[Place]:
    yield Place(tmp_path)
    await until(lambda: not bearing(mark))


async def test_its_end_and_output_stand_in_files(place: Place) -> None:
    end = await place.keep("echo one; echo two >&2; exit 3").wait()
    assert end == KeptEnd(code=3)
    assert place.text() == "one\ntwo\n"
    assert attach(place.record) == end, "whoever comes later reads the same"


async def test_a_signal_is_told_as_one(place: Place) -> None:
    end = await place.keep("kill -SEGV $$").wait()
    assert (end.code, end.signal, end.stopped) == (None, signal.SIGSEGV, "")


async def test_a_command_that_is_not_there_says_so(place: Place) -> None:
    kept = keep(Program(("no-such-program-here",)), place.record, place.output, kill_after=0.3)
    assert (await kept.wait()).failed == 2


async def test_a_folder_that_is_not_there_is_refused_at_once(place: Place) -> None:
    with pytest.raises(ToolError, match="cannot be started"):
        keep(Program(("true",), cwd="/no/such/folder"), place.record, place.output, kill_after=0.3)
    with pytest.raises(ToolError):
        keep(Program(()), place.record, place.output, kill_after=0.3)


async def test_stdin_and_environment_are_the_programs(place: Place) -> None:
    program = Program(("/bin/sh", "-c", "cat; echo $ADDED"), stdin=b"read\n", env={"ADDED": "yes"})
    await keep(program, place.record, place.output, kill_after=0.3).wait()
    assert place.text() == "read\nyes\n"


async def test_case_27_it_outlives_a_runtime_that_is_killed_and_is_taken_up_by_the_next(
    place: Place, mark: str
) -> None:
    code = (
        "import asyncio, sys; from pathlib import Path\n"
        "from hermes_core.processes import Program, keep\n"
        "async def main():\n"
        "    keep(Program(('/bin/sh', '-c', sys.argv[3])), Path(sys.argv[1]), Path(sys.argv[2]), kill_after=0.3)\n"
        "    print('started', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    go = place.folder / "go"
    script = f"echo begun; while [ ! -e {go} ]; do sleep 0.02; done; echo ended; exit 7"
    words = [sys.executable, "-c", code, str(place.record), str(place.output), script]
    runtime = subprocess.Popen(words, stdout=subprocess.PIPE, cwd=ROOT)
    assert runtime.stdout is not None
    runtime.stdout.readline()
    await until(lambda: place.output.exists() and place.text() == "begun\n")
    runtime.kill()
    runtime.wait()
    runtime.stdout.close()
    assert sweep(place.folder) == [], "the sweep of blocking tools leaves it alone"
    found = attach(place.record)
    assert isinstance(found, Kept)
    go.touch()
    assert await found.wait() == KeptEnd(code=7)
    assert place.text() == "begun\nended\n"


async def test_what_ended_while_nobody_looked_has_its_true_end(place: Place) -> None:
    kept = place.keep("exit 5")
    kept.let_go()
    await until(lambda: "end" in records.read(place.record))
    assert attach(place.record) == KeptEnd(code=5)


async def test_what_was_never_begun_never_will_be_also_when_its_record_is_to_be_forgotten(
    place: Place, mark: str
) -> None:
    """(J12) Under load a keeper may need longer than all that happens to its job meanwhile."""
    assert attach(place.record) is None
    forget(place.record)
    assert await place.keep(f"sleep {mark}").wait() == KeptEnd(begun=False)
    place.record.write_text("void yes\nboot another\n")
    forget(place.record)
    assert not place.record.exists(), "after a start of the machine nothing can be late"


async def test_what_was_never_begun_never_will_be(place: Place, mark: str) -> None:
    """(J12) The name is taken by who looks first: a keeper that comes later starts nothing."""
    assert attach(place.record) is None
    end = await place.keep(f"sleep {mark}").wait()
    assert end == KeptEnd(begun=False)
    assert not place.output.exists()
    assert attach(place.record) is None


@pytest.mark.parametrize("again", [False, True], ids=["by its starter", "by a later runtime"])
@pytest.mark.parametrize(
    ("script", "killed"),
    [
        ("sleep {mark}", False),
        ("trap '' TERM; sleep {mark} & sleep {mark} & wait; sleep {mark}", True),
        ("setsid sleep {mark} & (setsid sh -c 'trap \"\" TERM; sleep {mark}' &) ; sleep {mark}", True),
    ],
    ids=["plain", "deaf", "detached"],
)
async def test_i3_a_stop_ends_the_whole_tree(
    place: Place, mark: str, script: str, killed: bool, again: bool
) -> None:
    kept = place.keep(script.format(mark=mark))
    await until(lambda: bearing(mark))
    if again:
        kept.let_go()
        found = attach(place.record)
        assert isinstance(found, Kept)
        kept = found
    begun = time.monotonic()
    kept.stop(0.3)
    end = await kept.wait()
    assert time.monotonic() - begun < 3.0
    assert end.stopped == "request"
    assert not bearing(mark)


async def test_j5_what_had_ended_first_was_not_stopped(place: Place) -> None:
    kept = place.keep("exit 0")
    await until(lambda: "end" in records.read(place.record))
    kept.stop(0.3)
    assert await kept.wait() == KeptEnd(code=0)


async def test_j6_its_deadline_holds_also_while_nobody_is_there(place: Place, mark: str) -> None:
    kept = place.keep(f"sleep {mark}", deadline=time.time() + 0.5)
    kept.let_go()
    await until(lambda: "end" in records.read(place.record))
    end = attach(place.record)
    assert isinstance(end, KeptEnd)
    assert end.stopped == "deadline"
    assert not bearing(mark)


async def test_what_the_leader_leaves_behind_is_ended_with_it(place: Place, mark: str) -> None:
    end = await place.keep(f"sleep {mark} & setsid sleep {mark} & exit 0").wait()
    assert end == KeptEnd(code=0)
    assert not bearing(mark)


@pytest.mark.parametrize("again", [False, True], ids=["by its starter", "by a later runtime"])
async def test_when_the_keeper_itself_is_killed_the_tree_goes_and_nobody_claims_to_know(
    place: Place, mark: str, again: bool
) -> None:
    kept = place.keep(f"sleep {mark}")
    await until(lambda: bearing(mark))
    found: Kept | KeptEnd | None = kept
    if again:
        kept.let_go()
    os.kill(place.keeper(), signal.SIGKILL)
    if again:
        await until(lambda: tree.start_of(place.keeper()) is None)
        found = attach(place.record)
    end = await found.wait() if isinstance(found, Kept) else found
    assert end == KeptEnd(known=False)
    await until(lambda: not bearing(mark))


async def test_j10_output_is_bounded_keeps_both_ends_and_says_what_is_missing(place: Place) -> None:
    end = await place.keep("seq 1 200000", limit=2000).wait()
    text = place.text()
    whole = sum(len(str(number)) + 1 for number in range(1, 200_001))
    assert text.startswith("1\n2\n3\n")
    assert text.endswith("199999\n200000\n")
    assert f"[… {end.cut} bytes left out …]" in text
    assert end.cut == whole - 2000


async def test_j10_what_was_read_stays_where_it_was(place: Place) -> None:
    go = place.folder / "go"
    kept = place.keep(f"seq 1 5000; while [ ! -e {go} ]; do sleep 0.02; done; echo last", limit=2000)
    await until(lambda: place.output.exists() and place.output.stat().st_size == 1000)
    before = place.text()
    go.touch()
    await kept.wait()
    assert place.text().startswith(before)
    assert place.text().endswith("5000\nlast\n")


async def test_waiting_costs_one_descriptor_and_no_time(place: Place, mark: str) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    kept = place.keep(f"sleep {mark}")
    await until(lambda: bearing(mark))
    assert len(list(Path("/proc/self/fd").iterdir())) == before + 1
    used = time.process_time()
    await asyncio.wait({asyncio.ensure_future(asyncio.sleep(0.3))})
    assert time.process_time() - used < 0.05
    kept.stop(0.3)
    await kept.wait()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
