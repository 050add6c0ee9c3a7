"""Window: so many calls in any so many seconds, as platforms limit them."""

from __future__ import annotations

from collections import deque

__all__ = ["Window"]


class Window:
    """Counts calls in a sliding window of `seconds`."""

    def __init__(self, count: int, seconds: float) -> None:
        self.count = count
        self.seconds = seconds
        self.calls: deque[float] = deque()

    def take(self, now: float) -> float:
        """0.0: one more call is allowed, and counted; else the seconds until the next one is."""
        while self.calls and self.calls[0] <= now - self.seconds:
            self.calls.popleft()
        if len(self.calls) >= self.count:
            return self.calls[0] + self.seconds - now
        self.calls.append(now)
        return 0.0
