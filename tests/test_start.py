"""What a start loads: no SDK of a model or platform, no web server; `hermes --version` next to nothing.

Everything that is loaded without need costs every start its time and memory; `bench/start.py` measures.
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

PROMPT = "›".encode()
SHOW = """
import sys
from hermes_core.cli import main
try:
    main(sys.argv[1:])
finally:
    sys.stderr.write("\\n" + " ".join(sorted(sys.modules)))
"""
LASTING = """
import gc, os, signal, sys, threading, time
from hermes_core.cli import main
before = gc.get_threshold()
def stop():
    limit = time.monotonic() + 20
    while gc.get_freeze_count() < 10_000 and time.monotonic() < limit:
        time.sleep(0.01)
    sys.stderr.write(f"left alone: {gc.get_freeze_count() >= 10_000}\\n")
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=stop, daemon=True).start()
main(sys.argv[1:])
sys.stderr.write(f"as before: {(gc.get_freeze_count(), gc.get_threshold()) == (0, before)}\\n")
"""
# what the core and the plugins that are on by default are made of, beside the standard library
CORE = {"hermes_core", "msgspec", "platformdirs", "pluggy", "typing_extensions"}
PLUGINS = {
    "access",
    "after",
    "anthropic",
    "basics",
    "busy",
    "demo",
    "files",
    "followup",
    "jobs",
    "memory",
    "openai",
    "steer",
    "terminal",
}
TERMINAL = {"markdown_it", "mdurl", "prompt_toolkit", "pygments", "rich", "wcwidth"}


def foreign(modules: set[str]) -> set[str]:
    """The top-level packages among these that are neither of the standard library nor expected in every start."""
    names = {name.partition(".")[0] for name in modules}
    ours = CORE | {f"hermes_{name}" for name in PLUGINS}
    return {name for name in names - sys.stdlib_module_names - ours if not name.startswith("_")}


def environment() -> dict[str, str]:
    """Without the settings of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HERMES")}
    return {**kept, "TERM": "xterm-256color"}


def chat(folder: Path) -> list[str]:
    """A conversation with the offline model, as a program that tells what it loaded."""
    settings = ["--set", f"runtime.data_dir={folder}", "--set", "model.provider=demo"]
    return [sys.executable, "-c", SHOW, "chat", *settings]


def test_the_version_is_told_without_loading_the_house() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW, "--version"],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    modules = set(done.stderr.split())
    assert done.stdout.startswith("hermes ")
    assert foreign(modules) == set()
    assert not modules & {
        "asyncio",
        "msgspec",
        "pluggy",
        "sqlite3",
        "hermes_core.config",
        "hermes_core.runtime",
    }


def test_a_conversation_over_a_pipe_loads_neither_an_sdk_nor_a_server_nor_a_screen(tmp_path: Path) -> None:
    done = subprocess.run(
        chat(tmp_path),
        input="/status\n",
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
        cwd=tmp_path,
    )
    assert "demo" in done.stdout
    modules = set(done.stderr.split())
    assert "hermes_core.runtime" in modules
    assert foreign(modules) == set()


def test_a_conversation_on_a_terminal_loads_a_screen_and_no_more(tmp_path: Path) -> None:
    terminal, other = pty.openpty()
    with subprocess.Popen(
        chat(tmp_path), stdin=other, stdout=other, stderr=subprocess.PIPE, env=environment(), cwd=tmp_path
    ) as process:
        os.close(other)
        assert PROMPT in shown(terminal)
        os.write(terminal, b"\x04")
        assert process.stderr is not None
        told = process.stderr.read().decode()
        assert process.wait() == 0
    os.close(terminal)
    modules = set(told.split())
    assert "prompt_toolkit" in modules
    assert foreign(modules) <= TERMINAL


def test_the_garbage_collector_leaves_alone_what_stood_when_the_program_began_to_serve(
    tmp_path: Path,
) -> None:
    settings = [f"runtime.data_dir={tmp_path}", "model.provider=demo", "adapters.terminal.enabled=true"]
    reading, writing = os.pipe()  # somebody who types nothing
    done = subprocess.run(
        [sys.executable, "-c", LASTING, "run", *(word for one in settings for word in ("--set", one))],
        stdin=reading,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
        env=environment(),
        cwd=tmp_path,
        timeout=60,
    )
    os.close(reading)
    os.close(writing)
    assert {"left alone: True", "as before: True"} <= set(done.stderr.splitlines())


def shown(terminal: int) -> bytes:
    """What is shown up to the prompt, or within 20 seconds."""
    seen = b""
    limit = time.monotonic() + 20
    while PROMPT not in seen and select.select([terminal], [], [], max(0, limit - time.monotonic()))[0]:
        seen += os.read(terminal, 65536)
    return seen
