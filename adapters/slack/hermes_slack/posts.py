"""Posts: the agent's messages on Slack. Posted, edited, deleted, and found again by their metadata (D5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import aiohttp
import msgspec
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from hermes_core.messages import Address
from hermes_slack.faults import send_error
from hermes_slack.limits import MAX_TEXT, METADATA_TYPE
from hermes_slack.render import Piece

__all__ = ["FAILURES", "Found", "Posts"]

FAILURES: Final = (SlackApiError, aiohttp.ClientError, TimeoutError, OSError)
"""All that a call through the client library is known to raise."""

_LOOK_BACK: Final = 86_400.0  # seconds
_PAGE: Final = 200
_PAGES: Final = 5


class Found(msgspec.Struct, frozen=True):
    """One message of a text, as it stands on Slack: its time stamp, and of how many it is one (0: a draft)."""

    ts: str
    of: int


class Posts:
    """Calls that raise `SendError`, and nothing else of what `FAILURES` names. `wall`: seconds since 1970."""

    def __init__(self, client: AsyncWebClient, wall: Callable[[], float]) -> None:
        self._client = client
        self._wall = wall

    async def post(self, address: Address, piece: Piece, key: str, index: int) -> str:
        """Post message `index` of the text `key`; gives its time stamp, which is its id."""
        thread = {"thread_ts": address.thread} if address.thread else {}
        answer = await self._call(
            "chat.postMessage",
            json={
                "channel": address.channel,
                "text": piece.text,
                "metadata": _metadata(piece, key, index),
                "unfurl_links": False,
                "unfurl_media": False,
                **thread,
            },
        )
        return str(answer["ts"])

    async def edit(self, address: Address, ts: str, piece: Piece, key: str, index: int) -> str:
        """Replace what message `ts` shows."""
        await self._call(
            "chat.update",
            json={
                "channel": address.channel,
                "ts": ts,
                "text": piece.text,
                "metadata": _metadata(piece, key, index),
            },
        )
        return ts

    async def delete(self, address: Address, ts: str) -> str:
        """Remove message `ts`."""
        await self._call("chat.delete", json={"channel": address.channel, "ts": ts})
        return ts

    async def mark(self, address: Address, ts: str, mark: str) -> None:
        """Put `mark` under message `ts` as it stands there, once; nothing where it is gone or full."""
        asked: dict[str, Any] = {"channel": address.channel, "limit": "1", "inclusive": "true", "latest": ts}
        method = "conversations.history"
        if address.thread:
            method = "conversations.replies"
            asked |= {"ts": address.thread, "oldest": ts, "limit": "2"}
        answer = await self._call(method, data=asked)
        text = next((str(one.get("text")) for one in answer.get("messages") or () if one.get("ts") == ts), "")
        whole = f"{text}\n\n{mark}"
        if text and not text.endswith(mark) and len(whole) <= MAX_TEXT:
            await self._call("chat.update", json={"channel": address.channel, "ts": ts, "text": whole})

    async def find(self, address: Address, keys: Collection[str]) -> dict[int, Found]:
        """The messages of the texts `keys` that stand in this conversation, by their index. Looks back a day."""
        found: dict[int, Found] = {}
        asked: dict[str, Any] = {
            "channel": address.channel,
            "include_all_metadata": "true",
            "limit": str(_PAGE),
            "oldest": f"{self._wall() - _LOOK_BACK:.6f}",
        }
        method = "conversations.history"
        if address.thread:
            method, asked["ts"] = "conversations.replies", address.thread
        for _ in range(_PAGES):
            answer = await self._call(method, data=asked)
            for message in answer.get("messages") or ():
                index, one = _read(message, keys)
                if one is not None:
                    found[index] = one
            cursor = (answer.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                break
            asked["cursor"] = cursor
        return found

    async def _call(self, method: str, **arguments: Any) -> Mapping[str, Any]:
        try:
            answer = await self._client.api_call(method, **arguments)
        except FAILURES as error:
            raise send_error(error) from error
        data = answer.data
        return data if isinstance(data, dict) else {}


def _metadata(piece: Piece, key: str, index: int) -> dict[str, Any]:
    return {"event_type": METADATA_TYPE, "event_payload": {"key": key, "part": index, "of": piece.of}}


def _read(message: Mapping[str, Any], keys: Collection[str]) -> tuple[int, Found | None]:
    metadata = message.get("metadata")
    payload = metadata.get("event_payload") if isinstance(metadata, Mapping) else None
    if not isinstance(payload, Mapping) or payload.get("key") not in keys:
        return 0, None
    part, of = payload.get("part"), payload.get("of")
    if not isinstance(part, int) or not isinstance(of, int):
        return 0, None
    return part, Found(str(message.get("ts")), of)
