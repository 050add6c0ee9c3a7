"""The contract of all adapters, on the terminal without a terminal: lines in, lines out."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_core.adapter import Adapter, Sent
from hermes_core.messages import Address, Message, Outgoing
from hermes_core.testing.adapter_contract import AdapterContract
from hermes_core.testing.driver import Driver, Impossible, Post
from hermes_terminal.pipe import PipeAdapter, Streams
from hermes_terminal.seat import Seat

_FILE = re.compile(r"^📎 (.*) \([^()]*\): (/.*)$", re.MULTILINE)


class Numbered(Seat, frozen=True):
    """A seat whose messages have ids that a test can know: the next one of `ids`."""

    ids: Iterator[int]

    def message(self, text: str) -> Message:
        return Message(f"line-{next(self.ids)}", self.address, self.author, text, sent=0.0)


class Watched(PipeAdapter):
    """It notes after each message how far the output is, so that one can be told from the next."""

    def __init__(self, driver: PipeDriver, seat: Seat, streams: Streams) -> None:
        super().__init__(seat, streams, retry=(0.01,) * 5)
        self._driver = driver

    async def send(self, outgoing: Outgoing) -> Sent:
        try:
            return await super().send(outgoing)
        finally:
            self._driver.note()


class PipeDriver:
    """Somebody who types lines into the program, and reads what it writes into a file."""

    without = frozenset({"limited", "cut before", "cut after", "refused", "repeated"})

    def __init__(self, folder: Path) -> None:
        plain = Seat.of("main")
        self._seat = Numbered(plain.address, plain.author, itertools.count())
        self._said = itertools.count()
        self._out = (folder / "output").open("w+b")
        self._ends: list[int] = []
        self._posts: list[Post] = []
        self._read = 0

    def open(self, folder: Path) -> Adapter:
        near, far = os.pipe()
        self._ends += [near, far]
        return Watched(self, self._seat, Streams(near, self._out.fileno(), self._out.fileno()))

    def note(self) -> None:
        self._out.flush()
        whole = Path(self._out.name).read_bytes()
        text, self._read = whole[self._read :].decode(), len(whole)
        files = tuple((name, Path(path).read_bytes()) for name, path in _FILE.findall(text))
        self._posts.append(Post(str(len(self._posts)), text.removesuffix("\n"), files=files))

    def close(self) -> None:
        self._out.close()
        for end in reversed(self._ends):
            os.close(end)

    def person(self, name: str) -> str:
        return self._seat.author.id

    def home(self) -> Address:
        return self._seat.address

    def thread(self) -> Address:
        raise Impossible("a terminal has no threads")

    async def say(
        self,
        text: str,
        address: Address | None = None,
        author: str = "ann",
        *,
        reply_to: str | None = None,
        files: tuple[tuple[str, bytes], ...] = (),
    ) -> str:
        if author == "robot" or reply_to is not None or files or "\n" in text:
            raise Impossible("one person types lines, and nothing else")
        os.write(self._ends[-1], text.encode() + b"\n")
        return f"line-{next(self._said)}"

    async def edit(self, id: str, text: str, address: Address | None = None) -> None:
        raise Impossible("what is typed is typed")

    async def delete(self, id: str, address: Address | None = None) -> None:
        raise Impossible("what is typed is typed")

    async def press(self, post: Post, label: str, address: Address | None = None) -> None:
        raise Impossible("no buttons")

    async def repeat(self, id: str, address: Address | None = None) -> None:
        raise Impossible("each line comes once")

    async def trouble(self, kind: str, address: Address | None = None) -> None:
        raise Impossible("a file takes everything")

    async def seen(self, address: Address | None = None) -> list[Post]:
        return list(self._posts)

    async def receipts(self, address: Address | None = None) -> list[str]:
        raise Impossible("nothing passing is shown")

    async def status(self, address: Address | None = None) -> bool:
        raise Impossible("nothing passing is shown")

    async def registered(self) -> list[str]:
        raise Impossible("nothing completes what is typed into a pipe")


class TestPipe(AdapterContract):
    """Lines through real descriptors."""

    @pytest.fixture
    def driver(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
        driver = PipeDriver(tmp_path_factory.mktemp("pipe"))
        yield driver
        driver.close()
