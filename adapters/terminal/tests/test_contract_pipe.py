"""The contract of all adapters, on the terminal without a terminal: lines in, lines out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_core.adapter import Adapter, Sent
from hermes_core.messages import Outgoing
from hermes_core.testing.adapter_contract import AdapterContract
from hermes_core.testing.driver import Driver
from hermes_terminal.pipe import PipeAdapter, Streams
from hermes_terminal.seat import Seat

from .sitting import Sitting


class Watched(PipeAdapter):
    """It notes after each message how far the output is, so that one can be told from the next."""

    def __init__(self, driver: PipeDriver, seat: Seat, streams: Streams) -> None:
        super().__init__(seat, streams, retry=(0.01,) * 5)
        self._driver = driver

    async def send(self, outgoing: Outgoing) -> Sent:
        try:
            return await super().send(outgoing)
        finally:
            self._driver.look()


class PipeDriver(Sitting):
    """Somebody who types lines into the program, and reads what it writes into a file."""

    without = frozenset({"limited", "cut before", "cut after", "refused", "repeated"})
    lines = False

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._out = (folder / "output").open("w+b")
        self._ends: list[int] = []
        self._read = 0

    def open(self, folder: Path) -> Adapter:
        near, far = os.pipe()
        self._ends += [near, far]
        return Watched(self, self.seat, Streams(near, self._out.fileno(), self._out.fileno()))

    def look(self) -> None:
        """What came since the last time is one message."""
        self._out.flush()
        whole = Path(self._out.name).read_bytes()
        text, self._read = whole[self._read :].decode(), len(whole)
        self.note(text.removesuffix("\n"))

    def typed(self, text: str) -> None:
        os.write(self._ends[-1], text.encode() + b"\n")

    def close(self) -> None:
        self._out.close()
        for end in reversed(self._ends):
            os.close(end)


class TestPipe(AdapterContract):
    """Lines through real descriptors."""

    @pytest.fixture
    def driver(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
        driver = PipeDriver(tmp_path_factory.mktemp("pipe"))
        yield driver
        driver.close()
