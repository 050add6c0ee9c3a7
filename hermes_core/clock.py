"""Clock: how far this machine's clock is ahead of a platform's, so that its age is not taken for a message's (D8).

A machine whose clock is an hour ahead would find every message an hour old. What an answer of the platform
says of the time (the header `Date` of HTTP) tells the two apart. A clock that is behind makes messages seem
younger than they are, which does no harm, and is left alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final

__all__ = ["Clock"]

log = logging.getLogger("hermes.runtime")

NOISE: Final = 5.0  # seconds: the header counts whole ones, and an answer takes its time
TOLD: Final = 60.0  # seconds that are worth a line in the log


class Clock:
    """One platform's, beside this machine's (`wall`, seconds since 1970). `ahead`: seconds, 0.0 where it is not."""

    __slots__ = ("_last", "_told", "_wall", "ahead", "name")

    def __init__(self, name: str, wall: Callable[[], float]) -> None:
        self.name = name
        self.ahead = 0.0
        self._wall = wall
        self._last = ""
        self._told = 0.0

    def dated(self, header: str | None) -> float:
        """An answer that just came bore this `Date`: gives how far ahead this clock is. What is none says nothing."""
        if not header or header == self._last:  # several answers in one second
            return self.ahead
        self._last = header
        try:
            at = parsedate_to_datetime(header).timestamp()
        except (ValueError, OverflowError):
            return self.ahead
        ahead = self._wall() - at
        self.ahead = ahead if ahead > NOISE else 0.0
        if abs(self.ahead - self._told) > TOLD:
            self._told = self.ahead
            if self.ahead:
                log.warning("this machine's clock is %.0f s ahead of that of %s: set it", ahead, self.name)
            else:
                log.warning("this machine's clock agrees with that of %s again", self.name)
        return self.ahead
