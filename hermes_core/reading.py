"""Reading: in which order what comes in is taken, how far each conversation was read, and what is read up (D8).

For adapters of platforms that keep a history. What a platform delivers is taken in the order of its place (a channel,
say), and noted. When the connection is there again, each known conversation is read on from where it ends, before
what comes live there: what is known already the store recognises by its id, and what is too old to be answered is for
the core to say. So how far it was read may be kept a moment later than it was taken, and costs no message its time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from hermes_core.errors import HermesError
from hermes_core.messages import Address
from hermes_core.writing import kept

__all__ = ["Order", "Reading"]

log = logging.getLogger("hermes.reading")

_CONVERSATIONS: Final = 500  # whose end is remembered, the latest used ones
_READ_UP: Final = 100  # of those; platforms limit how often they may be asked
_AT_ONCE: Final = 4
_EVERY: Final = 5.0  # seconds between two writes; a crash costs reading what is known already


class Order:
    """`async with order.at(place)`: one after the other at each place, first come, first in."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}

    def __len__(self) -> int:
        """How many places are remembered: those at which somebody is or waits."""
        return len(self._places)

    def at(self, place: str) -> _Place:
        """To be entered at once."""
        found = self._places.get(place)
        if found is None:
            found = self._places[place] = _Place(place, self._places)
        return found


class _Place:
    __slots__ = ("_here", "_lock", "_name", "_places")

    def __init__(self, name: str, places: dict[str, _Place]) -> None:
        self._name = name
        self._places = places
        self._lock = asyncio.Lock()  # which is fair
        self._here = 0

    async def __aenter__(self) -> None:
        self._here += 1
        try:
            await self._lock.acquire()
        except BaseException:
            self._leave()
            raise

    async def __aexit__(self, *error: object) -> None:
        self._lock.release()
        self._leave()

    def _leave(self) -> None:
        self._here -= 1
        if not self._here:
            del self._places[self._name]


class Reading:
    """The id of the last message that was taken in, for each conversation; kept in `path`, if there is one.

    Of two ids the later one has the greater `rank`. What stands at the same `place` is taken in one order.
    """

    def __init__(
        self,
        path: Path | None,
        rank: Callable[[str], Any] = str,
        place: Callable[[Address], str] = lambda address: address.channel,
    ) -> None:
        self.order = Order()
        self._path = path
        self._rank = rank
        self._place = place
        self._last = kept.read(path, dict[str, str], {})  # the longest unused conversation first
        self._changed = asyncio.Event()
        self._reads = False

    def note(self, address: Address, id: str) -> None:
        """Message `id` was taken in, or is nothing to the agent."""
        key = str(address)
        last = self._last.pop(key, id)
        self._last[key] = max(last, id, key=self._rank)
        if len(self._last) > _CONVERSATIONS:
            del self._last[next(iter(self._last))]
        self._changed.set()

    async def read_up(self, read: Callable[[Address, str], Awaitable[None]]) -> None:
        """Have each known conversation read from its last message on; nothing where that is being done already.

        `read` takes in what came after that message. A `HermesError` of it leaves the rest there for the next time.
        """
        if self._reads:
            return
        self._reads = True
        try:
            places = asyncio.Semaphore(_AT_ONCE)
            known = list(self._last.items())[-_READ_UP:]
            await asyncio.gather(*(self._read(Address.parse(one), last, read, places) for one, last in known))
        finally:
            self._reads = False

    async def _read(
        self,
        address: Address,
        last: str,
        read: Callable[[Address, str], Awaitable[None]],
        places: asyncio.Semaphore,
    ) -> None:
        """All stand in line before the first one is read: what comes live stands behind them."""
        async with self.order.at(self._place(address)), places:
            try:
                await read(address, last)
            except HermesError as error:
                log.warning("the history of %s is not read up now: %s", address, error)

    async def keep(self) -> None:
        """Keep it now and then, beside the path of a message; runs until it is cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self.write()
            await asyncio.sleep(_EVERY)

    def write(self) -> None:
        """Keep it now."""
        kept.write(self._path, self._last)
