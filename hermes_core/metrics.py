"""Metrics: what is counted while the program works. Plain numbers, read only when somebody asks for them.

Nothing here knows of names, labels or formats; `hermes_core.http.metrics` writes them out. What can be
counted by looking (queues, jobs that run, what the outbox holds) is not counted here at all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import msgspec

__all__ = ["Histogram", "Metrics", "Sends", "Tally"]

_TURNS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
_INTERRUPTS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 1.2, 2.5)


class Histogram:
    """How often something took how long: `counts[n]` were at most `bounds[n]` seconds, the last one longer."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """It took so long once more."""
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


class Tally(msgspec.Struct, gc=False):
    """Calls of one thing: how many, how long together (seconds, waiting included), how many of them failed."""

    calls: int = 0
    seconds: float = 0.0
    failed: int = 0


class Sends(msgspec.Struct, gc=False):
    """What became of the messages to one platform."""

    sent: int = 0
    tried_again: int = 0
    undeliverable: int = 0


class Metrics:
    """The counts of one run."""

    __slots__ = ("interrupts", "jobs", "refusals", "tokens_in", "tokens_out", "turns")

    def __init__(self) -> None:
        self.turns: dict[str, Histogram] = {
            end: Histogram(_TURNS) for end in ("completed", "interrupted", "failed")
        }
        self.interrupts = Histogram(_INTERRUPTS)
        self.jobs: dict[str, int] = {}  # ended, by state
        self.refusals = 0  # writes that the disk did not take at once (D7)
        self.tokens_in = 0
        self.tokens_out = 0
