"""History: reads up what was written while the program or its connection was down (D8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hermes_core.messages import Address
from hermes_slack.intake import Intake
from hermes_slack.web import Web

__all__ = ["History"]

_FORGOTTEN: Final = 30 * 86_400.0  # seconds; what was silent for so long is not read up


class History:
    """Slack delivers what it could not deliver a few times within minutes; what came between that and now stands in
    its history only."""

    def __init__(self, web: Web, intake: Intake, wall: Callable[[], float]) -> None:
        self._web = web
        self._intake = intake
        self._wall = wall

    async def read(self, address: Address, last: str) -> None:
        """Take in what was written after message `last`, oldest first; see `Reading.read_up`."""
        if self._wall() - float(last) > _FORGOTTEN:
            return
        said = self._web.standing(address.channel, address.thread, oldest=last)
        missed = [one async for one in said if str(one.get("ts")) > last]
        for message in sorted(missed, key=lambda one: float(str(one["ts"]))):
            event = {"type": "message", **message, "channel": address.channel}
            await self._intake.take_next({"event": event})
