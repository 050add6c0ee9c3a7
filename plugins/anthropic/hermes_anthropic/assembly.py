"""The stream of the Messages API to deltas; pure."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from hermes_anthropic.thoughts import THINKING, Thought, keep
from hermes_core.messages import ToolCall
from hermes_core.models import Delta, Opaque, Stop, Text, Usage
from hermes_httpmodel import faults
from hermes_httpmodel.content import distinct, encode, is_object
from hermes_httpmodel.stream import Events, read

__all__ = ["Assembly"]


class _Message(msgspec.Struct):
    usage: dict[str, Any] | None = None


class _Event(msgspec.Struct):
    """One event of a stream, or the whole message of a server that does not stream."""

    type: str = ""
    index: int | None = None
    message: _Message | str | None = None  # a text in some errors
    content_block: dict[str, Any] | None = None
    delta: dict[str, Any] | None = None
    content: list[dict[str, Any]] | str | None = None
    stop_reason: str | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


_EVENT: Final = msgspec.json.Decoder(_Event)
_REASONS: Final = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",  # the server wants to be asked to go on
    "refusal": "refused",
}
_COUNTS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


class _Call:
    """A tool call in the making."""

    __slots__ = ("id", "name", "pieces")

    def __init__(self, block: Mapping[str, Any]) -> None:
        self.id = _str(block.get("id"))
        self.name = _str(block.get("name"))
        self.pieces: list[str] = []
        if block.get("input"):  # whole at once
            self.pieces.append(encode(block["input"]).decode())

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


class Assembly:
    """See `hermes_httpmodel.stream.Assembly`. Thinking blocks come as one `Opaque`, for `model` alone.

    A call whose id is in `taken`, came twice or is missing gets another id: the same stream always
    gives the same ids.
    """

    def __init__(self, model: str, taken: AbstractSet[str] = frozenset()) -> None:
        self.finished = False
        self._model = model
        self._taken = taken
        self._events = Events()
        self._reason = ""
        self._said = 0  # characters of text so far
        self._calls: dict[int, _Call] = {}
        self._thoughts: dict[int, Thought] = {}
        self._counts: dict[str, int] = {}

    def feed(self, piece: bytes) -> list[Delta]:
        """Take bytes in, cut anywhere."""
        return [delta for event in self._events.feed(piece) for delta in self._take(event.data, event.event)]

    def whole(self, body: bytes) -> list[Delta]:
        """Take the answer of a server that does not stream."""
        return self._take(body.decode("utf-8", "replace"), "message")

    def end(self) -> list[Delta]:
        """Nothing follows: gives calls, thinking blocks, usage and the `Stop`. `ModelError` if it was cut."""
        ends = [delta for event in self._events.end() for delta in self._take(event.data, event.event)]
        if not self._reason and not (self.finished and (self._said or self._calls)):
            raise faults.cut("the stream ended without a stop_reason")
        reason = _REASONS.get(self._reason, "")
        calls = self._tool_calls(whole_only=bool(reason))
        ends += calls
        thoughts = [one for one in self._thoughts.values() if not reason or _signed(one.block)]
        if thoughts:
            ends.append(Opaque(keep(self._model, thoughts)))
        if self._counts:
            ends.append(self._usage())
        ends.append(Stop(reason or ("tools" if calls else "end")))
        return ends

    def _take(self, data: str, name: str) -> list[Delta]:
        if not data:
            return []
        event = read(data, _EVENT)
        kind = event.type or name
        if kind == "error" or event.error is not None:
            raise faults.reported(event.error if event.error is not None else msgspec.json.decode(data))
        self._count(event.usage)
        if kind == "message_start" and isinstance(event.message, _Message):
            self._count(event.message.usage)
        elif kind == "content_block_start":
            return self._begin(event.index or 0, event.content_block or {})
        elif kind == "content_block_delta":
            return self._go_on(event.index or 0, event.delta or {})
        elif kind == "message_delta":
            self._stop(_str((event.delta or {}).get("stop_reason")))
        elif kind == "message_stop":
            self.finished = True
        elif kind == "message":
            blocks = enumerate(event.content if isinstance(event.content, list) else ())
            deltas = [delta for index, block in blocks for delta in self._begin(index, block)]
            self._stop(event.stop_reason or "")
            return deltas
        return []  # ping, content_block_stop, and what is not known yet

    def _begin(self, index: int, block: dict[str, Any]) -> list[Delta]:
        kind = block.get("type")
        if kind == "text":
            return self._text(block.get("text"))
        if kind == "tool_use":
            self._calls[index] = _Call(block)
        elif kind in THINKING:
            self._thoughts[index] = Thought(dict(block), self._said, len(self._calls))
        return []

    def _go_on(self, index: int, delta: dict[str, Any]) -> list[Delta]:
        kind = delta.get("type")
        if kind == "text_delta":
            return self._text(delta.get("text"))
        if kind == "input_json_delta" and index in self._calls:
            self._calls[index].pieces.append(_str(delta.get("partial_json")))
        elif kind in ("thinking_delta", "signature_delta") and index in self._thoughts:
            block, key = self._thoughts[index].block, str(kind).removesuffix("_delta")
            block[key] = _str(block.get(key)) + _str(delta.get(key))
        return []

    def _text(self, text: Any) -> list[Delta]:
        if not isinstance(text, str) or not text:
            return []
        self._said += len(text)
        return [Text(text)]

    def _stop(self, reason: str) -> None:
        if reason:
            self._reason = reason
            self.finished = True

    def _tool_calls(self, whole_only: bool) -> list[ToolCall]:
        """The calls; where the answer was stopped, only those that are whole for certain."""
        calls = [call for _, call in sorted(self._calls.items())]
        if whole_only:
            calls = [call for call in calls if is_object(call.arguments)]
        if not all(call.name for call in calls):
            raise faults.malformed("a tool call without a name")
        ids = distinct((call.id for call in calls), self._taken)
        return [
            ToolCall(id_, call.name, call.arguments or "{}") for id_, call in zip(ids, calls, strict=True)
        ]

    def _count(self, usage: dict[str, Any] | None) -> None:
        """Counts only grow; later events repeat what earlier ones said, or leave it out."""
        for key in _COUNTS:
            value = (usage or {}).get(key)
            if isinstance(value, int):
                self._counts[key] = max(value, self._counts.get(key, 0))

    def _usage(self) -> Usage:
        new, written, cached, output = (self._counts.get(key, 0) for key in _COUNTS)
        return Usage(new + written + cached, output, cached)


def _str(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _signed(block: Mapping[str, Any]) -> bool:
    """Whether a thinking block came to its end: one that was cut is refused in the next call."""
    return block.get("type") != "thinking" or bool(block.get("signature"))
