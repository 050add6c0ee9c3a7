"""`hermes chat` and `hermes run` as people and init systems run them: real processes, pipes, signals, folders."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hermes_core

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks at /proc (Linux)")

PATIENCE = 20.0  # seconds; what is waited for takes far less on an idle machine
MARK = "HERMES_RUN_TEST"
# Root may write everywhere; without these capabilities (1: DAC_OVERRIDE, 2: DAC_READ_SEARCH) it may not.
HUMBLED = (
    "import ctypes, os, sys; [ctypes.CDLL(None).prctl(24, number, 0, 0, 0) for number in (1, 2)];"
    " os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


class Program:
    """`hermes` with these arguments in a folder of its own, its data in `folder/data`."""

    def __init__(self, folder: Path, *arguments: str, humbled: bool = False) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES", "XDG_"))}
        paths = [str(Path(hermes_core.__file__).parents[1]), own.get("PYTHONPATH", "")]
        own |= {"HOME": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, paths)), MARK: str(folder)}
        settings = {
            "runtime.data_dir": str(folder / "data"),
            "plugins.demo.pace": "0.005",
            "plugins.shell.enabled": "true",
            "plugins.shell.approval": "never",
        }
        options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        self.out = folder / f"out-{time.monotonic_ns()}"
        self.err = self.out.with_suffix(".err")
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    *(["-c", HUMBLED] if humbled else []),
                    *("-m", "hermes_core", *arguments, *options),
                ],
                cwd=folder,
                env=own,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                bufsize=0,
            )

    def type(self, *lines: str) -> None:
        """Write lines into its input."""
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())

    def end(self, *lines: str) -> str:
        """Type these lines, end the input, wait for the end; gives what it wrote."""
        self.type(*lines)
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0, self.errors()
        return self.output()

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Send a signal and wait for the end; gives the exit code and the seconds that it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(PATIENCE), time.monotonic() - began

    def output(self) -> str:
        """What it wrote to stdout so far."""
        return self.out.read_text()

    def errors(self) -> str:
        """What it wrote to stderr so far."""
        return self.err.read_text()


Start = Callable[..., Program]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts programs that do not outlive the test."""
    started: list[Program] = []

    def begin(*arguments: str, humbled: bool = False) -> Program:
        started.append(Program(tmp_path, *arguments, humbled=humbled))
        return started[-1]

    yield begin
    for one in started:
        assert one.process.stdin is not None
        one.process.stdin.close()
        one.process.kill()
        one.process.wait(PATIENCE)


def until(what: Callable[[], bool]) -> None:
    """Wait until it is so, looking often."""
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def ask(folder: Path, question: str) -> list[str]:
    """What the store answers to an SQL question."""
    with contextlib.closing(sqlite3.connect(f"file:{folder}/data/hermes.db?mode=ro", uri=True)) as connection:
        return [str(value) for (value,) in connection.execute(question)]


def marked(folder: Path) -> list[str]:
    """Every living process that a program in this folder started, that program included."""
    found = []
    for one in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if one.name.isdigit() and f"{MARK}={folder}".encode() in (one / "environ").read_bytes().split(
                b"\0"
            ):
                found.append(f"{one.name}: {(one / 'cmdline').read_bytes()!r}")
    return found


def turn_runs(folder: Path) -> bool:
    """Whether a turn has begun and not ended."""
    with contextlib.suppress(sqlite3.OperationalError):  # there is no table yet
        return bool(ask(folder, "SELECT number FROM turns WHERE end IS NULL"))
    return False


# ---- a pipe


def test_each_line_is_answered_in_order_and_the_end_of_input_waits_for_the_last_answer(start: Start) -> None:
    out = start("chat").end("count to 3", "/nothing", "count to 5", "run echo fifth && echo $((2 * 3))")
    places = [
        out.index(text) for text in ("1, 2, 3", "There is no command /nothing", "1, 2, 3, 4, 5", "fifth\n6")
    ]
    assert places == sorted(places)


def test_what_was_said_is_remembered_by_the_next_start_and_by_no_other_conversation(start: Start) -> None:
    start("chat").end("my cat is called Moritz")
    assert "Moritz" in start("chat").end("what did I say first?")
    assert "Moritz" not in start("chat", "--name", "other").end("what did I say first?")


def test_after_a_kill_the_turn_goes_on_and_what_is_typed_then_is_answered_after_it(
    start: Start, tmp_path: Path
) -> None:
    """(D6)"""
    first = start("chat")
    first.type("count to 1000")
    until(lambda: turn_runs(tmp_path))
    first.process.kill()
    first.process.wait(PATIENCE)
    assert first.output() == ""
    out = start("chat").end("what did I say first?")
    assert out.count("998, 999, 1000") == 1
    assert out.index("998, 999, 1000") < out.index("count to 1000")
    assert ask(tmp_path, "SELECT reply FROM turns ORDER BY number") == ["1", "2"]
    assert start("chat").end() == ""  # all is said


def test_a_tool_that_a_kill_cut_short_is_gone_and_reported_and_not_run_again(
    start: Start, tmp_path: Path
) -> None:
    """(D4, E5)"""
    first = start("chat")
    first.type("run echo once >> ran; sleep 300")
    until((tmp_path / "ran").exists)
    first.process.kill()
    first.process.wait(PATIENCE)
    out = start("chat").end()
    assert "Interrupted by a restart" in out
    assert (tmp_path / "ran").read_text() == "once\n"
    until(lambda: marked(tmp_path) == [])


def test_on_a_full_disk_a_person_reads_one_notice_and_the_answer_when_there_is_room_again(
    start: Start, tmp_path: Path
) -> None:
    """(D7)"""
    one = start("chat")
    one.type("count to 3")
    until(lambda: "1, 2, 3" in one.output() and not turn_runs(tmp_path))
    # As on a full disk, but for the output: that goes into files as well, which may grow up to here.
    sizes = [path.stat().st_size for path in (one.out, one.err)]
    resource.prlimit(one.process.pid, resource.RLIMIT_FSIZE, (max(sizes) + 2000, resource.RLIM_INFINITY))
    one.type("count to 4")
    until(lambda: one.errors() != "")
    resource.prlimit(one.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    out = one.end("count to 5")
    assert out.index("1, 2, 3, 4.") < out.index("1, 2, 3, 4, 5.")
    assert len(one.errors().splitlines()) == 1
    assert "/" not in one.errors()


# ---- a stop


@pytest.mark.parametrize("command", ["chat", "run"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name)
def test_a_signal_stops_it_in_time_with_its_tools_and_what_waits_goes_on_at_the_next_start(
    start: Start, tmp_path: Path, command: str, number: signal.Signals
) -> None:
    arguments = ["run", "--set", "adapters.terminal.enabled=true"] if command == "run" else ["chat"]
    first = start(*arguments)
    # It hears SIGTERM, and does not end of it: the stop has to kill.
    first.type("run echo once >> ran; trap 'echo term >> ran' TERM; while :; do sleep 0.05; done")
    until((tmp_path / "ran").exists)
    code, seconds = first.stop(number)
    assert code == 0, first.errors()
    assert seconds < 5
    assert marked(tmp_path) == []
    assert turn_runs(tmp_path)
    assert first.output() == ""
    out = start(*arguments).end("count to 3")
    assert "Interrupted by a restart" in out
    assert out.index("Interrupted by a restart") < out.index("1, 2, 3")
    assert (tmp_path / "ran").read_text().splitlines().count("once") == 1


def test_an_idle_run_is_ready_in_one_line_and_a_stop_ends_it_at_once(start: Start) -> None:
    one = start("run", "--set", "adapters.terminal.enabled=true")
    until(lambda: one.errors() != "")
    assert one.errors() == "ready: terminal\n"
    code, seconds = one.stop()
    assert (code, one.errors()) == (0, "ready: terminal\n")
    assert seconds < 2


def test_a_signal_before_it_is_ready_ends_it_too(start: Start, tmp_path: Path) -> None:
    one = start("run", "--set", "adapters.terminal.enabled=true")
    until((tmp_path / "data").exists)
    code, seconds = one.stop()
    assert code == 0, one.errors()
    assert seconds < 5


# ---- a folder


@pytest.mark.parametrize("command", ["chat", "run"])
def test_a_second_process_is_refused_in_plain_words_and_the_first_goes_on(
    start: Start, tmp_path: Path, command: str
) -> None:
    first = start("chat")
    first.type("count to 3")
    until(lambda: "1, 2, 3" in first.output())
    second = start(command, "--set", "adapters.terminal.enabled=true")
    assert second.process.wait(PATIENCE) == 1
    assert second.output() == ""
    assert second.errors().startswith(
        f"hermes: The data folder is in use by process {first.process.pid}. The data folder is /"
    )
    assert len(second.errors().splitlines()) == 2
    assert "1, 2, 3, 4" in first.end("count to 4")


def only_to_read(data: Path) -> None:
    """A folder with a database of an earlier run, in which nothing may be written."""
    for path in (*data.rglob("*"), data):
        path.chmod(0o500 if path.is_dir() else 0o400)


def nowhere_to_make_it(data: Path) -> None:
    """It is not there, and its place is somebody else's."""
    shutil.rmtree(data)
    data.symlink_to("/proc/hermes-data")


def not_even_to_read(data: Path) -> None:
    """Somebody else's folder."""
    data.chmod(0o000)


def a_file(data: Path) -> None:
    """Something else has its name."""
    shutil.rmtree(data)
    data.write_text("no folder")


@pytest.mark.parametrize("command", ["chat", "run"])
@pytest.mark.parametrize(
    "spoil", [only_to_read, not_even_to_read, nowhere_to_make_it, a_file], ids=lambda one: one.__name__
)
def test_a_data_folder_that_cannot_be_used_is_a_plain_error_at_the_start(
    start: Start, tmp_path: Path, command: str, spoil: Callable[[Path], None]
) -> None:
    """(D7)"""
    start("chat").end("my cat is called Moritz")
    data = tmp_path / "data"
    try:
        spoil(data)
        one = start(command, "--set", "adapters.terminal.enabled=true", humbled=True)
        assert one.process.wait(PATIENCE) in (1, 2)
        assert one.output() == ""
        lines = one.errors().splitlines()
        assert lines[0].startswith("hermes: ")
        assert len(lines) <= 2
        assert "fault of the program" not in one.errors()
    finally:
        tmp_path.chmod(0o700)
        if data.exists():
            data.chmod(0o700)
