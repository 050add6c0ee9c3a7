"""Seat: who sits at this terminal, in which conversation."""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Iterable
from typing import Final

import msgspec

from hermes_core.errors import SendError
from hermes_core.file import sized
from hermes_core.messages import Address, Attachment, Author, Message
from hermes_terminal.clean import clean, one_line

__all__ = ["ANY_SIZE", "PLATFORM", "Seat", "files"]

PLATFORM: Final = "terminal"
ANY_SIZE: Final = 2**50  # bytes: a file is named and not moved, so none is too large


class Seat(msgspec.Struct, frozen=True):
    """The conversation `terminal:local:NAME` and the one person who writes there."""

    address: Address
    author: Author

    @classmethod
    def of(cls, name: str) -> Seat:
        """The seat in the conversation `name`, taken by whoever is logged in."""
        return cls(Address(PLATFORM, "local", name), Author("local", _login()))

    def elsewhere(self) -> SendError:
        """Why a message for another conversation of this platform is not shown here: it is kept for there."""
        return SendError(
            "That conversation is not open here.", "Open it: hermes chat --name NAME", retry_after=60.0
        )

    def message(self, text: str) -> Message:
        """`text` as a message of its own. Its id is new: no line is ever delivered twice, and the same
        words typed again, or after a restart, are another message (D1)."""
        return Message(os.urandom(16).hex(), self.address, self.author, text, sent=time.time())


def files(attachments: Iterable[Attachment]) -> list[str]:
    """A line for each file that the agent gives: its name, its size, and where it stands on this machine."""
    lines = []
    for one in attachments:
        size = f" ({sized(one.size)})" if one.size is not None else ""
        lines.append(f"📎 {one_line(one.name)}{size}: {clean(one.ref)}")
    return lines


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user id without an entry, as in some containers
        return "local"
