"""Seat: who sits at this terminal, in which conversation."""

from __future__ import annotations

import getpass
import os
import time

import msgspec

from hermes_core.errors import SendError
from hermes_core.messages import Address, Author, Message

__all__ = ["PLATFORM", "Seat"]

PLATFORM = "terminal"


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


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a user id without an entry, as in some containers
        return "local"
