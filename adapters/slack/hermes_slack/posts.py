"""Posts: the agent's messages on Slack. Posted, streamed, edited, deleted, and found again by their metadata (D5).

Theory of operation. In threads Slack itself shows a text while it is written. Such a native stream is begun,
appended to and ended; in between it takes no edits, and after some minutes Slack ends it by itself. It is a better
way to show the same messages, never another truth: what Slack refuses here is posted or edited as usual, at once. A
text that does not go on from what was streamed, a call whose outcome is unknown (repeated, it would stand there
twice) and a stream that is too old are mended in the same way: the stream is ended, and the message edited to what
it should be.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import msgspec

from hermes_core.errors import SendError
from hermes_core.messages import Address
from hermes_core.pacing import Budget, Want
from hermes_core.writing import Doubt, Place
from hermes_slack.client import Client, in_thread
from hermes_slack.convert import CHOICE, is_ts
from hermes_slack.faults import send_error, word_of
from hermes_slack.files import Files, Unwanted
from hermes_slack.limits import METADATA_TYPE, STREAM_LIFE, STREAM_RATE
from hermes_slack.render import Piece

__all__ = ["Posts", "Speaker", "has_table", "ringing_nobody"]

log = logging.getLogger("hermes.slack")

_RECIPIENT: Final = re.compile(r"[UW][A-Z0-9]+")
# What chat.postMessage says where the agent is not: a channel, or the direct chat of other people.
_OUTSIDE: Final = ("not_in_channel", "channel_not_found")
_ALONE: Final = "_Only you see this: I am not in this channel._"
_LOOK_BACK: Final = 86_400.0  # seconds
_SKEW: Final = 60.0  # seconds by which our clock and Slack's may differ
_PLACE: Final = ("key", "part", "index")
_NAME: Final = re.compile(r"<(?=[@!#])")
_RULER: Final = re.compile(r"^(?=[^\n]*-)[ \t>:|-]*\|[ \t>:|-]*$", re.MULTILINE)  # below the head of a table


class Speaker(msgspec.Struct, frozen=True):
    """Who wrote last in a conversation: the person, the workspace, the message, and where a slash command is
    answered."""

    user: str
    team: str
    ts: str
    respond: str = ""


@dataclass
class _Stream:
    raw: str
    began: float
    sure: bool = True  # it is known what stands there


def ringing_nobody(text: str) -> str:
    """Markdown in which no name is one for Slack (R4, E11). A longer text gives the same beginning."""
    return _NAME.sub("<\u2060", text)


def has_table(text: str) -> bool:
    """Whether Markdown has a table in it, or something that looks like one."""
    return "|" in text and _RULER.search(text) is not None


class Posts:
    """`hermes_core.writing.Calls`; it streams where it can, if `native`.

    `speaker` says who wrote last; None: nobody is known. A slash command can be typed where the agent is not: then
    its answer goes to who typed it, alone. `wall`: seconds since 1970.
    """

    def __init__(
        self,
        client: Client,
        files: Files,
        speaker: Callable[[Address], Speaker | None],
        wall: Callable[[], float],
        clock: Callable[[], float],
        *,
        native: bool = True,
    ) -> None:
        self._client = client
        self._files = files
        self._speaker = speaker
        self._wall = wall
        self._clock = clock
        self._native = native
        self._begun = Budget(lambda method: (STREAM_RATE,), (), clock)
        self._open: dict[str, _Stream] = {}  # by the message
        self._off: set[str] = set()  # channels that take none

    async def post(self, place: Place, content: Piece) -> str:
        """Post a message; gives its time stamp, which is its id. A file has an id of its own.

        A draft in a thread is begun as a stream.
        """
        if content.file is not None:
            try:
                return await self._files.share(place, content.of, content.file)
            except Unwanted as why:
                content = Piece(why.message, content.of, reply=content.reply)
        speaker = self._speaker(place.address)
        if speaker is not None and content.raw and not content.of and self._takes(place.address, speaker):
            begun = await self._begin(place.address, content, speaker)
            if begun is not None:
                return begun
        try:
            return await self._post(place, content)
        except SendError as error:
            outside = content.of and word_of(error) in _OUTSIDE
            if speaker is None or not speaker.respond or not outside:
                raise
        await self._respond(speaker.respond, content)
        return f"seen by one:{place.key}:{place.index}"

    async def _post(self, place: Place, piece: Piece) -> str:
        blocks = {"blocks": _blocks(piece)} if piece.choices else {}
        answer = await self._client.call(
            "chat.postMessage",
            **in_thread(place.address),
            text=piece.text,
            metadata=_metadata(place, piece),
            unfurl_links=False,
            unfurl_media=False,
            **blocks,
        )
        return str(answer["ts"])

    async def _respond(self, url: str, piece: Piece) -> None:
        said = {"response_type": "ephemeral", "text": f"{piece.text}\n\n{_ALONE}"}
        try:
            async with self._client.http.post(url, json=said) as response:
                if response.status != 200:
                    raise SendError("Slack takes no answer to this command any more.", permanent=True)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise send_error(error) from error

    async def _begin(self, address: Address, piece: Piece, speaker: Speaker) -> str | None:
        """The message that shows it from now on; None where Slack refuses that."""
        try:
            answer = await self._client.call(
                "chat.startStream",
                channel=address.channel,
                thread_ts=address.thread,
                markdown_text=ringing_nobody(piece.raw),
                recipient_user_id=speaker.user,
                recipient_team_id=speaker.team,
            )
        except SendError as error:
            if error.retry_after is not None:
                self._begun.blocked("", error.retry_after)
            elif error.unknown or not word_of(error):
                raise  # not refused: Slack was not reached, or nobody knows
            else:
                log.info("no native streams in %s: %s", address.channel, word_of(error))
                self._off.add(address.channel)
            return None
        ts = str(answer["ts"])
        self._open[ts] = _Stream(piece.raw, self._clock())
        return ts

    def _takes(self, address: Address, speaker: Speaker) -> bool:
        return (
            self._native
            and address.thread is not None
            and address.channel not in self._off
            and _RECIPIENT.fullmatch(speaker.user) is not None
            and self._begun.ask("", Want.STREAM_EDIT) == 0.0
        )

    async def edit(self, place: Place, id: str, content: Piece) -> str:
        """Replace what message `id` shows; append to an open stream, and end it with the text.

        A text cannot become a file, nor a file another one.
        """
        if content.file is not None:
            if is_ts(id):
                await self.delete(place, id)
                raise SendError("A file takes the place of this text.", permanent=True)
            return id
        channel, stream, data = place.address.channel, self._open.get(id), _metadata(place, content)
        if stream is not None and self._goes_on(stream, content):
            try:
                if await self._append(channel, id, stream, content, data):
                    return id
            except SendError as error:
                stream.sure = not error.unknown
                if error.unknown or error.retry_after is not None:
                    raise
                log.info("a native stream is given up: %s", word_of(error))
        if self._open.pop(id, None) is not None:
            await self._end(channel, id)
        # without blocks a message keeps those that it has, a streamed one its text
        what = {"text": content.text, "blocks": _blocks(content), "metadata": data}
        await self._unstreamed("chat.update", channel, id, **what)
        return id

    def _goes_on(self, stream: _Stream, piece: Piece) -> bool:
        """Whether appending to what stands there shows this piece, and nothing that Slack would not show so."""
        if not stream.sure or piece.choices or not piece.raw.startswith(stream.raw):
            return False
        if (
            piece.of
        ):  # what stays there has no invisible characters in its code, and no table as pipes (case 37)
            return ringing_nobody(piece.raw) == piece.raw and not has_table(piece.raw)
        return self._clock() - stream.began < STREAM_LIFE

    async def _append(
        self, channel: str, ts: str, stream: _Stream, piece: Piece, data: Mapping[str, Any]
    ) -> bool:
        more = ringing_nobody(piece.raw)[len(ringing_nobody(stream.raw)) :]
        if piece.of:
            text = {"markdown_text": more} if more else {}
            ended = await self._end(channel, ts, metadata=data, **text)
            self._open.pop(ts, None)
            return ended
        if more:
            await self._client.call("chat.appendStream", channel=channel, ts=ts, markdown_text=more)
            stream.raw = piece.raw
        return True

    async def delete(self, place: Place, id: str) -> str:
        """Remove message `id`."""
        self._open.pop(id, None)
        await self._unstreamed("chat.delete", place.address.channel, id)
        return id

    async def _end(self, channel: str, ts: str, **last: Any) -> bool:
        """End the stream that message `ts` is; False where it is none any more."""
        try:
            await self._client.call("chat.stopStream", channel=channel, ts=ts, **last)
        except SendError as error:
            if word_of(error) != "message_not_in_streaming_state":
                raise
            return False
        return True

    async def _unstreamed(self, method: str, channel: str, ts: str, **what: Any) -> None:
        """Change a message. One that is still streamed (by a run that is dead, say) takes that only afterwards."""
        try:
            await self._client.call(method, channel=channel, ts=ts, **what)
        except SendError as error:
            if word_of(error) not in ("streaming_state_conflict", "cant_delete_message"):
                raise
        else:
            return
        await self._end(channel, ts)
        await self._client.call(method, channel=channel, ts=ts, **what)

    async def find(self, place: Place, doubt: Doubt) -> str | None:
        """The id of what a doubtful post left at this place; see `hermes_core.writing.Find`.

        What was begun as a stream and not answered has no metadata, but its first words.
        """
        shared = await self._files.shared(place.key, place.address)
        if place.index < len(shared) and shared[place.index] is not None:
            return shared[place.index]
        words = ringing_nobody(doubt.words)
        async for message in self._said(place.address):
            ts = str(message.get("ts"))
            if message.get("metadata") or not message.get("bot_id"):
                told = _told(message)
                is_it = tuple(told.get(one) for one in _PLACE) == (place.key, place.part, place.index)
            else:
                is_it = str(message.get("text")).startswith(words) and float(ts) > doubt.at - _SKEW
            if is_it:
                return ts
        return None

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
        return self._client.standing(
            address.channel, address.thread, oldest=oldest, include_all_metadata="true"
        )


def _metadata(place: Place, piece: Piece) -> dict[str, Any]:
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
