"""How often a platform may be asked for something: one budget for each destination (cases 33, 34, 53).

Sending, editing and typing in one chat share what the platform allows there, and all chats share what
it allows the account. Each allowance is a leaky bucket, kept as one number: the instant at which it
will be full again. So asking takes constant time, and a destination whose buckets are full is forgotten.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

__all__ = ["Budget", "Rate", "Want"]

_GRACE: Final = 2.0  # seconds for which a place is kept for somebody who was told when to come back
_SPARE: Final = 0.2  # the share of the account's burst that is kept for final texts


class Want(enum.IntEnum):
    """What the budget is asked for; the greater is more important."""

    TYPING = 0
    STREAM_EDIT = 1
    FINAL_EDIT = 2
    FINAL_SEND = 3


class Rate(msgspec.Struct, frozen=True):
    """`burst` calls at once, and in the long run `count` in `seconds`."""

    count: float
    seconds: float = 1.0
    burst: int = 1

    @property
    def interval(self) -> float:
        """Seconds after which one more call is allowed."""
        return self.seconds / self.count


class _Bucket:
    __slots__ = ("full", "rate")

    def __init__(self, rate: Rate, now: float) -> None:
        self.rate = rate
        self.full = now

    def wait(self, now: float, spare: float = 0.0) -> float:
        """Seconds until a call is allowed that leaves `spare` others."""
        allowed = self.full - (self.rate.burst - 1 - spare) * self.rate.interval
        return max(0.0, allowed - now)

    def take(self, now: float) -> None:
        self.full = max(self.full, now) + self.rate.interval


class _Place:
    __slots__ = ("blocked", "buckets", "claim", "claimed_until")

    def __init__(self, rates: Iterable[Rate], now: float) -> None:
        self.buckets = [_Bucket(rate, now) for rate in rates]
        self.blocked = now
        self.claim = Want.TYPING  # the most important that was told to wait
        self.claimed_until = now

    def forgettable(self, now: float) -> bool:
        return (
            self.blocked <= now and self.claimed_until <= now and all(one.full <= now for one in self.buckets)
        )


class Budget:
    """What may be asked of a platform, and when.

    `rates(destination)` gives the allowances of one chat (several for a platform that limits both the
    second and the minute), `account` those of all together. `clock` gives seconds.

        budget = Budget(lambda chat: (Rate(1.0, burst=3),), (Rate(30.0, burst=30),), time.monotonic)
        wait = budget.ask(chat, Want.STREAM_EDIT)      # 0.0: go ahead, it is taken; else come back then
        budget.blocked(chat, error.retry_after)        # a 429: parks this chat only
    """

    def __init__(
        self, rates: Callable[[str], Iterable[Rate]], account: Iterable[Rate], clock: Callable[[], float]
    ) -> None:
        self._rates = rates
        self._clock = clock
        self._account = _Place(account, clock())
        self._places: OrderedDict[str, _Place] = OrderedDict()  # the least recently used first

    def __len__(self) -> int:
        """How many destinations are remembered."""
        return len(self._places)

    def ask(self, destination: str, want: Want) -> float:
        """Take one call for `destination`: 0.0 if it is allowed now, else the seconds to wait and ask again.

        Whoever is told to wait is preferred to less important wants there until a moment after that time.
        """
        now = self._clock()
        self._forget(now)
        place = self._places.get(destination)
        if place is None:
            place = self._places[destination] = _Place(self._rates(destination), now)
        self._places.move_to_end(destination)
        wait = self._wait(place, want, now)
        if wait > 0.0:
            if want >= place.claim or place.claimed_until <= now:
                place.claim, place.claimed_until = want, now + wait + _GRACE
            return wait
        for bucket in (*place.buckets, *self._account.buckets):
            bucket.take(now)
        if want >= place.claim:
            place.claimed_until = now
        return 0.0

    def blocked(self, destination: str, seconds: float) -> None:
        """The platform said 429 for this destination: nothing goes there for `seconds` (case 34)."""
        now = self._clock()
        place = self._places.get(destination)
        if place is None:
            place = self._places[destination] = _Place(self._rates(destination), now)
        place.blocked = max(place.blocked, now + seconds)

    def blocked_everywhere(self, seconds: float) -> None:
        """The platform said 429 for the whole account."""
        self._account.blocked = max(self._account.blocked, self._clock() + seconds)

    def blocked_until(self, destination: str) -> float:
        """The instant until which a 429 holds here; one that is past means that none does."""
        place = self._places.get(destination)
        return max(self._account.blocked, place.blocked if place else self._account.blocked)

    def _wait(self, place: _Place, want: Want, now: float) -> float:
        waits = [place.blocked - now, self._account.blocked - now]
        waits += [bucket.wait(now) for bucket in place.buckets]
        final = want >= Want.FINAL_EDIT
        for bucket in self._account.buckets:
            waits.append(bucket.wait(now, 0.0 if final else int(_SPARE * bucket.rate.burst)))
        if want < place.claim and place.claimed_until > now:
            # What was told to wait goes first, and takes the place; so this one waits for the one after it.
            waits.append(min(place.claimed_until - now, _GRACE))
        # Typing must not take the last free place from a text that may come at any moment.
        if want is Want.TYPING:
            waits += [bucket.wait(now, 1.0) for bucket in place.buckets if bucket.rate.burst > 1]
        return max(0.0, *waits)

    def _forget(self, now: float) -> None:
        """Look at the two longest unused destinations; those whose buckets are full need no memory."""
        for _ in range(2):
            if not self._places:
                return
            oldest = next(iter(self._places))
            if self._places[oldest].forgettable(now):
                del self._places[oldest]
            else:
                self._places.move_to_end(oldest)
