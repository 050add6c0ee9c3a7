"""Posts: the agent's messages on Slack. Posted, edited, deleted, and found again by their metadata (D5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import aiohttp
import msgspec
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from hermes_core.errors import SendError
from hermes_core.messages import Address
from hermes_slack.convert import CHOICE
from hermes_slack.faults import send_error, word_of
from hermes_slack.limits import MAX_TEXT, METADATA_TYPE
from hermes_slack.render import Piece

__all__ = ["FAILURES", "Found", "Posts", "metadata"]

FAILURES: Final = (SlackApiError, aiohttp.ClientError, TimeoutError, OSError)
"""All that a call through the client library is known to raise."""

_LOOK_BACK: Final = 86_400.0  # seconds
_PAGE: Final = 200
_PAGES: Final = 5


class Found(msgspec.Struct, frozen=True):
    """One message of a text, as it stands on Slack: its time stamp, of how many it is one (0: a draft), and how
    many files follow the text."""

    ts: str
    of: int
    files: int = 0


class Posts:
    """Calls that raise `SendError`, and nothing else of what `FAILURES` names. `wall`: seconds since 1970."""

    def __init__(self, client: AsyncWebClient, wall: Callable[[], float]) -> None:
        self._client = client
        self._wall = wall

    async def post(self, address: Address, piece: Piece, key: str, index: int) -> str:
        """Post message `index` of the text `key`; gives its time stamp, which is its id."""
        thread = {"thread_ts": address.thread} if address.thread else {}
        blocks = {"blocks": _blocks(piece)} if piece.choices else {}
        answer = await self.call(
            "chat.postMessage",
            channel=address.channel,
            text=piece.text,
            metadata=metadata(piece, key, index),
            unfurl_links=False,
            unfurl_media=False,
            **thread,
            **blocks,
        )
        return str(answer["ts"])

    async def edit(self, address: Address, ts: str, piece: Piece, key: str, index: int) -> str:
        """Replace what message `ts` shows."""
        await self._unstreamed(
            "chat.update",
            address.channel,
            ts,
            text=piece.text,
            blocks=_blocks(piece),  # without them a message keeps those that it has, a streamed one its text
            metadata=metadata(piece, key, index),
        )
        return ts

    async def delete(self, address: Address, ts: str) -> str:
        """Remove message `ts`."""
        await self._unstreamed("chat.delete", address.channel, ts)
        return ts

    async def end_stream(self, channel: str, ts: str, **last: Any) -> bool:
        """End the stream that message `ts` is; False where it is none any more."""
        try:
            await self.call("chat.stopStream", channel=channel, ts=ts, **last)
        except SendError as error:
            if word_of(error) != "message_not_in_streaming_state":
                raise
            return False
        return True

    async def _unstreamed(self, method: str, channel: str, ts: str, **what: Any) -> None:
        """Change a message. One that is still streamed (by a run that is dead, say) takes that only afterwards."""
        try:
            await self.call(method, channel=channel, ts=ts, **what)
        except SendError as error:
            if word_of(error) not in ("streaming_state_conflict", "cant_delete_message"):
                raise
        else:
            return
        await self.end_stream(channel, ts)
        await self.call(method, channel=channel, ts=ts, **what)

    async def mark(self, address: Address, ts: str, mark: str) -> None:
        """Put `mark` under message `ts` as it stands there, once; nothing where it is gone or full."""
        asked: dict[str, Any] = {"channel": address.channel, "limit": "1", "inclusive": "true", "latest": ts}
        method = "conversations.history"
        if address.thread:
            method = "conversations.replies"
            asked |= {"ts": address.thread, "oldest": ts, "limit": "2"}
        answer = await self.read(method, asked)
        text = next((str(one.get("text")) for one in answer.get("messages") or () if one.get("ts") == ts), "")
        whole = f"{text}\n\n{mark}"
        if text and not text.endswith(mark) and len(whole) <= MAX_TEXT:
            await self._unstreamed("chat.update", address.channel, ts, text=whole, blocks=[])

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
            answer = await self.read(method, asked)
            for message in answer.get("messages") or ():
                index, one = self._read(message, keys)
                if one is not None:
                    found[index] = one
            cursor = (answer.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                break
            asked["cursor"] = cursor
        return found

    def _read(self, message: Mapping[str, Any], keys: Collection[str]) -> tuple[int, Found | None]:
        """Which message of which text this one is, by its metadata."""
        data = message.get("metadata")
        payload = data.get("event_payload") if isinstance(data, Mapping) else None
        if not isinstance(payload, Mapping) or payload.get("key") not in keys:
            return 0, None
        part, of, files = (payload.get(name, 0) for name in ("part", "of", "files"))
        if not (isinstance(part, int) and isinstance(of, int) and isinstance(files, int)):
            return 0, None
        return part, Found(str(message.get("ts")), of, files)

    async def call(self, method: str, **arguments: Any) -> Mapping[str, Any]:
        """Call a method that takes JSON."""
        return await self._api(method, json=arguments)

    async def read(self, method: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Call a method that takes a form."""
        return await self._api(method, data=arguments)

    async def _api(self, method: str, **arguments: Any) -> Mapping[str, Any]:
        try:
            answer = await self._client.api_call(method, **arguments)
        except FAILURES as error:
            raise send_error(error) from error
        data = answer.data
        return data if isinstance(data, dict) else {}


def metadata(piece: Piece, key: str, index: int) -> dict[str, Any]:
    """By which message `index` of the text `key` can be found again."""
    payload: dict[str, Any] = {"key": key, "part": index, "of": piece.of}
    if piece.files:
        payload["files"] = piece.files
    return {"event_type": METADATA_TYPE, "event_payload": payload}


def _blocks(piece: Piece) -> list[dict[str, Any]]:
    if not piece.choices:
        return []
    buttons = [
        {
            "type": "button",
            "action_id": f"{CHOICE}{number}",
            "text": {"type": "plain_text", "text": one.label},
            "value": one.send,
        }
        for number, one in enumerate(piece.choices)
    ]
    # verbatim: Slack would look for names in it by itself (R4)
    text = {"type": "mrkdwn", "text": piece.text, "verbatim": True}
    return [{"type": "section", "text": text}, {"type": "actions", "elements": buttons}]
