"""The contract of all adapters, on a real pty: what a person sees, and what comes of what is typed."""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import os
import pty
import re
import struct
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

import pytest

from hermes_core.adapter import Adapter, Sent
from hermes_core.messages import Address, Outgoing
from hermes_core.testing.adapter_contract import AdapterContract
from hermes_core.testing.driver import Driver, Impossible, Post
from hermes_terminal.chat import ChatAdapter
from hermes_terminal.seat import Seat

from .test_contract_pipe import Numbered
from .virtual_terminal import Screen

COLUMNS, ROWS = 2_000, 60  # so wide that the terminal wraps hardly anything
_FILE: Final = re.compile(r"^📎 (.*) \([^()]*\): (/.*)$", re.MULTILINE)
_REGION: Final = 3  # rows below what is printed: a blank one, the prompt, the status
_OTHERS: Final = ("› ", "  ↳", "Hermes, conversation")  # what was typed, receipts, the welcome


class Window:
    """One pty: a screen on its far end, which a thread keeps reading."""

    def __init__(self) -> None:
        self.far, self._near = pty.openpty()
        fcntl.ioctl(self._near, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.stdin = os.fdopen(os.dup(self._near), "r", encoding="utf-8")
        self.stdout = os.fdopen(os.dup(self._near), "w", encoding="utf-8")
        self.screen = Screen(COLUMNS, ROWS)
        self.noted = 0  # lines that belong to messages which were sent
        self._came = bytearray()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._read, name="pty", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self.far, 1 << 16)
            except OSError:  # nobody has the near end any more
                return
            with self._lock:
                self._came += data

    def lines(self) -> list[str]:
        """What stands above the prompt, drafts included."""
        with self._lock:
            text = self._came.decode("utf-8", "ignore")
            rest = len(self._came) - len(text.encode())
            del self._came[: len(self._came) - rest]
        self.screen.feed(text)
        lines = self.screen.lines
        return lines[:-_REGION] if len(lines) > _REGION else []

    def status(self) -> str:
        self.lines()
        return self.screen.lines[-1]

    def close(self) -> None:
        for stream in (self.stdin, self.stdout):
            stream.close()
        os.close(self._near)
        self._thread.join(5)
        os.close(self.far)


class Watched(ChatAdapter):
    """It notes after each message how far the screen is, so that one can be told from the next."""

    def __init__(self, driver: ChatDriver, seat: Seat, stdin: TextIO, stdout: TextIO) -> None:
        super().__init__(seat, stdin, stdout, markdown=False)
        self._driver = driver

    async def send(self, outgoing: Outgoing) -> Sent:
        sent = await super().send(outgoing)
        await self._driver.note(outgoing)
        return sent


class ChatDriver:
    """A person at the keyboard, in a new window for each start."""

    without = frozenset({"limited", "cut before", "cut after", "refused", "repeated", "unwritable"})

    def __init__(self) -> None:
        plain = Seat.of("main")
        self._seat = Numbered(plain.address, plain.author, itertools.count())
        self._said = itertools.count()
        self._windows: list[Window] = []
        self._posts: list[Post] = []

    def open(self, folder: Path) -> Adapter:
        window = Window()
        self._windows.append(window)
        return Watched(self, self._seat, window.stdin, window.stdout)

    async def note(self, outgoing: Outgoing) -> None:
        """Wait until the end of what was sent is on the screen, and take all that is new for one message."""
        window = self._windows[-1]
        before = -1
        while (count := len(window.lines())) != before:  # the thread has read what was written
            before = count
            await asyncio.sleep(0.02)
        text = "\n".join(self._shown(window.lines()[window.noted :]))
        window.noted = count
        files = tuple((name, Path(path).read_bytes()) for name, path in _FILE.findall(text))
        self._posts.append(Post(str(len(self._posts)), text, files=files))

    def _shown(self, lines: list[str]) -> list[str]:
        return [line for line in lines if not line.startswith(_OTHERS)]

    def close(self) -> None:
        for window in self._windows:
            window.close()

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
        if author == "robot" or reply_to is not None or files:
            raise Impossible("one person types, and nothing else")
        typed = text.replace("\n", "\x1b\r") + "\r"  # Alt+Enter begins a line, Enter sends
        os.write(self._windows[-1].far, typed.encode())
        return f"line-{next(self._said)}"

    async def edit(self, id: str, text: str, address: Address | None = None) -> None:
        raise Impossible("what is sent is sent")

    async def delete(self, id: str, address: Address | None = None) -> None:
        raise Impossible("what is sent is sent")

    async def press(self, post: Post, label: str, address: Address | None = None) -> None:
        raise Impossible("no buttons")

    async def repeat(self, id: str, address: Address | None = None) -> None:
        raise Impossible("each line comes once")

    async def trouble(self, kind: str, address: Address | None = None) -> None:
        raise Impossible("a terminal takes everything")

    async def seen(self, address: Address | None = None) -> list[Post]:
        window = self._windows[-1]
        draft = "\n".join(self._shown(window.lines()[window.noted :]))
        return [*self._posts, *([Post("draft", draft)] if draft.strip() else [])]

    async def receipts(self, address: Address | None = None) -> list[str]:
        return [line for line in self._windows[-1].lines() if line.startswith("  ↳")]

    async def status(self, address: Address | None = None) -> bool:
        return self._windows[-1].status().startswith(("thinking", "writing", "tool", "stopping"))

    async def registered(self) -> list[str]:
        raise Impossible("commands are completed, and not registered anywhere")


class TestChat(AdapterContract):
    """Texts as they come; how Markdown is drawn has tests of its own."""

    @pytest.fixture
    def driver(self) -> Iterator[Driver]:
        driver = ChatDriver()
        yield driver
        driver.close()
