"""Sitting: what the drivers of the terminal share: one person, one conversation, and what nobody can do there."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hermes_core.messages import Address, Message
from hermes_core.testing.driver import Impossible, Post
from hermes_terminal.seat import Seat

__all__ = ["Numbered", "Sitting"]

_FILE: Final = re.compile(r"^📎 (.*) \([^()]*\): (/.*)$", re.MULTILINE)


class Numbered(Seat, frozen=True):
    """A seat whose messages have ids that a test can know: the next one of `ids`."""

    ids: Iterator[int]

    def message(self, text: str) -> Message:
        return Message(f"line-{next(self.ids)}", self.address, self.author, text, sent=0.0)


class Sitting:
    """Somebody at the keyboard. `typed` is told what to type; `lines`: whether a text may have several."""

    lines = True

    def __init__(self) -> None:
        plain = Seat.of("main")
        self.seat = Numbered(plain.address, plain.author, itertools.count())
        self.posts: list[Post] = []
        self._said = itertools.count()

    def typed(self, text: str) -> None:
        """Type it, and send it."""
        raise NotImplementedError

    def note(self, text: str) -> None:
        """This is what one message of the agent showed."""
        files = tuple((name, Path(path).read_bytes()) for name, path in _FILE.findall(text))
        self.posts.append(Post(str(len(self.posts)), text, files=files))

    def person(self, name: str) -> str:
        return self.seat.author.id

    def home(self) -> Address:
        return self.seat.address

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
        if author == "robot" or reply_to is not None or files or ("\n" in text and not self.lines):
            raise Impossible("one person types, and nothing else")
        self.typed(text)
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
        raise Impossible("it takes everything")

    async def seen(self, address: Address | None = None) -> list[Post]:
        return list(self.posts)

    async def receipts(self, address: Address | None = None) -> list[str]:
        raise Impossible("nothing passing is shown")

    async def status(self, address: Address | None = None) -> bool:
        raise Impossible("nothing passing is shown")

    async def registered(self) -> list[str]:
        raise Impossible("commands are registered nowhere")
