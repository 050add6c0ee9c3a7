"""For tests of model plugins: llmock as a process of its own, servers that are none, an environment.

Needs `llmock` beside the running Python for `llmock()` only. Nothing in the package imports this.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

__all__ = ["Llmock", "environment", "listening", "llmock"]

_START: Final = 30.0  # seconds


class Llmock:
    """A running llmock, driven over its HTTP interface. `root` is its address, each provider's below it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.root = f"http://127.0.0.1:{port}"

    def queue(self, *behaviours: dict[str, object]) -> None:
        """Let it behave so for the next requests."""
        self._tell("/_llmock/scenario", {"behaviors": list(behaviours)})

    def reset(self) -> None:
        """Forget everything."""
        self._tell("/_llmock/reset", {})

    def ready(self) -> bool:
        """Whether it answers yet."""
        try:
            return self._ask("GET", "/health") == 200
        except OSError:
            return False

    def _ask(self, method: str, path: str, body: object = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request(method, path, json.dumps(body), {"content-type": "application/json"})
            return connection.getresponse().status
        finally:
            connection.close()

    def _tell(self, path: str, body: object) -> None:
        status = self._ask("POST", path, body)
        assert status in (200, 201), f"llmock answered {status}"


@contextlib.contextmanager
def llmock() -> Iterator[Llmock]:
    """Run `llmock serve` on a free port for as long as this is open."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(Path(sys.executable).with_name("llmock")), "serve", "-p", str(port), "--host", "127.0.0.1"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "NO_COLOR": "1"}
    )
    try:
        running = Llmock(port)
        deadline = time.monotonic() + _START
        while not running.ready():
            assert process.poll() is None, "llmock ended at once"
            assert time.monotonic() < deadline, f"llmock did not start within {_START:g} s"
            time.sleep(0.05)
        yield running
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.asynccontextmanager
async def listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """A server that is no model server at all; gives its port."""
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set environment variables for a while."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
