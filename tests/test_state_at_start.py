"""A start with a state file that is broken: it decides who may do what, so nobody is served by a guess (X1, P4)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FILES = ("people.toml", "rules.toml", "plugins.toml")


def chat(folder: Path, said: str) -> subprocess.CompletedProcess[str]:
    """`hermes chat` over a pipe with the offline model, its data in `folder`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HERMES")}
    settings = ["--set", f"runtime.data_dir={folder}", "--set", "model.provider=demo"]
    return subprocess.run(
        [sys.executable, "-m", "hermes_core", "chat", *settings],
        input=said,
        capture_output=True,
        text=True,
        env=kept,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("text", ["half = [", "people = 3\nversion = 'x'\ncommands = 1\n"])
def test_a_state_file_that_is_broken_at_the_start_is_said_and_nobody_is_served(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    done = chat(tmp_path, "/status\n")
    assert done.returncode != 0
    assert done.stdout == ""
    assert name in done.stderr
    assert "away" in done.stderr  # what to do
    assert "Traceback" not in done.stderr
    assert (tmp_path / name).read_text(encoding="utf-8") == text


def test_what_was_switched_off_stays_off_when_the_file_breaks_under_a_start(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text('["*".commands.status]\nenabled = false\n', encoding="utf-8")
    assert "There is no command /status" in chat(tmp_path, "/status\n").stdout
    with (tmp_path / "rules.toml").open("a", encoding="utf-8") as file:
        file.write("[x")
    assert chat(tmp_path, "/status\n").stdout == ""
