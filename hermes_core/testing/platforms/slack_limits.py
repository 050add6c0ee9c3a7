"""Slack's rate limits: how often it takes a call (docs.slack.dev: "Rate limits", and the page of each method)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hermes_core.testing.platforms.window import Window

__all__ = ["Limits", "Meter"]

POST: Final = "chat.postMessage"
# A method belongs to a tier: 1, 20, 50 or 100 calls a minute and workspace.
MINUTE: Final[Mapping[str, int]] = {
    "chat.appendStream": 100,
    "chat.delete": 50,
    "chat.startStream": 20,
    "chat.stopStream": 20,
    "chat.update": 50,
    "conversations.history": 50,
    "conversations.replies": 50,
    "files.completeUploadExternal": 100,
    "files.getUploadURLExternal": 100,
    "files.info": 100,
    "reactions.add": 50,
    "reactions.remove": 20,
    "users.info": 100,
}


@dataclass(frozen=True)
class Limits:
    """One message a second and channel, after a short `burst` (Slack does not say how short), and the tiers.

    `minute`: calls of each method in so many `seconds`.
    """

    burst: int = 12
    minute: Mapping[str, int] = field(default_factory=lambda: MINUTE)
    seconds: float = 60.0


class Meter:
    """Counts the calls of one workspace; `now` is in seconds."""

    def __init__(self) -> None:
        self._full: dict[str, float] = {}  # by channel: when it will take a whole burst again
        self._windows: dict[str, Window] = {}

    def take(self, limits: Limits, method: str, arguments: Mapping[str, Any], now: float) -> int:
        """0, or the whole seconds after which Slack takes such a call again."""
        if method == POST:
            channel = str(arguments.get("channel"))
            full = max(self._full.get(channel, now), now) + 1.0
            if full - now <= limits.burst:
                self._full[channel] = full
                return 0
            return math.ceil(full - now - limits.burst)
        count = limits.minute.get(method)
        if count is None:
            return 0
        return math.ceil(self._windows.setdefault(method, Window(count, limits.seconds)).take(now))
