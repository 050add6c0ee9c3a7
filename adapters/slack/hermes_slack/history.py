"""History: reads up what was written while the program or its connection was down (D8)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from hermes_core.errors import StoreError
from hermes_slack.faults import error_of, send_error
from hermes_slack.intake import Intake
from hermes_slack.posts import FAILURES
from hermes_slack.seen import Place, Seen

__all__ = ["History"]

log = logging.getLogger("hermes.slack")

_AT_ONCE: Final = 4  # places that are read at the same time
_PAGE: Final = 200
_PAGES: Final = 10
_PATIENCE: Final = 60.0  # seconds that Slack may ask to wait
_TRIES: Final = 4
_PLACES: Final = 100  # the latest used ones are read up; Slack allows some 50 of these calls a minute
_FORGOTTEN: Final = 30 * 86_400.0  # a place that was silent for so long is not read up


class History:
    """Reads each known place from where it ends, in the order of the place and before what comes live there.

    Slack delivers what it could not deliver a few times within minutes; what came between that and now
    stands in its history only. What is too old to be answered is for the core to say (D8).
    """

    def __init__(self, client: AsyncWebClient, intake: Intake, seen: Seen, wall: Callable[[], float]) -> None:
        self._client = client
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
                messages = await self._messages(place, ts)
            except FAILURES as error:
                word = error_of(error) if isinstance(error, SlackApiError) else type(error).__name__
                log.warning("the history of %s could not be read: %s", place.channel, word)
                return
            try:
                for message in messages:
                    event = {"type": "message", **message, "channel": place.channel}
                    await self._intake.take_held({"event": event})
            except StoreError as error:
                log.warning("the history of %s is read up later: %s", place.channel, error)

    async def _messages(self, place: Place, ts: str) -> list[dict[str, Any]]:
        """What came after `ts`, oldest first."""
        method = "conversations.history" if place.thread is None else "conversations.replies"
        asked: dict[str, Any] = {"channel": place.channel, "oldest": ts, "limit": str(_PAGE)}
        if place.thread is not None:
            asked["ts"] = place.thread
        found: list[dict[str, Any]] = []
        for _ in range(_PAGES):
            answer = await self._ask(method, asked)
            found += (one for one in answer.get("messages") or () if str(one.get("ts")) > ts)
            cursor = (answer.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                break
            asked = {**asked, "cursor": cursor}
        return sorted(found, key=lambda one: float(str(one["ts"])))

    async def _ask(self, method: str, asked: dict[str, Any]) -> dict[str, Any]:
        for _ in range(_TRIES - 1):
            try:
                return _data(await self._client.api_call(method, data=asked))
            except SlackApiError as error:
                wait = send_error(error).retry_after
                if wait is None or wait > _PATIENCE:
                    raise
                await asyncio.sleep(wait)
        return _data(await self._client.api_call(method, data=asked))


def _data(answer: AsyncSlackResponse) -> dict[str, Any]:
    return answer.data if isinstance(answer.data, dict) else {}
