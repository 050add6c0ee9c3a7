"""Processes: real commands, ended whole (I3, E5). What lives is read from the system, not from our own word."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psutil
import pytest

from hermes_core.errors import ToolError
from hermes_core.processes import Process, Program, launch, start, sweep, tree

pytestmark = pytest.mark.skipif(
    not tree.VISIBLE, reason="what is proven here needs /proc and child subreapers"
)

ROOT = Path(__file__).parents[1]


def sh(script: str, **rest: object) -> Program:
    return Program(("/bin/sh", "-c", script), **rest)  # type: ignore[arg-type]


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def bearing(mark: str) -> list[int]:
    """Living processes whose command line holds `mark`, however they are related to us."""
    found = []
    for process in psutil.process_iter():
        try:
            # The shim has the whole command in its own command line; a tree without it is what we look for.
            words = process.cmdline()
            if process.status() != psutil.STATUS_ZOMBIE and any(mark in word for word in words):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait for something that another process does, at most `seconds`."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it never came true"
        await asyncio.sleep(0.002)


@pytest.fixture
def mark(tmp_path: Path) -> str:
    """A text that no other process of this machine has in its command line: a length of a sleep."""
    return f"{3000 + os.getpid() % 1000}.{abs(hash(str(tmp_path))) % 10**9:09d}"


@pytest.fixture(autouse=True)
async def _nothing_is_left(tmp_path: Path, mark: str) -> AsyncIterator[None]:
    """Whatever a test does: afterwards no process, record or descriptor of it is there."""
    before = descriptors()
    yield
    await until(lambda: not bearing(mark))
    await until(lambda: not list(tmp_path.glob("*.process*")))
    await until(lambda: descriptors() <= before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


# ---- running


async def test_a_command_ends_with_its_code_and_both_of_its_outputs_in_order(folder: Path) -> None:
    process = await start(sh("echo one; echo two >&2; echo three; exit 3"), folder)
    ended = await process.wait()
    assert (ended.code, ended.signal, ended.output, ended.cut) == (3, None, "one\ntwo\nthree\n", 0)
    assert process.ended() == ended


async def test_a_command_that_dies_of_a_signal_says_which(folder: Path) -> None:
    ended = await (await start(sh("kill -SEGV $$"), folder)).wait()
    assert (ended.code, ended.signal) == (None, signal.SIGSEGV)


async def test_it_reads_stdin_to_its_end_however_long_that_is(folder: Path) -> None:
    ended = await (await start(Program(("wc", "-c"), stdin=b"x" * 1_000_000), folder)).wait()
    assert ended.output.split() == ["1000000"]


async def test_without_stdin_there_is_nothing_to_read(folder: Path) -> None:
    ended = await (await start(sh("cat; echo end"), folder)).wait()
    assert ended.output == "end\n"


async def test_working_folder_and_environment_are_what_the_program_says(folder: Path) -> None:
    program = sh('pwd; echo "$ADDED ${HOME-none} $PATH"', cwd=str(folder), env={"ADDED": "a=b", "HOME": None})
    ended = await (await start(program, folder)).wait()
    assert ended.output == f"{folder}\na=b none {os.environ['PATH']}\n"


async def test_the_command_gets_default_signals_and_no_descriptor_of_ours(folder: Path) -> None:
    script = "grep -E 'SigIgn|SigBlk' /proc/self/status; ls /proc/self/fd | wc -l"
    ended = await (await start(sh(script), folder)).wait()
    _, blocked, _, ignored, opened = ended.output.split()
    assert int(blocked, 16) == 0
    assert int(ignored, 16) & ~(0b11 << 31) == 0  # 32 and 33 are libc's own
    assert int(opened) == 4  # 0, 1, 2 and the folder that ls itself reads


async def test_output_can_be_read_while_it_runs(folder: Path, mark: str) -> None:
    process = await start(sh(f"echo first; sleep {mark}"), folder)
    await until(lambda: process.output_so_far() == "first\n")
    assert process.ended() is None
    await process.stop(1.0)


async def test_bytes_that_are_no_text_are_replaced(folder: Path) -> None:
    ended = await (await start(sh(r"printf 'a\377b\303'"), folder)).wait()
    assert ended.output == "a\ufffdb\ufffd"


async def test_of_long_output_beginning_and_end_are_kept_and_the_cut_is_counted(folder: Path) -> None:
    ended = await (await start(sh("seq 1 200000", output_limit=1000), folder)).wait()
    whole = sum(len(str(number)) + 1 for number in range(1, 200_001))
    assert ended.cut == whole - 1000
    assert ended.output.startswith("1\n2\n3\n")
    assert ended.output.endswith("199999\n200000\n")
    assert f"[… {ended.cut} bytes left out …]" in ended.output


async def test_a_flood_of_output_neither_fills_memory_nor_holds_the_loop(folder: Path, mark: str) -> None:
    process = await start(Program(("yes", mark), output_limit=10_000), folder)
    longest, last = 0.0, time.monotonic()
    while process._output.received < 3_000_000:
        await asyncio.sleep(0)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
    assert longest < 0.5
    stopped = await process.stop(1.0)
    assert stopped.exit is not None
    assert len(stopped.exit.output) < 10_100


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (Program(("hermes-no-such-command",)), "No such file or directory"),
        (Program(("/etc/passwd",)), "Permission denied"),
        (Program(("true",), cwd="/no/such/folder"), "No such file or directory"),
        (Program(("echo", "a\0b")), "null byte"),
        (Program(("echo", "\ud800")), "surrogates"),
        (Program(("echo", "x" * 3_000_000)), "Argument list too long"),
        (Program(("true",), env={"a=b": "c"}), "illegal environment variable name"),
        (Program(()), "no name"),
    ],
    ids=["missing", "not executable", "no folder", "null", "surrogate", "too long", "bad variable", "empty"],
)
async def test_what_cannot_be_started_says_why(folder: Path, program: Program, reason: str) -> None:
    with pytest.raises(ToolError, match=reason):
        await start(program, folder)


async def test_several_may_wait_and_a_cancelled_wait_leaves_it_running(folder: Path, mark: str) -> None:
    process = await start(sh(f"sleep {mark}"), folder)
    waits = [asyncio.create_task(process.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waits[0].cancel()
    await asyncio.wait({waits[0]})
    assert waits[0].cancelled()
    assert process.pid is not None
    assert alive(process.pid)
    await process.stop(1.0)
    assert (await waits[1]) == (await waits[2]) == process.ended()


# ---- a blocking command leaves nothing behind


async def test_a_background_child_that_holds_stdout_open_does_not_hold_the_wait(
    folder: Path, mark: str
) -> None:
    process = await start(sh(f"sleep {mark} & echo done; exit 0"), folder)
    async with asyncio.timeout(3):
        ended = await process.wait()
    assert (ended.code, ended.output) == (0, "done\n")
    assert not bearing(mark)


async def test_what_the_leader_leaves_running_is_ended_even_if_it_ignores_sigterm(
    folder: Path, mark: str
) -> None:
    process = await start(sh(f"(trap '' TERM; exec setsid sleep {mark}) & sleep 0.05; echo done"), folder)
    async with asyncio.timeout(3):
        ended = await process.wait()
    assert (ended.code, ended.output) == (0, "done\n")
    assert not bearing(mark)


# ---- stopping

POLITE = """
import os, signal, sys, time
def bye(*_):
    signal.signal(signal.SIGTERM, lambda *_: os.write(1, b"again\\n"))
    time.sleep(float(sys.argv[1]))
    os.write(1, b"bye\\n")
    if sys.argv[2]:
        sys.exit(int(sys.argv[2]))
signal.signal(signal.SIGTERM, bye)
os.write(1, b"up\\n")
if sys.argv[3:]:
    signal.raise_signal(signal.SIGSTOP)
while True:
    time.sleep(60)
"""


def polite(*words: str) -> Program:
    """Says `up`; at SIGTERM waits WORDS[0] seconds, says `bye` and exits with code WORDS[1], if it is not empty."""
    return Program((sys.executable, "-I", "-S", "-c", POLITE, *words))


DETACH = """
import os, sys, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if sys.argv[2] == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("ready", flush=True)
        os.close(1); os.close(2)
        time.sleep(float(sys.argv[1]))
    os._exit(0)
time.sleep(float(sys.argv[1]))
"""


def detached(mark: str, ears: str) -> Program:
    return Program((sys.executable, "-I", "-S", "-c", DETACH, mark, ears))


async def test_a_plain_command_is_gone_at_once(folder: Path, mark: str) -> None:
    process = await start(Program(("sleep", mark)), folder)
    begun = time.monotonic()
    stopped = await process.stop(5.0)
    assert time.monotonic() - begun < 1.0
    assert stopped.exit is not None
    assert (stopped.exit.signal, stopped.killed, stopped.unreachable) == (signal.SIGTERM, False, ())
    assert not bearing(mark)


async def test_a_command_may_use_its_time_to_end_well(folder: Path) -> None:
    process = await start(polite("0.1", "7"), folder)
    await until(lambda: "up" in process.output_so_far())
    stopped = await process.stop(5.0)
    assert stopped.exit is not None
    assert (stopped.exit.code, stopped.killed) == (7, False)
    assert stopped.exit.output == "up\nbye\n"


async def test_descendants_have_the_same_time_when_their_leader_goes_first(folder: Path) -> None:
    child = shlex.join(polite("0.7", "0").argv)
    process = await start(sh(f"{child} & wait"), folder)
    await until(lambda: "up" in process.output_so_far())
    stopped = await process.stop(5.0)
    assert stopped.exit is not None
    assert (stopped.exit.signal, stopped.exit.output, stopped.killed) == (
        signal.SIGTERM,
        "up\nbye\n",
        False,
    )


async def test_a_command_that_ignores_sigterm_is_killed_when_its_time_is_over(
    folder: Path, mark: str
) -> None:
    process = await start(sh(f"trap '' TERM; echo up; sleep {mark}; sleep {mark}"), folder)
    await until(lambda: "up" in process.output_so_far())
    begun = time.monotonic()
    stopped = await process.stop(0.2)
    assert 0.2 <= time.monotonic() - begun < 1.0
    assert stopped.exit is not None
    assert (stopped.exit.signal, stopped.killed, stopped.unreachable) == (signal.SIGKILL, True, ())
    assert not bearing(mark)


@pytest.mark.parametrize("ears", ["listening", "deaf"])
async def test_a_grandchild_in_a_session_of_its_own_dies_as_well(folder: Path, mark: str, ears: str) -> None:
    process = await start(detached(mark, ears), folder)
    await until(lambda: "ready" in process.output_so_far())
    begun = time.monotonic()
    stopped = await process.stop(0.3)
    took = time.monotonic() - begun
    assert took < (0.25 if ears == "listening" else 1.0)
    assert stopped.killed == (ears == "deaf")
    assert stopped.unreachable == ()
    assert not bearing(mark)


async def test_two_hundred_children_die_together(folder: Path, mark: str) -> None:
    process = await start(sh(f"for i in $(seq 200); do sleep {mark} & done; echo up; wait"), folder)
    await until(lambda: "up" in process.output_so_far(), 20)
    stopped = await process.stop(2.0)
    assert stopped.unreachable == ()
    assert not bearing(mark)


async def test_a_tree_that_forks_while_it_is_stopped_does_not_get_away(folder: Path, mark: str) -> None:
    more = f"n=0; while [ $n -lt 300 ]; do (setsid sleep {mark} &); n=$((n+1)); done"
    script = f"trap '' TERM; echo up; {more}; sleep {mark}"
    process = await start(sh(script), folder)
    await until(lambda: "up" in process.output_so_far())
    stopped = await process.stop(0.05)
    assert stopped.unreachable == ()
    assert not bearing(mark)


async def test_a_stopped_process_is_woken_to_hear_sigterm(folder: Path) -> None:
    process = await start(polite("0", "0", "stop"), folder)
    assert process.pid is not None
    await until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
    stopped = await process.stop(5.0)
    assert stopped.exit is not None
    assert (stopped.exit.output, stopped.killed) == ("up\nbye\n", False)


async def test_stops_at_the_same_time_and_after_the_end_agree(folder: Path, mark: str) -> None:
    process = await start(sh(f"trap '' TERM; echo up; sleep {mark}; sleep {mark}"), folder)
    await until(lambda: "up" in process.output_so_far())
    several = await asyncio.gather(process.stop(0.1), process.stop(0.1), process.stop(5.0))
    assert {one.exit for one in several} == {process.ended()}
    assert (await process.stop(1.0)).exit == process.ended()
    process.terminate()


async def test_a_cancelled_stop_is_carried_out_all_the_same(folder: Path, mark: str) -> None:
    process = await start(sh(f"trap '' TERM; echo up; sleep {mark}; sleep {mark}"), folder)
    await until(lambda: "up" in process.output_so_far())
    stopping = asyncio.create_task(process.stop(0.2))
    await asyncio.sleep(0)
    stopping.cancel()
    async with asyncio.timeout(3):
        ended = await process.wait()
    assert ended.signal == signal.SIGKILL


async def test_terminate_reaches_everything_before_it_returns(folder: Path, mark: str) -> None:
    process = await start(detached(mark, "listening"), folder)
    await until(lambda: "ready" in process.output_so_far())
    process.terminate()
    # No await since: the signal is delivered by the kernel alone.
    limit = time.monotonic() + 3
    while [pid for pid in bearing(mark) if pid != process._shim.pid] and time.monotonic() < limit:
        time.sleep(0.002)
    assert [pid for pid in bearing(mark) if pid != process._shim.pid] == []
    await process.wait()


async def test_each_process_gets_sigterm_once(folder: Path) -> None:
    process = await start(polite("0", ""), folder)
    await until(lambda: "up" in process.output_so_far())
    process.terminate()
    await until(lambda: "bye" in process.output_so_far())
    process.terminate()
    stopped = await process.stop(0.2)
    assert stopped.exit is not None
    assert stopped.exit.output == "up\nbye\n"


# ---- the moment of the start


async def test_a_command_that_is_stopped_before_it_runs_never_runs(folder: Path) -> None:
    process = launch(sh(f"touch {folder}/ran"), folder)
    stopped = await process.stop(1.0)
    assert stopped.exit is not None
    assert stopped.exit.signal == signal.SIGTERM
    assert not (folder / "ran").exists()
    await process.started()


@pytest.mark.parametrize("delay", [0.0, 0.005, 0.01, 0.012, 0.014, 0.016, 0.02])
async def test_a_stop_at_any_moment_of_the_start_leaves_nothing(
    folder: Path, mark: str, delay: float
) -> None:
    process = launch(sh(f"sleep {mark}; true"), folder)
    await asyncio.sleep(delay)
    stopped = await process.stop(1.0)
    assert stopped.exit is not None
    assert (stopped.exit.signal, stopped.killed) == (signal.SIGTERM, False)
    assert not bearing(mark)


async def test_a_cancelled_start_leaves_nothing(folder: Path, mark: str) -> None:
    starting = asyncio.create_task(start(sh(f"trap '' TERM; sleep {mark}; sleep {mark}"), folder))
    await asyncio.sleep(0)
    assert bearing(mark)
    starting.cancel()
    await asyncio.wait({starting})
    assert starting.cancelled()
    await until(lambda: not bearing(mark))


# ---- hostile commands


async def test_a_command_that_kills_its_shim_is_killed_with_its_children(folder: Path, mark: str) -> None:
    process = await start(sh(f"setsid sleep {mark} & sleep {mark} & kill -9 $PPID; sleep {mark}"), folder)
    async with asyncio.timeout(3):
        ended = await process.wait()
    assert (ended.code, ended.signal) == (None, None)
    assert not bearing(mark)


async def test_a_command_that_stops_its_shim_is_ended_all_the_same(folder: Path, mark: str) -> None:
    # Not `start`: the shim may be stopped before it can say that the command runs.
    process = launch(sh(f"trap '' TERM; echo up; while :; do kill -STOP $PPID; done; sleep {mark}"), folder)
    await until(lambda: "up" in process.output_so_far())
    begun = time.monotonic()
    stopped = await process.stop(0.1)
    assert time.monotonic() - begun < 1.0
    assert stopped.unreachable == ()
    assert stopped.exit is not None
    assert not bearing(mark)


async def test_a_shim_that_was_stopped_once_is_woken_and_does_its_work(folder: Path, mark: str) -> None:
    process = await start(sh(f"sleep 0.05; kill -STOP $PPID; echo up; sleep {mark}"), folder)
    await until(lambda: "up" in process.output_so_far())
    begun = time.monotonic()
    stopped = await process.stop(5.0)
    assert time.monotonic() - begun < 2.0
    assert stopped.exit is not None
    assert (stopped.exit.signal, stopped.killed) == (signal.SIGTERM, False)


async def test_signals_do_not_end_the_shim(folder: Path) -> None:
    process = await start(
        sh("kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; sleep 0.05; echo alive"), folder
    )
    assert (await process.wait()).output == "alive\n"


# ---- when the runtime dies

RUNTIME = """
import asyncio, sys
from pathlib import Path
from hermes_core.processes import Program, start

async def main():
    process = await start(Program(("/bin/sh", "-c", sys.argv[2])), Path(sys.argv[1]), "the label")
    while "up" not in process.output_so_far():
        await asyncio.sleep(0.002)
    print(process._shim.pid, process.pid, flush=True)
    await process.wait()

asyncio.run(main())
"""


@pytest.fixture
def runtime(folder: Path) -> Iterator[Callable[[str], tuple[subprocess.Popen[str], int, int]]]:
    """Runs a script as a tool of another runtime; gives that runtime, and the pids of shim and leader."""
    started: list[subprocess.Popen[str]] = []

    def run(script: str) -> tuple[subprocess.Popen[str], int, int]:
        process = subprocess.Popen(
            [sys.executable, "-c", RUNTIME, str(folder), script], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        started.append(process)
        assert process.stdout is not None
        shim, leader = map(int, process.stdout.readline().split())
        return process, shim, leader

    yield run
    for process in started:
        process.kill()
        process.communicate()


Runtime = Callable[[str], tuple[subprocess.Popen[str], int, int]]


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "], ids=["listening", "deaf"])
async def test_when_the_runtime_is_killed_its_tools_end_with_it(
    folder: Path, mark: str, runtime: Runtime, trap: str
) -> None:
    process, shim, leader = runtime(f"{trap}setsid sleep {mark} & echo up; sleep {mark}; sleep {mark}")
    assert alive(leader)
    process.kill()
    process.wait()
    await until(lambda: not alive(shim) and not [pid for pid in bearing(mark) if pid != process.pid], 3)
    await until(lambda: not list(folder.glob("*.process")))
    assert sweep(folder) == []


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "], ids=["listening", "deaf"])
async def test_what_outlived_its_runtime_and_its_shim_is_swept_at_the_next_start(
    folder: Path, mark: str, runtime: Runtime, trap: str
) -> None:
    process, shim, leader = runtime(f"{trap}setsid sleep {mark} & sleep {mark} & echo up; sleep {mark}")
    await until(lambda: len(tree.below(shim)) == 4)
    os.kill(shim, signal.SIGSTOP)  # so that it cannot act when the runtime dies
    process.kill()
    process.wait()
    os.kill(shim, signal.SIGKILL)
    await until(lambda: not alive(shim))
    assert alive(leader)
    (leftover,) = sweep(folder)
    assert leftover.label == "the label"
    assert leader in leftover.killed
    assert len(leftover.killed) == 4
    assert leftover.unreachable == ()
    assert not bearing(mark)
    assert sweep(folder) == []


async def test_a_shim_that_still_lives_is_swept_with_its_tree(
    folder: Path, mark: str, runtime: Runtime
) -> None:
    process, shim, leader = runtime(f"echo up; setsid sleep {mark}")
    os.kill(shim, signal.SIGSTOP)
    process.kill()
    process.wait()
    (leftover,) = sweep(folder)
    assert leader in leftover.killed
    assert not alive(shim)


async def test_a_sweep_never_touches_a_process_that_only_has_the_same_pid(folder: Path) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        boot, born = tree.boot(), tree.start_of(bystander.pid)
        assert born is not None
        records = {
            "older": f"boot {boot}\nshim {bystander.pid} {born - 1}\nleader {bystander.pid} {born - 1}\ntoken t\n",
            "rebooted": f"boot other\nshim {bystander.pid} {born}\nleader {bystander.pid} {born}\ntoken t\n",
            "torn": f"boot {boot}\nshim {bystander.pid}",
            "empty": "",
            "binary": "\udcff\udcfe",
        }
        for name, text in records.items():
            (folder / f"{name}.process").write_bytes(text.encode(errors="surrogateescape"))
        (folder / "half.process.new").write_text("x")
        assert sweep(folder) == []
        assert bystander.poll() is None
        assert list(folder.iterdir()) == []
    finally:
        bystander.kill()
        bystander.wait()


async def test_both_ways_to_look_below_a_process_find_the_same(folder: Path, mark: str) -> None:
    script = f"echo up; (setsid sleep {mark} &); sleep {mark} & (sleep {mark}; true) & wait"
    process = await start(sh(script), folder)
    shim = process._shim.pid
    await until(lambda: len(tree.below(shim)) == 5)
    assert {one.name for one in tree.below(shim)} == {one.name for one in tree.below(shim, tree.look())}
    assert shim not in {one.pid for one in tree.below(shim)}
    await process.stop(1.0)


async def test_many_runs_at_once_leak_nothing(folder: Path, mark: str) -> None:
    async def one(number: int) -> Process:
        process = await start(sh(f"echo {number}; sleep {mark}" if number % 2 else f"echo {number}"), folder)
        await process.stop(1.0) if number % 2 else await process.wait()
        return process

    done = await asyncio.gather(*(one(number) for number in range(24)))
    assert all(process.ended() is not None for process in done)  # the fixture counts the rest
