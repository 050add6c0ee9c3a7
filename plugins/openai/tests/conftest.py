"""Real servers for the model: our own scripted one, and llmock as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from hermes_core.config import ModelSettings, Secrets
from hermes_core.testing.model_server import ModelServer
from hermes_openai.model import OpenAIModel, open_model

Open = Callable[..., OpenAIModel]


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """A scripted server; see `hermes_core.testing.model_server`."""
    async with ModelServer() as started:
        yield started


@pytest.fixture
async def open_() -> AsyncIterator[Open]:
    """Opens models with the key "sk-secret", and closes them after the test."""
    opened: list[OpenAIModel] = []

    def make(base_url: str, timeout: float = 5.0) -> OpenAIModel:
        secrets = Secrets({"KEY": "sk-secret"})
        settings = ModelSettings("openai", "some-model", base_url, "KEY", timeout, secrets=secrets)
        opened.append(open_model(settings))
        return opened[-1]

    yield make
    for model in opened:
        await model.aclose()


class Llmock:
    """A running llmock, driven over its HTTP interface."""

    def __init__(self, port: int) -> None:
        self.root = f"http://127.0.0.1:{port}"
        self.base_url = f"{self.root}/v1"

    def queue(self, *behaviours: dict[str, object]) -> None:
        """Let it behave so for the next requests."""
        self._call("/_llmock/scenario", {"behaviors": list(behaviours)})

    def reset(self) -> None:
        """Forget everything."""
        self._call("/_llmock/reset", {})

    def ready(self) -> bool:
        """Whether it answers yet."""
        try:
            with urllib.request.urlopen(f"{self.root}/health", timeout=2):
                return True
        except OSError:
            return False

    def _call(self, path: str, body: object) -> None:
        request = urllib.request.Request(f"{self.root}{path}", json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=5):
            pass


@pytest.fixture(scope="session")
def llmock_process() -> Iterator[Llmock]:
    """One `llmock serve` for all tests."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(Path(sys.executable).with_name("llmock")), "serve", "-p", str(port), "--host", "127.0.0.1"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "NO_COLOR": "1"}
    )
    try:
        running = Llmock(port)
        deadline = time.monotonic() + 30
        while not running.ready():
            assert process.poll() is None, "llmock ended at once"
            assert time.monotonic() < deadline, "llmock did not start within 30 s"
            time.sleep(0.05)
        yield running
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture
def mock(llmock_process: Llmock) -> Llmock:
    """The running llmock, with nothing queued."""
    llmock_process.reset()
    return llmock_process
