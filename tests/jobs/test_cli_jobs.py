"""`hermes jobs` as people call it, beside a running Hermes and without one (J5, J12, J13)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import hermes_core
from hermes_core.processes import tree

pytestmark = pytest.mark.skipif(not tree.VISIBLE, reason="kept processes are proven with /proc")

ROOT = Path(hermes_core.__file__).parents[1]


def environment(folder: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES", "XDG_"))}
    return own | {
        "HOME": str(folder),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), own.get("PYTHONPATH")])),
        "HERMES__RUNTIME__DATA_DIR": str(folder / "data"),
        "HERMES__PLUGINS__SHELL__ENABLED": "true",
        "HERMES__PLUGINS__SHELL__APPROVAL": "never",
        "HERMES__PLUGINS__DEMO__PACE": "0",
    }


def hermes(folder: Path, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "hermes_core", *words],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout, done.stderr


def listed(folder: Path, *words: str) -> list[dict[str, Any]]:
    code, out, err = hermes(folder, "jobs", "list", "--json", *words)
    assert (code, err) == (0, "")
    found: list[dict[str, Any]] = json.loads(out)
    return found


def until(condition: Callable[[], Any], seconds: float = 20.0) -> Any:
    limit = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < limit, "it never came true"
        time.sleep(0.05)
    return found


def sleeping(mark: str) -> list[int]:
    return [one.pid for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", mark]]


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    text = f"{3000 + os.getpid() % 1000}.{abs(hash(str(tmp_path))) % 10**9:09d}"
    yield text
    until(lambda: not sleeping(text))


class Chat:
    """A chat over a pipe that stays open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        with self.out.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hermes_core", "chat"],
                cwd=folder,
                env=environment(folder),
                stdin=subprocess.PIPE,
                stdout=out,
            )

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def said(self) -> str:
        return self.out.read_text()

    def close(self, *, kill: bool = False) -> None:
        if kill:
            self.process.kill()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)


def test_without_any_data_there_are_no_jobs(tmp_path: Path) -> None:
    assert hermes(tmp_path, "jobs", "list") == (0, "There are no jobs.\n", "")
    assert listed(tmp_path) == []
    code, out, err = hermes(tmp_path, "jobs", "show", "j1")
    assert (code, out, err) == (1, "", "hermes: There is no job 'j1'.\nSee: hermes jobs list\n")
    assert not (tmp_path / "data").exists(), "reading makes nothing"


def test_beside_a_running_program_jobs_are_listed_shown_and_stopped_and_the_chat_is_told(
    tmp_path: Path, mark: str
) -> None:
    chat = Chat(tmp_path)
    try:
        chat.type(f"start echo hello; exec sleep {mark}")
        until(lambda: sleeping(mark))
        (job,) = listed(tmp_path, "--open")
        assert (job["tool"], job["status"], job["runs"]) == ("start_command", "running", 1)
        assert mark in job["arguments"]
        id_ = job["id"]
        _, out, _ = hermes(tmp_path, "jobs")
        assert out.split()[:2] == [id_, "running"]
        shown = json.loads(hermes(tmp_path, "jobs", "show", id_, "--json")[1])
        assert Path(shown["output"]).read_text() == "hello\n"
        code, out, err = hermes(tmp_path, "jobs", "stop", id_)
        assert (code, out, err) == (0, f"{id_}: cancelled, It was stopped on request.\n", "")
        assert not sleeping(mark)
        until(lambda: f"job_cancelled job_id={id_}" in chat.said())
        again = hermes(tmp_path, "jobs", "stop", id_)
        assert again == (0, f"{id_}: cancelled, It was stopped on request.\n", "")
        assert listed(tmp_path, "--open") == []
        text = hermes(tmp_path, "jobs", "show", id_)[1]
        assert "summary: It was stopped on request." in text
        for name in ("created", "started", "ended", "deadline"):
            assert isinstance(shown[name], float) or name == "ended", "JSON has seconds since 1970"
            assert re.search(rf"^{name}: \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d \w+$", text, re.MULTILINE)
    finally:
        chat.close()


def test_case_27_after_a_kill_the_job_goes_on_and_is_stopped_without_a_program(
    tmp_path: Path, mark: str
) -> None:
    chat = Chat(tmp_path)
    try:
        chat.type(f"start exec sleep {mark}")
        until(lambda: sleeping(mark))
    finally:
        chat.close(kill=True)
    (pid,) = sleeping(mark)
    (job,) = listed(tmp_path)
    code, out, _ = hermes(tmp_path, "jobs", "stop", job["id"])
    assert (code, out) == (0, f"{job['id']} is asked to end; its state is known when Hermes runs.\n")
    until(lambda: not psutil.pid_exists(pid))
    chat = Chat(tmp_path)
    try:
        until(lambda: f"job_cancelled job_id={job['id']}" in chat.said())
    finally:
        chat.close()
    assert [one["status"] for one in listed(tmp_path)] == ["cancelled"]


def test_a_chat_that_ends_leaves_its_job_running_and_the_next_one_is_told(tmp_path: Path) -> None:
    chat = Chat(tmp_path)
    chat.type(f"start while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo at last")
    until(lambda: listed(tmp_path, "--open"))
    chat.close()
    (tmp_path / "go").touch()
    chat = Chat(tmp_path)
    try:
        until(lambda: "summary: exit code 0: at last" in chat.said())
    finally:
        chat.close()


@pytest.mark.parametrize("words", [("jobs", "list", "--limit", "0"), ("jobs", "show"), ("jobs", "stpo", "j")])
def test_bad_words_are_answered_in_two_lines(tmp_path: Path, words: tuple[str, ...]) -> None:
    code, out, err = hermes(tmp_path, *words)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 2
