"""Pace: nobody can keep the agent from the others by writing faster than people do, and no two bots each other (X4).

A person has a bucket that fills with time, one for messages and one for commands, so that somebody who has
written too much can still type /stop. Who finds it empty is told once, and for how long nothing is taken.
"""

from __future__ import annotations

import asyncio
from typing import Final

from hermes_core.config import Config, DoorSettings
from hermes_core.messages import Author, Role
from hermes_core.recent import Recent

__all__ = ["Pace"]

REMEMBERED: Final = 10_000  # people; who is forgotten begins with a full bucket
PAUSE: Final = 30.0  # seconds for which nothing is taken from somebody who wrote too much

TOO_FAST: Final = (
    "You wrote more than {} {} in a minute. This one is not taken, nor is what you write in the next 30 seconds; "
    "please write it again then."
)
BOTS: Final = "I have answered {} messages of bots in a row. I go on when a person writes here."


class _Bucket:
    __slots__ = ("closed", "full")

    def __init__(self, full: float) -> None:
        self.full = full  # when it is full again
        self.closed = 0.0


class Pace:
    """How fast people write, over all conversations of a platform."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._doors: dict[str, DoorSettings] = {}
        self._buckets = Recent[tuple[str, str, bool], _Bucket](REMEMBERED)

    def counts(self, platform: str) -> bool:
        """Whether anything is counted there for people; owners and admins write as fast as they like."""
        return self._door(platform).per_minute > 0

    def refusal(self, platform: str, author: Author, role: Role, *, command: bool) -> str | None:
        """Why this one is not taken, "" where the person was told so a moment ago; None: it is."""
        most = self._door(platform).per_minute
        if role >= Role.ADMIN or not most:
            return None
        now = asyncio.get_running_loop().time()
        key = (platform, author.id, command)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(now)
        else:
            self._buckets.move_to_end(key)
        if now < bucket.closed:
            return ""
        full = (max(now, bucket.full)) + 60 / most
        if full - now > 60 + 1e-6:
            bucket.closed = now + PAUSE
            return TOO_FAST.format(most, "commands" if command else "messages")
        bucket.full = full
        return None

    def bots(self, platform: str, in_a_row: int) -> str | None:
        """The same for a bot's message, of which this many came without a person's in between."""
        most = self._door(platform).bot_turns
        if in_a_row <= most:
            return None
        return BOTS.format(most) if in_a_row == most + 1 else ""

    def _door(self, platform: str) -> DoorSettings:
        door = self._doors.get(platform)
        if door is None:
            door = self._doors[platform] = self._config.door(platform)
        return door
