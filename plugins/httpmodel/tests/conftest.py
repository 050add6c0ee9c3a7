"""A model of the smallest form, and a scripted server for it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable

import pytest

from hermes_core.models import Delta, Request, Stop, Text
from hermes_httpmodel import faults
from hermes_httpmodel.fixtures import server
from hermes_httpmodel.model import HttpModel
from hermes_httpmodel.pictures import Pictures
from hermes_httpmodel.server import Server
from hermes_httpmodel.stream import Events

__all__ = ["open_", "server"]

Open = Callable[..., HttpModel]


class Plain:
    """Reads text, and the end, out of the server's chunks."""

    def __init__(self) -> None:
        self.finished = False
        self._events = Events()

    def feed(self, piece: bytes) -> list[Delta]:
        deltas: list[Delta] = []
        for event in self._events.feed(piece):
            if event.data == "[DONE]":
                self.finished = True
                continue
            for choice in json.loads(event.data)["choices"]:
                deltas += [Text(text) for text in choice["delta"].values()]
        return deltas

    def whole(self, body: bytes) -> list[Delta]:
        self.finished = True
        return [Text(body.decode())]

    def end(self) -> list[Delta]:
        if not self.finished:
            raise faults.cut()
        return [Stop("end")]


class PlainModel(HttpModel):
    """The smallest user of `HttpModel`."""

    def __init__(self, server: Server) -> None:
        headers = {"authorization": f"Bearer {server.key}"}
        super().__init__(server, f"{server.base_url}/chat/completions", headers, "it is nowhere")

    def write(self, request: Request, shown: Pictures) -> bytes:
        return b"{}"

    def read(self, request: Request) -> Plain:
        return Plain()


@pytest.fixture
async def open_() -> AsyncIterator[Open]:
    """Opens models with the key "sk-secret", and closes them after the test."""
    opened: list[HttpModel] = []

    def make(base_url: str, timeout: float = 5.0) -> HttpModel:
        opened.append(PlainModel(Server("some-model", base_url, "sk-secret", timeout)))
        return opened[-1]

    yield make
    for model in opened:
        await model.aclose()
