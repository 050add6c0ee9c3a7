"""Server-sent events: bytes in any pieces go in, whole events come out.

Follows the "event stream interpretation" of the WHATWG HTML standard, as a pure decoder: it reads
nothing and waits for nothing. How the stream was cut into pieces never changes what comes out, be
it within a character, a line end or the byte order mark.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hermes_core.errors import HermesError

__all__ = ["Decoder", "Event"]

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_MILLISECONDS: Final = re.compile(r"[0-9]{1,15}")
_LIMIT: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `event` is its type, "message" where none was given; `data` its lines, joined.

    `id` is the latest id that the stream gave, here or before. `retry` is the reconnection time in
    milliseconds that was asked for since the event before, None if none was.
    """

    data: str
    event: str = "message"
    id: str = ""
    retry: int | None = None


class Decoder:
    """Decodes one stream. `limit` bounds the characters of one event, unfinished lines included.

    Bytes that are no UTF-8 become U+FFFD, as the standard says. An event over the limit raises
    `HermesError` and ends the decoder: the events before it are given first, whatever the pieces
    were, so the error may be raised by the call after the one that brought it.
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._started = False  # a byte order mark can stand only at the very start
        self._after_cr = False  # a line feed now would belong to the carriage return before it
        self._line: list[str] = []  # the unfinished line, in the pieces in which it came
        self._line_size = 0
        self._size = 0  # characters of the event's finished lines
        self._data: list[str] = []
        self._event = ""
        self._id = ""
        self._retry: int | None = None
        self._too_long = False

    def feed(self, piece: bytes | str) -> list[Event]:
        """Take the next piece in; gives the events that it completed, in order."""
        if isinstance(piece, str):
            text = (self._utf8.decode(b"", final=True) if self._utf8.getstate()[0] else "") + piece
        else:
            text = self._utf8.decode(piece)
        return self._text(text)

    def end(self) -> list[Event]:
        """The stream ended. Gives the event that no blank line has ended, if there is one.

        The standard drops that event; many servers forget the blank line. A reader that cannot tell
        a cut event from a whole one does not call this.
        """
        events = self._text(self._utf8.decode(b"", final=True))
        return [*events, *self._lines(["".join(self._cut_off()), ""])]

    def _text(self, text: str) -> list[Event]:
        if self._too_long:
            raise self._error()
        if not text:
            return []
        if not self._started:
            self._started = True
            text = text.removeprefix("\ufeff")
        if self._after_cr:
            text = text.removeprefix("\n")
            self._after_cr = False
            if not text:
                return []
        self._after_cr = text.endswith("\r")
        *lines, rest = _LINE_END.split(text) if "\r" in text else text.split("\n")
        if lines:
            lines[0] = "".join([*self._cut_off(), lines[0]])
        events = self._lines(lines)
        if rest:
            self._line.append(rest)
            self._line_size += len(rest)
        if self._size + self._line_size > self._limit:
            self._too_long = True
        if self._too_long and not events:
            raise self._error()
        return events

    def _cut_off(self) -> list[str]:
        pieces, self._line, self._line_size = self._line, [], 0
        return pieces

    def _lines(self, lines: Iterable[str]) -> list[Event]:
        events: list[Event] = []
        for line in lines:
            if not line:
                events += self._dispatch()
                continue
            if self._size + len(line) > self._limit:
                self._too_long = True
                break
            if line[0] != ":":
                self._size += len(line)
                self._field(line)
        return events

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and _MILLISECONDS.fullmatch(value):
            self._retry = int(value)

    def _dispatch(self) -> list[Event]:
        events: list[Event] = []
        if self._data:
            events.append(Event("\n".join(self._data), self._event or "message", self._id, self._retry))
            self._retry = None
        self._data, self._event, self._size = [], "", 0
        return events

    def _error(self) -> HermesError:
        return HermesError(f"A server-sent event is longer than {self._limit} characters.")
