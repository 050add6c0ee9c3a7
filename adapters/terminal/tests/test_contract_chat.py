"""The contract of all adapters, on a real pty: what a person sees, and what comes of what is typed."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
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
from hermes_core.testing.driver import Driver, Post
from hermes_terminal.chat import ChatAdapter
from hermes_terminal.seat import Seat

from .sitting import Sitting
from .virtual_terminal import Screen

COLUMNS, ROWS = 2_000, 60  # so wide that the terminal wraps hardly anything
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
        await self._driver.look()
        return sent


class ChatDriver(Sitting):
    """A person at the keyboard, in a new window for each start."""

    without = frozenset({"limited", "cut before", "cut after", "refused", "repeated", "unwritable"})

    def __init__(self) -> None:
        super().__init__()
        self._windows: list[Window] = []

    def open(self, folder: Path) -> Adapter:
        window = Window()
        self._windows.append(window)
        return Watched(self, self.seat, window.stdin, window.stdout)

    async def look(self) -> None:
        """Wait until the end of what was sent is on the screen, and take all that is new for one message."""
        window = self._windows[-1]
        before = -1
        while (count := len(window.lines())) != before:  # the thread has read what was written
            before = count
            await asyncio.sleep(0.02)
        text = "\n".join(self._shown(window.lines()[window.noted :]))
        window.noted = count
        self.note(text)

    def _shown(self, lines: list[str]) -> list[str]:
        return [line for line in lines if not line.startswith(_OTHERS)]

    def typed(self, text: str) -> None:
        keys = text.replace("\n", "\x1b\r") + "\r"  # Alt+Enter begins a line, Enter sends
        os.write(self._windows[-1].far, keys.encode())

    def close(self) -> None:
        for window in self._windows:
            window.close()

    async def seen(self, address: Address | None = None) -> list[Post]:
        window = self._windows[-1]
        draft = "\n".join(self._shown(window.lines()[window.noted :]))
        return [*self.posts, *([Post("draft", draft)] if draft.strip() else [])]

    async def receipts(self, address: Address | None = None) -> list[str]:
        return [line for line in self._windows[-1].lines() if line.startswith("  ↳")]

    async def status(self, address: Address | None = None) -> bool:
        return self._windows[-1].status().startswith(("thinking", "writing", "tool", "stopping"))


class TestChat(AdapterContract):
    """Texts as they come; how Markdown is drawn has tests of its own."""

    @pytest.fixture
    def driver(self) -> Iterator[Driver]:
        driver = ChatDriver()
        yield driver
        driver.close()
