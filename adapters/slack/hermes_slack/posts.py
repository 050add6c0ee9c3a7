"""Posts: the agent's messages on Slack. Posted, edited, deleted, and found again by their metadata (D5)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from hermes_core.errors import SendError
from hermes_core.messages import Address
from hermes_core.writing import Doubt, Place
from hermes_slack.convert import CHOICE
from hermes_slack.faults import word_of
from hermes_slack.files import Files, Unwanted
from hermes_slack.limits import METADATA_TYPE, is_ts
from hermes_slack.render import Piece
from hermes_slack.web import Web, in_thread

__all__ = ["Posts", "metadata"]

_LOOK_BACK: Final = 86_400.0  # seconds


class Posts:
    """`hermes_core.writing.Calls`. `wall`: seconds since 1970."""

    def __init__(self, web: Web, files: Files, wall: Callable[[], float]) -> None:
        self._web = web
        self._files = files
        self._wall = wall

    async def post(self, place: Place, content: Piece) -> str:
        """Post a message; gives its time stamp, which is its id. A file has an id of its own."""
        if content.file is not None:
            try:
                return await self._files.share(place, content.of, content.file)
            except Unwanted as why:
                content = Piece(why.message, content.of, reply=content.reply)
        blocks = {"blocks": _blocks(content)} if content.choices else {}
        answer = await self._web.call(
            "chat.postMessage",
            **in_thread(place.address),
            text=content.text,
            metadata=metadata(place, content),
            unfurl_links=False,
            unfurl_media=False,
            **blocks,
        )
        return str(answer["ts"])

    async def edit(self, place: Place, id: str, content: Piece) -> str:
        """Replace what message `id` shows. A text cannot become a file, nor a file another one."""
        if content.file is not None:
            if is_ts(id):
                await self.delete(place, id)
                raise SendError("A file takes the place of this text.", permanent=True)
            return id
        await self._unstreamed(
            "chat.update",
            place.address.channel,
            id,
            text=content.text,
            # without them a message keeps those that it has, a streamed one its text
            blocks=_blocks(content),
            metadata=metadata(place, content),
        )
        return id

    async def delete(self, place: Place, id: str) -> str:
        """Remove message `id`."""
        await self._unstreamed("chat.delete", place.address.channel, id)
        return id

    async def end_stream(self, channel: str, ts: str, **last: Any) -> bool:
        """End the stream that message `ts` is; False where it is none any more."""
        try:
            await self._web.call("chat.stopStream", channel=channel, ts=ts, **last)
        except SendError as error:
            if word_of(error) != "message_not_in_streaming_state":
                raise
            return False
        return True

    async def _unstreamed(self, method: str, channel: str, ts: str, **what: Any) -> None:
        """Change a message. One that is still streamed (by a run that is dead, say) takes that only afterwards."""
        try:
            await self._web.call(method, channel=channel, ts=ts, **what)
        except SendError as error:
            if word_of(error) not in ("streaming_state_conflict", "cant_delete_message"):
                raise
        else:
            return
        await self.end_stream(channel, ts)
        await self._web.call(method, channel=channel, ts=ts, **what)

    async def find(self, place: Place, doubt: Doubt) -> str | None:
        """The id of what a doubtful post left at this place; see `hermes_core.writing.Find`."""
        shared = await self._files.shared(place.key, place.address)
        if place.index < len(shared) and shared[place.index] is not None:
            return shared[place.index]
        async for message in self._said(place.address):
            if self._is(message, place, doubt):
                return str(message.get("ts"))
        return None

    def _is(self, message: Mapping[str, Any], place: Place, doubt: Doubt) -> bool:
        said = _told(message)
        return (said.get("key"), said.get("part"), said.get("index")) == (place.key, place.part, place.index)

    async def delivered(self, key: str, address: Address) -> list[str | None]:
        """The messages and files that were delivered under this key, in order; None for each that is missing."""
        found = await self._files.shared(key, address)
        async for message in self._said(address):
            said = _told(message)
            if said.get("key") == key and said.get("of"):
                found += [None] * (said["of"] - len(found))
                found[said["index"]] = str(message.get("ts"))
        return found

    def _said(self, address: Address) -> AsyncIterator[Mapping[str, Any]]:
        """What stands in this conversation, of the last day."""
        oldest = f"{self._wall() - _LOOK_BACK:.6f}"
        return self._web.standing(address.channel, address.thread, oldest=oldest, include_all_metadata="true")


def metadata(place: Place, piece: Piece) -> dict[str, Any]:
    """By which the message at this place can be found again. `of` only where it was delivered, and not a part of a
    draft, a text before a tool call or the line of a job."""
    told: dict[str, Any] = {"key": place.key, "part": place.part, "index": place.index}
    if piece.reply:
        told["of"] = piece.of
    return {"event_type": METADATA_TYPE, "event_payload": told}


def _told(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a message's metadata say; nothing where it has none of ours."""
    data = message.get("metadata") or {}
    return data["event_payload"] if data.get("event_type") == METADATA_TYPE else {}


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
