"""How fast it starts, and how little it loads: `python bench/start.py [--rounds 30]`.

`hermes --version` beside a bare interpreter; `hermes chat` over a pipe, until the answer to the first
command has come, and on a terminal, until the prompt stands there and until the first command is answered.
Then how much memory it has, and which libraries of models, servers and platforms are in it: there should
be none. The model is `demo`. (`tests/test_start.py` holds the last one.)
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERMES = Path(sys.executable).with_name("hermes")
PROMPT = "›".encode()
HEAVY = {
    *(
        "aiohttp",
        "anthropic",
        "anyio",
        "discord",
        "fastapi",
        "flask",
        "google",
        "grpc",
        "h11",
        "httpcore",
        "httpx",
    ),
    *(
        "mistralai",
        "numpy",
        "openai",
        "pydantic",
        "requests",
        "slack_bolt",
        "slack_sdk",
        "starlette",
        "telegram",
    ),
    *("uvicorn", "websockets"),
}
SHOW = """
import sys
from hermes_core.cli import main
main(sys.argv[1:])
sys.stderr.write(" ".join(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def chat(folder: str) -> list[str]:
    """The command line of a conversation with the offline model."""
    return ["chat", "--set", f"runtime.data_dir={folder}", "--set", "model.provider=demo"]


def whole(arguments: list[str]) -> float:
    """Seconds from the start of a program to its end."""
    began = time.perf_counter()
    subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def resident(pid: int) -> float:
    """The resident memory of a process, in MiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def piped(folder: str) -> tuple[float, float]:
    """Seconds to the first line of the first answer over a pipe, and the memory then."""
    began = time.perf_counter()
    with subprocess.Popen(
        [HERMES, *chat(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"/status\n")
        process.stdin.flush()
        process.stdout.readline()
        took = time.perf_counter() - began
        memory = resident(process.pid)
        process.stdin.close()
        process.stdout.read()
    return took, memory


def on_a_terminal(folder: str) -> tuple[float, float, float]:
    """Seconds to the prompt and to the first answer, and the memory then."""
    began = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS="100", LINES="30")
        os.execv(HERMES, [str(HERMES), *chat(folder)])
    try:
        read_until(terminal, PROMPT)
        prompt = time.perf_counter() - began
        os.write(terminal, b"/status\r")
        read_until(terminal, b"demo")
        answer = time.perf_counter() - began
        memory = resident(pid)
        os.write(terminal, b"\x04")
        drain(terminal)
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    return prompt, answer, memory


def read_until(terminal: int, wanted: bytes) -> None:
    """Read what is shown until this is among it."""
    seen = b""
    limit = time.monotonic() + 10
    while wanted not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0, limit - time.monotonic()))
        if not ready:
            raise TimeoutError(f"{wanted!r} is not shown, but {seen[-2000:]!r}")
        data = os.read(terminal, 65536)
        if b"\x1b[6n" in data:  # it asks where the cursor is
            os.write(terminal, b"\x1b[1;1R")
        seen += data


def drain(terminal: int) -> None:
    """Read to the end."""
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        return


def loaded(folder: str) -> set[str]:
    """The top-level modules that are loaded when a conversation has ended."""
    done = subprocess.run(
        [sys.executable, "-c", SHOW, *chat(folder)], input=b"/status\n", capture_output=True, check=True
    )
    return set(done.stderr.decode().splitlines()[-1].split())


def row(title: str, seconds: list[float], target: str = "") -> None:
    """One line of the table."""
    middle, worst = statistics.median(seconds) * 1e3, max(seconds) * 1e3
    print(f"{title:40}{middle:8.0f} {worst:8.0f}   {target}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30)
    rounds = range(parser.parse_args().rounds)
    print(f"{len(rounds)} rounds, milliseconds{'':18}median    worst   target")
    row("python -c pass", [whole([sys.executable, "-c", "pass"]) for _ in rounds])
    row("hermes --version", [whole([str(HERMES), "--version"]) for _ in rounds], "120")
    with tempfile.TemporaryDirectory() as folder:
        piped(folder)
        pipes = [piped(folder) for _ in rounds]
        terminals = [on_a_terminal(folder) for _ in rounds]
        modules = loaded(folder)
    row("hermes chat, pipe: first answer", [one[0] for one in pipes], "500")
    row("hermes chat, terminal: prompt", [one[0] for one in terminals], "500")
    row("hermes chat, terminal: first answer", [one[1] for one in terminals])
    memory = max(one[1] for one in pipes), max(one[2] for one in terminals)
    print(f"memory: over a pipe {memory[0]:.1f} MiB, on a terminal {memory[1]:.1f} MiB; target: below 50")
    print("model SDKs, web servers, platform SDKs loaded:", ", ".join(sorted(HEAVY & modules)) or "none")


if __name__ == "__main__":
    main()
