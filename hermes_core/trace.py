"""Trace: of what the present task is a part, for the fields of a log line.

The task of a turn, of a job, of an entry on its way in or of an adapter says so once, when it begins.
Whatever it begins inherits that, and so does what plugins log in it, without anything being handed on.
It decides nothing.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

import msgspec

from hermes_core.messages import Address, Entry

__all__ = ["Trace", "enter", "here"]


class Trace(msgspec.Struct, frozen=True, gc=False):
    """`turn` is a number of `conversation`; `entry` and `job` are ids, `adapter` is a platform's name."""

    conversation: Address | None = None
    turn: int | None = None
    entry: str = ""
    job: str = ""
    adapter: str = ""

    def fields(self) -> dict[str, str | int]:
        """What is known, by name."""
        known: dict[str, str | int] = {}
        if self.conversation is not None:
            known["conversation"] = str(self.conversation)
        if self.turn is not None:
            known["turn"] = self.turn
        for name in ("entry", "job", "adapter"):
            if value := getattr(self, name):
                known[name] = value
        return known


_HERE: Final[ContextVar[Trace | Entry]] = ContextVar("hermes.trace", default=Trace())  # noqa: B039 - frozen

enter: Final = _HERE.set
"""From here on the present task, and every task that it begins, is a part of this: a `Trace`, or the taking
in of an `Entry`, for which nothing has to be made on the path of every message."""


def here() -> Trace:
    """Of what the present task is a part."""
    found = _HERE.get()
    return found if isinstance(found, Trace) else Trace(found.address, entry=found.id)
