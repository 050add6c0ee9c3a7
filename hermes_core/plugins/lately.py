"""Lately: which plugins did something since somebody last looked, told from what is counted anyway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from time import perf_counter

import msgspec

from hermes_core.metrics import Tally

__all__ = ["Lately", "Work"]


class Work(msgspec.Struct, frozen=True):
    """Seconds by plugin, of calls that `ended` since the last look, and the plugins with calls that go on."""

    ended: dict[str, float]
    running: frozenset[str]


class Lately:
    """Calls of commands and tools, which are told here, and of hooks, which have tallies of their own."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._spent: dict[str, float] = {}
        self._seen: dict[str, float] = {}
        self._looked = perf_counter()

    def at_work(self, plugin: str) -> AbstractContextManager[None]:
        """Around a call of this plugin."""
        return _Call(self, plugin)

    def begins(self, plugin: str) -> float:
        """A call of this plugin begins; hand what this gives to `ends`, whatever became of it."""
        self._running[plugin] += 1
        return perf_counter()

    def ends(self, plugin: str, began: float) -> None:
        """The call has ended."""
        self._running[plugin] -= 1
        self._spent[plugin] = self._spent.get(plugin, 0.0) + perf_counter() - began

    def look(self, tallies: Iterable[tuple[str, str, Tally]]) -> Work:
        """What was done since the last look. From one thread at a time, which may be another than that of the calls."""
        now = perf_counter()
        total = dict(self._spent)
        for plugin, _, tally in tallies:
            total[plugin] = total.get(plugin, 0.0) + tally.seconds
        longest = now - self._looked
        ended = {
            name: min(seconds - self._seen.get(name, 0.0), longest)
            for name, seconds in total.items()
            if seconds > self._seen.get(name, 0.0)
        }
        self._seen, self._looked = total, now
        return Work(ended, frozenset(name for name, count in list(self._running.items()) if count > 0))


class _Call:
    """A context manager without a generator, which costs a third of one with it."""

    __slots__ = ("_began", "_lately", "_plugin")

    def __init__(self, lately: Lately, plugin: str) -> None:
        self._lately, self._plugin = lately, plugin

    def __enter__(self) -> None:
        self._began = self._lately.begins(self._plugin)

    def __exit__(self, *_: object) -> None:
        self._lately.ends(self._plugin, self._began)
