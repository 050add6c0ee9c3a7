"""Late: what was written so long ago that an answer would surprise: counted and reported, not answered (D8).

Theory of operation. A message that is older than `[conversation] catch_up` when it comes in was kept by its
platform while the program or the connection was down. It is committed like every other, which also filters its
repeats (D1), and then gathered here until no more come for a moment. One message says how many there were; in
the same transaction they end as refused (D2). After a crash in between they are gathered again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from hermes_core.messages import Address, Entry, EntryState, Outgoing
from hermes_core.router.services import Services

__all__ = ["Late"]

log = logging.getLogger("hermes.router")

GATHER: Final = 2.0  # seconds without another one, until it is reported


class Late:
    """The late messages of all conversations."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._gathered: dict[Address, list[Entry]] = {}

    def put(self, entries: Iterable[Entry]) -> None:
        """Committed entries of one conversation. While the program stops they are left for the next start."""
        for entry in entries:
            gathered = self._gathered.get(entry.address)
            if gathered is not None:
                gathered.append(entry)
            elif not self._services.closing:
                self._gathered[entry.address] = [entry]
                self._services.tasks.spawn(self._report(entry.address), f"late messages of {entry.address}")

    async def _report(self, address: Address) -> None:
        gathered, known = self._gathered[address], 0
        while len(gathered) > known:
            known = len(gathered)
            await self._services.pause(GATHER)
        del self._gathered[address]
        services = self._services
        limit = services.settings(address.platform).catch_up
        log.warning("%d messages of %s are older than %s and are not answered", known, address, _span(limit))
        outgoing = Outgoing(f"{address}#late:{gathered[-1].seq}", address, _told(known, limit))
        ids = tuple(entry.id for entry in gathered)
        await services.durably(
            lambda: services.store.settle(address, ids, EntryState.REFUSED, outgoing), lambda error: None
        )
        services.outbox.put(outgoing)


def _told(count: int, limit: float) -> str:
    ago = f"came here more than {_span(limit)} ago, while I was away, and"
    if count == 1:
        return f"A message {ago} was not answered. Write it again if it still matters."
    return f"{count} messages {ago} were not answered. Write again what still matters."


def _span(seconds: float) -> str:
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"
