"""Real servers for the model: our own scripted one, and llmock as a process of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from hermes_anthropic.model import AnthropicModel, open_model
from hermes_core.config import ModelSettings, Secrets
from hermes_core.testing.model_server import ModelServer
from hermes_httpmodel.testing import Llmock, llmock

Open = Callable[..., AnthropicModel]


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """A scripted server; see `hermes_core.testing.model_server`."""
    async with ModelServer() as started:
        yield started


@pytest.fixture
async def open_() -> AsyncIterator[Open]:
    """Opens models with the key "sk-secret", and closes them after the test."""
    opened: list[AnthropicModel] = []

    def make(base_url: str, timeout: float = 5.0) -> AnthropicModel:
        secrets = Secrets({"KEY": "sk-secret"})
        settings = ModelSettings("anthropic", "some-model", base_url, "KEY", timeout, secrets=secrets)
        opened.append(open_model(settings))
        return opened[-1]

    yield make
    for model in opened:
        await model.aclose()


@pytest.fixture(scope="session")
def llmock_process() -> Iterator[Llmock]:
    """One `llmock serve` for all tests."""
    with llmock() as running:
        yield running


@pytest.fixture
def mock(llmock_process: Llmock) -> Llmock:
    """The running llmock, with nothing queued."""
    llmock_process.reset()
    return llmock_process
