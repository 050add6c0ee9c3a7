"""Streams: texts that Slack itself shows while they are written, in threads; wherever it will not, edits do the same.

Theory of operation. A native stream is begun, appended to and ended; in between it takes no edits, and after
some minutes Slack ends it by itself. It is a better way to show the same messages, never another truth: what
Slack refuses here is posted or edited as usual, at once. A text that does not go on from what was streamed, a
call whose outcome is unknown (repeated, it would stand there twice) and a stream that is too old are mended
in the same way: the stream is ended, and the message edited to what it should be.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import msgspec

from hermes_core.errors import SendError
from hermes_core.messages import Address
from hermes_core.pacing import Budget, Want
from hermes_core.writing import Doubt, Place
from hermes_slack.faults import send_error, word_of
from hermes_slack.files import Files
from hermes_slack.limits import STREAM_LIFE, STREAM_RATE
from hermes_slack.posts import Posts, metadata
from hermes_slack.render import Piece
from hermes_slack.web import Web

__all__ = ["Speaker", "Streams", "has_table", "ringing_nobody"]

log = logging.getLogger("hermes.slack")

_RECIPIENT: Final = re.compile(r"[UW][A-Z0-9]+")
# What chat.postMessage says where the agent is not: a channel, or the direct chat of other people.
_OUTSIDE: Final = ("not_in_channel", "channel_not_found")
_ALONE: Final = "_Only you see this: I am not in this channel._"
_SKEW: Final = 60.0  # seconds by which our clock and Slack's may differ
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


class Streams(Posts):
    """`Posts` that streams where it can, if `native`. `speaker` says who is to see it; None: nobody is known.

    A slash command can be typed where the agent is not: then its answer goes to who typed it, alone.
    """

    def __init__(
        self,
        web: Web,
        files: Files,
        session: aiohttp.ClientSession,
        speaker: Callable[[Address], Speaker | None],
        wall: Callable[[], float],
        clock: Callable[[], float],
        *,
        native: bool = True,
    ) -> None:
        super().__init__(web, files, wall)
        self._session = session
        self._speaker = speaker
        self._clock = clock
        self._native = native
        self._begun = Budget(lambda method: (STREAM_RATE,), (), clock)
        self._open: dict[str, _Stream] = {}  # by the message
        self._off: set[str] = set()  # channels that take none

    async def post(self, place: Place, content: Piece) -> str:
        """Begin a stream for a draft in a thread; anything else is posted."""
        speaker = self._speaker(place.address)
        if speaker is None:
            return await super().post(place, content)
        try:
            if content.raw and not content.of and self._takes(place.address, speaker):
                begun = await self._begin(place.address, content, speaker)
                if begun is not None:
                    return begun
            return await super().post(place, content)
        except SendError as error:
            if not speaker.respond or not content.of or word_of(error) not in _OUTSIDE:
                raise
        await self._respond(speaker.respond, content)
        return f"seen by one:{place.key}:{place.index}"

    async def _respond(self, url: str, piece: Piece) -> None:
        said = {"response_type": "ephemeral", "text": f"{piece.text}\n\n{_ALONE}"}
        try:
            async with self._session.post(url, json=said) as response:
                if response.status != 200:
                    raise SendError("Slack takes no answer to this command any more.", permanent=True)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise send_error(error) from error

    async def _begin(self, address: Address, piece: Piece, speaker: Speaker) -> str | None:
        """The message that shows it from now on; None where Slack refuses that."""
        try:
            answer = await self._web.call(
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
        """Append to an open stream, and end it with the text; anything else is edited."""
        channel, stream = place.address.channel, self._open.get(id)
        if stream is not None and self._goes_on(stream, content):
            try:
                if await self._append(channel, id, stream, content, metadata(place, content)):
                    return id
            except SendError as error:
                stream.sure = not error.unknown
                if error.unknown or error.retry_after is not None:
                    raise
                log.info("a native stream is given up: %s", word_of(error))
        if self._open.pop(id, None) is not None:
            await self.end_stream(channel, id)
        return await super().edit(place, id, content)

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
            ended = await self.end_stream(channel, ts, metadata=data, **text)
            self._open.pop(ts, None)
            return ended
        if more:
            await self._web.call("chat.appendStream", channel=channel, ts=ts, markdown_text=more)
            stream.raw = piece.raw
        return True

    async def delete(self, place: Place, id: str) -> str:
        """Remove message `id`."""
        self._open.pop(id, None)
        return await super().delete(place, id)

    def _is(self, message: Mapping[str, Any], place: Place, doubt: Doubt) -> bool:
        """Also what was begun as a stream and not answered: it has no metadata, but its first words."""
        if message.get("metadata") or not message.get("bot_id"):
            return super()._is(message, place, doubt)
        begun = str(message.get("text")).startswith(ringing_nobody(doubt.words))
        return begun and float(str(message.get("ts"))) > doubt.at - _SKEW
