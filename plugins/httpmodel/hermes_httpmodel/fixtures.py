"""Fixtures for tests of model plugins: a scripted server, llmock, and models that are closed again.

Needs pytest, and pytest-asyncio in auto mode. Nothing in the package imports this. A conftest takes them in by name:

    from hermes_httpmodel.fixtures import llmock_process, mock, opening, server

    __all__ = ["llmock_process", "mock", "open_", "server"]
    open_ = opening("openai", open_model)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

import pytest

from hermes_core.config import ModelSettings, Secrets
from hermes_core.models import Model
from hermes_core.testing.model_server import ModelServer
from hermes_httpmodel.testing import Llmock, llmock

__all__ = ["llmock_process", "mock", "opening", "server"]

M = TypeVar("M", bound=Model)


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    """A scripted server; see `hermes_core.testing.model_server`."""
    async with ModelServer() as started:
        yield started


def opening(provider: str, open_model: Callable[[ModelSettings], M]) -> Any:
    """A fixture that opens models with the key "sk-secret", and closes them after the test."""

    @pytest.fixture
    async def open_() -> AsyncIterator[Callable[..., M]]:
        opened: list[M] = []

        def make(base_url: str, timeout: float = 5.0) -> M:
            secrets = Secrets({"KEY": "sk-secret"})
            settings = ModelSettings(provider, "some-model", base_url, "KEY", timeout, secrets=secrets)
            opened.append(open_model(settings))
            return opened[-1]

        yield make
        for model in opened:
            await model.aclose()

    return open_


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
