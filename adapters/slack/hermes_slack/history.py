"""History: reads up what was written while the program or its connection was down (D8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from hermes_core.errors import SendError, StoreError
from hermes_slack.intake import Intake
from hermes_slack.seen import Place, Seen
from hermes_slack.web import Web

__all__ = ["History"]

log = logging.getLogger("hermes.slack")

_AT_ONCE: Final = 4  # places that are read at the same time
_PLACES: Final = 100  # the latest used ones are read up; Slack allows some 50 of these calls a minute
_FORGOTTEN: Final = 30 * 86_400.0  # a place that was silent for so long is not read up


class History:
    """Reads each known place from where it ends, in the order of the place and before what comes live there.

    Slack delivers what it could not deliver a few times within minutes; what came between that and now
    stands in its history only. What is too old to be answered is for the core to say (D8).
    """

    def __init__(self, web: Web, intake: Intake, seen: Seen, wall: Callable[[], float]) -> None:
        self._web = web
        self._intake = intake
        self._seen = seen
        self._wall = wall
        self._running = False

    async def read_up(self) -> None:
        """Read every known place up; nothing where that is being done already."""
        if self._running:
            return
        self._running = True
        try:
            limit = asyncio.Semaphore(_AT_ONCE)
            now = self._wall()
            known = [one for one in self._seen.places()[-_PLACES:] if now - float(one[1]) < _FORGOTTEN]
            await asyncio.gather(*(self._place(place, ts, limit) for place, ts in known))
        finally:
            self._running = False

    async def _place(self, place: Place, ts: str, limit: asyncio.Semaphore) -> None:
        async with self._intake.held(place.channel), limit:
            try:
                said = self._web.standing(place.channel, place.thread, oldest=ts)
                missed = [one async for one in said if str(one.get("ts")) > ts]
                for message in sorted(missed, key=lambda one: float(str(one["ts"]))):
                    event = {"type": "message", **message, "channel": place.channel}
                    await self._intake.take_held({"event": event})
            except (SendError, StoreError) as error:
                log.warning("the history of %s is not read up now: %s", place.channel, error)
