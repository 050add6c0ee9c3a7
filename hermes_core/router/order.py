"""Order: what came first takes effect first, also while some of it waits for the store or for a plugin.

A text that a command enters has to be written first, and a message is offered to plugins; meanwhile the
event loop turns. Who comes behind must not overtake, or a note for the next turn would miss it.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Order"]


class _Waits:
    """Counts who waits: `with order.asking: …`; made once, because every message passes here."""

    __slots__ = ("count", "free")

    def __init__(self, free: Callable[[], None]) -> None:
        self.count = 0
        self.free = free

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *error: object) -> None:
        self.count -= 1
        self.free()


class Order:
    """The waits of one conversation. `free` is called when one of them is over.

    `writing`: a text that a command entered is being written. `asking`: plugins are asked about a message.
    """

    __slots__ = ("asking", "writing")

    def __init__(self, free: Callable[[], None]) -> None:
        self.asking = _Waits(free)
        self.writing = _Waits(free)

    def holds(self, command: bool) -> bool:
        """Whether what comes now has to wait: everything for a write, a message also for what plugins say.

        So a command never waits for a plugin (T5), and a write takes as long as its own.
        """
        return bool(self.writing.count or (self.asking.count and not command))
