"""`hermes chat` over a pipe says with its exit code whether all was answered and written."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hermes_core

NO_MODEL = ("model.provider=openai", "model.name=x", "model.base_url=http://127.0.0.1:9/v1")


def environment(folder: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES", "XDG_"))}
    paths = [str(Path(hermes_core.__file__).parents[1]), own.get("PYTHONPATH", "")]
    return own | {"HOME": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def chat(folder: Path, lines: str, *settings: str, redirect: str = "") -> tuple[int, str, list[str]]:
    """One run over a pipe: exit code, output, and the lines on stderr. `redirect` is for the shell."""
    given = (f"runtime.data_dir={folder / 'data'}", "plugins.demo.pace=0", *settings)
    options = " ".join(f"--set {one}" for one in given)
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec {sys.executable} -m hermes_core chat {options} {redirect}"],
        input=lines,
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr.splitlines()


def test_all_answered_is_0(tmp_path: Path) -> None:
    code, out, said = chat(tmp_path, "hello\n/status\n/nonsense\n")
    assert (code, said) == (0, [])
    assert "There is no command /nonsense" in out


def test_a_turn_that_failed_is_3_and_its_reason_stands_on_stderr(tmp_path: Path) -> None:
    code, out, said = chat(tmp_path, "hello\n/status\nhello again\n", *NO_MODEL)
    assert code == 3
    assert said == [
        "The model server cannot be reached. Try again in a moment.",
        "The model server cannot be reached. Try again in a moment.",
        "hermes: 2 of 3 messages not answered: the reason stands above.",
    ]
    assert "hello" not in out
    assert out.strip(), "what was answered is there"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full (Linux)")
def test_an_output_that_takes_nothing_is_said_in_plain_words_and_the_reply_comes_at_the_next_start(
    tmp_path: Path,
) -> None:
    code, _, said = chat(tmp_path, "count to 5\ncount to 7\n", redirect=">/dev/full")
    assert code == 3
    assert said == [
        "hermes: The output takes nothing: No space left on device.",
        "What is missing comes at the next start.",
    ]
    code, out, said = chat(tmp_path, "")
    assert (code, said) == (0, [])
    assert "1, 2, 3, 4, 5. Done." in out
    assert "1, 2, 3, 4, 5, 6, 7" not in out, "a line that was not read is nobody's"


def test_a_closed_output_is_said_before_anything_is_asked(tmp_path: Path) -> None:
    code, out, said = chat(tmp_path, "hello\n", redirect="1>&-")
    assert (code, out) == (2, "")
    assert said == [
        "hermes: The output is closed, so replies have nowhere to go.",
        "Send it somewhere: hermes chat >FILE",
    ]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full (Linux)")
def test_a_command_whose_result_cannot_be_written_says_so_in_one_line(tmp_path: Path) -> None:
    own = {**os.environ, "HOME": str(tmp_path)}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "hermes_core", "config", "show"],
            cwd=tmp_path,
            env=own,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        "hermes: the output cannot be written: No space left on device.\n",
    )


def turn_runs(folder: Path) -> bool:
    with contextlib.suppress(sqlite3.Error):
        path = f"file:{folder / 'data' / 'hermes.db'}?mode=ro"
        with contextlib.closing(sqlite3.connect(path, uri=True)) as connection:
            return connection.execute("SELECT 1 FROM turns WHERE end IS NULL").fetchone() is not None
    return False


def test_a_turn_that_a_killed_run_left_shows_its_reply_before_anything_is_read(tmp_path: Path) -> None:
    options = [f"--set=runtime.data_dir={tmp_path / 'data'}", "--set=plugins.demo.pace=1"]
    words = [sys.executable, "-m", "hermes_core", "chat", *options]
    with subprocess.Popen(words, cwd=tmp_path, env=environment(tmp_path), stdin=subprocess.PIPE) as first:
        assert first.stdin is not None
        first.stdin.write(b"count to 50\n")
        first.stdin.flush()
        until = time.monotonic() + 30
        while not turn_runs(tmp_path):
            assert time.monotonic() < until, "it never began"
            time.sleep(0.02)
        first.kill()
    code, out, said = chat(tmp_path, "/status\n")
    assert (code, said) == (0, [])
    assert out.index("49, 50. Done.") < out.index("Replies so far")
