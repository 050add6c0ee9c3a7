"""A stop is bounded whatever a job, a tool, a model, an adapter or a hook does: real processes, SIGTERM (P2)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hermes_core

PATIENCE = 15.0  # seconds; what is waited for takes far less on an idle machine
IN_TIME = 10.0  # seconds from the signal to the end of the process

Start = Callable[..., "subprocess.Popen[bytes]"]

# What hangs, and what is typed so that it begins to.
ALL = {
    "job": "start_job",
    "job in a thread": "start_job",
    "job's hook": "start_job",
    "tool": "work",
    "thread": "block",
    "stream": "hello",
    "model": "",
    "adapter": "",
    "hook": "hello",
    "thread of its own": "hello",
    "command": "/hang",
}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `hermes run` with the plugin `stubborn`, of which this hangs."""
    info = tmp_path / "packages" / "stubborn-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stubborn\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[hermes]\nstubborn = stubborn:Stubborn\n")
    started: list[subprocess.Popen[bytes]] = []

    def begin(what: str) -> subprocess.Popen[bytes]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES", "XDG_"))}
        paths = [
            str(info.parent),
            str(Path(__file__).parent),
            str(Path(hermes_core.__file__).parents[1]),
            own.get("PYTHONPATH", ""),
        ]
        own |= {"HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        own |= {"STUBBORN": what, "STUBBORN_UP": str(tmp_path / "up")}
        settings = {
            "runtime.data_dir": str(tmp_path / "data"),
            "plugins.stubborn.enabled": "true",
            "adapters.terminal.enabled": "true",
            "adapters.stubborn.enabled": "true",
            "model.provider": "stubborn",
        }
        options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        with (tmp_path / "out").open("wb") as out:
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "hermes_core", "run", *options],
                    cwd=tmp_path,
                    env=own,
                    stdin=subprocess.PIPE,
                    stdout=out,
                    stderr=out,
                    bufsize=0,
                )
            )
        return started[-1]

    yield begin
    for one in started:
        assert one.stdin is not None
        one.stdin.close()
        one.kill()
        one.wait(PATIENCE)


def until(what: Callable[[], bool], said: Callable[[], str]) -> None:
    """Wait until it is so, looking often."""
    deadline = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < deadline, said()
        time.sleep(0.01)


def stopped(start: Start, folder: Path, *what: str) -> tuple[int, float, str]:
    """Let this hang, and stop it all; gives the exit code, the seconds that it took, and what was said."""
    up = folder / "up"

    def said() -> str:
        return (folder / "out").read_text()

    def hangs() -> set[str]:
        return set(up.read_text().splitlines()) if up.exists() else set()

    program = start(",".join(what))
    until(lambda: "ready:" in said(), said)
    assert program.stdin is not None
    for line in dict.fromkeys(ALL.get(one, "hello") for one in what):
        program.stdin.write(f"{line}\n".encode())
    at_the_stop = {"model"}
    until(lambda: hangs() >= set(what) - at_the_stop, said)
    began = time.monotonic()
    program.send_signal(signal.SIGTERM)
    code = program.wait(PATIENCE)
    seconds = time.monotonic() - began
    assert hangs() == set(what)
    return code, seconds, said()


@pytest.mark.parametrize("what", ALL)
def test_a_stop_is_in_order_and_in_time_whatever_hangs(start: Start, tmp_path: Path, what: str) -> None:
    code, seconds, said = stopped(start, tmp_path, what)
    assert code == 0, said
    assert seconds < IN_TIME
    assert "Traceback" not in said


def test_a_stop_is_in_order_and_in_time_when_much_hangs_at_once(start: Start, tmp_path: Path) -> None:
    code, seconds, said = stopped(start, tmp_path, "job", "model", "adapter", "hook", "thread of its own")
    assert code == 0, said
    assert seconds < IN_TIME
    for named in ("job ", "the model", "adapter stubborn", "hermes_turn_ended", "thread mine"):
        assert named in said, "what is abandoned is named in the log"


@pytest.mark.slow
def test_a_plugin_that_blocks_the_event_loop_is_ended_with_the_process(start: Start, tmp_path: Path) -> None:
    code, seconds, said = stopped(start, tmp_path, "loop")
    assert code == 1
    assert "hermes: did not stop within 10 s, ended" in said
    assert seconds < IN_TIME + 1
