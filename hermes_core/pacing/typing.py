"""Typing: who is shown that the agent works, and when it must be said again (case 42)."""

from __future__ import annotations

import heapq
from typing import Final

__all__ = ["Typing"]

_STALE: Final = 64  # entries that are overtaken, beside as many as there are destinations


class Typing:
    """The destinations at which the agent works. Platforms let the sign lapse after `every` seconds.

        typing = Typing(every=4.0)              # Telegram: 5 s, Discord: 10 s
        typing.start(chat, now)                 # Working(activity) that is not idle
        typing.stop(chat)                       # idle, or just before the reply is sent
        due, at = typing.due(now)               # say it to `due`; ask again at `at` (None: after a start)

    Nothing is said for a destination after `stop`. Starting and stopping are cheap, and may be repeated.
    """

    def __init__(self, every: float) -> None:
        self._every = every
        self._next: dict[str, float] = {}
        self._order: list[tuple[float, str]] = []  # may hold entries that `_next` has overtaken

    def __contains__(self, destination: str) -> bool:
        return destination in self._next

    def start(self, destination: str, now: float) -> None:
        """The agent works here: due at once, unless it is known already."""
        if destination not in self._next:
            self._arm(destination, now)

    def stop(self, destination: str) -> None:
        """The agent does not work here any more."""
        self._next.pop(destination, None)
        if not self._next:
            self._order.clear()

    def due(self, now: float) -> tuple[list[str], float | None]:
        """Where to say it now, and when the next one is due; each of them is due again after `every`."""
        found = []
        while self._order and (self._order[0][0] <= now or self._stale()):
            at, destination = heapq.heappop(self._order)
            if self._next.get(destination) == at:
                found.append(destination)
                self._arm(destination, now + self._every)
        return found, self._order[0][0] if self._order else None

    def _arm(self, destination: str, at: float) -> None:
        self._next[destination] = at
        if len(self._order) > 2 * len(self._next) + _STALE:  # nobody asks what is due
            self._order = [(due, one) for one, due in self._next.items() if one != destination]
            heapq.heapify(self._order)
        heapq.heappush(self._order, (at, destination))

    def _stale(self) -> bool:
        at, destination = self._order[0]
        return self._next.get(destination) != at
