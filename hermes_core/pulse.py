"""Pulse: whether a platform that says it is connected is still heard of (case 43).

Theory of operation. An adapter says `Gateway.alive` whenever its platform showed that the connection
works: a poll came back, a ping was answered, a heartbeat was acknowledged. From the first of these on a
timer watches: where nothing is heard for `silent_after` seconds, neither a sign nor a message, the platform
counts as silent and the log says so, once; and once more when it is heard again. For an adapter that never
says it, nothing is watched, so it costs none a timer. A connection may be alive and bring nothing all the
same: `quiet_after` bounds that, for who knows that somebody always writes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

__all__ = ["Pulse"]

log = logging.getLogger("hermes.runtime")

CONNECTING: Final = "connecting"
UP: Final = "up"
SILENT: Final = "silent"
QUIET: Final = "quiet"
DOWN: Final = "down"
ENDED: Final = "ended"
AGAIN: Final = 60.0  # seconds between two looks at a platform that is quiet


class Pulse:
    """One platform. `state` is connecting, up, silent, quiet, down or ended.

    `messages` and `last` (seconds since 1970) are kept by the router, on the path of every message. `ahead`: so
    many seconds this machine's clock is ahead of the platform's (`clock`).
    """

    __slots__ = (
        "_beats", "_counted", "_heard", "_loop", "_quiet", "_seen", "_silent", "_timers", "ahead", "last",
        "messages", "name", "state",
    )  # fmt: skip

    def __init__(self, name: str, silent_after: float = 0.0, quiet_after: float = 0.0) -> None:
        self.name = name
        self.state = CONNECTING
        self.messages = 0
        self.last = 0.0
        self.ahead = 0.0
        self._silent = silent_after
        self._quiet = quiet_after
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._beats = False
        self._seen = 0  # messages, at the last look for signs of life
        self._counted = 0  # messages, at the last look for messages
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @property
    def well(self) -> bool:
        """Whether there is nothing to worry about."""
        return self.state in (UP, CONNECTING)

    @property
    def age(self) -> float | None:
        """Seconds since the last sign of life; None where its adapter gives none, or is not connected."""
        return self._loop.time() - self._heard if self._beats and self.state in (UP, SILENT, QUIET) else None

    def ready(self) -> None:
        """It is connected, for the first time or again."""
        self._heard = self._loop.time()
        self._back(UP)
        if self._beats:
            self._expect()
        if self._quiet and QUIET not in self._timers:
            self._counted = self.messages
            self._watch(QUIET, self._quiet, self._look_for_messages)

    def alive(self) -> None:
        """It was heard of just now."""
        self._heard = self._loop.time()
        self._beats = True
        if self.state == SILENT:
            self._back(UP)
        self._expect()

    def down(self) -> None:
        """It failed and will be started again."""
        self._end(DOWN)

    def ended(self) -> None:
        """It has nothing more to say, or failed for good."""
        self._end(ENDED)

    def close(self) -> None:
        """Watch no more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _end(self, state: str) -> None:
        self.state = state
        self.close()

    def _back(self, state: str) -> None:
        if self.state in (SILENT, QUIET):
            log.warning("platform %s is heard again", self.name)
        self.state = state

    def _expect(self) -> None:
        """Watch from now on whether it is heard of."""
        if self._silent and SILENT not in self._timers:
            self._seen = self.messages
            self._watch(SILENT, self._silent, self._look)

    def _watch(self, what: str, seconds: float, look: Callable[[], None]) -> None:
        self._timers[what] = self._loop.call_later(seconds, look)

    def _look(self) -> None:
        if self.messages != self._seen:
            self._seen = self.messages
            self._heard = self._loop.time()
            if self.state == SILENT:
                self._back(UP)
        left = self._heard + self._silent - self._loop.time()
        if left <= 0 and self.state in (UP, QUIET):
            self.state = SILENT
            text = "platform %s is silent: it was connected, and nothing was heard of it for %.0f s"
            log.error(text, self.name, self._silent)
        self._watch(SILENT, left if left > 0 else self._silent, self._look)

    def _look_for_messages(self) -> None:
        if self.messages != self._counted:
            self._counted = self.messages
            if self.state == QUIET:
                self._back(UP)
        elif self.state == UP:
            self.state = QUIET
            text = "platform %s is quiet: it is connected, and no message came for %.0f s"
            log.error(text, self.name, self._quiet)
        again = self._quiet if self.state == UP else min(self._quiet, AGAIN)
        self._watch(QUIET, again, self._look_for_messages)
