"""The chat completions API as pure functions: a request to JSON, the events of a stream to deltas.

The messages of a request are a function of its items alone, and the tools are sorted: what was sent
before stays the same, byte by byte, from turn to turn, so a provider's prompt cache can be used.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any, Final

import msgspec

from hermes_core.history import render
from hermes_core.messages import Item, Said, Step, ToolCall
from hermes_core.models import Delta, Request, Stop, Text, Usage
from hermes_httpmodel import faults
from hermes_httpmodel.content import distinct, encode, is_object
from hermes_httpmodel.pictures import Pictures
from hermes_httpmodel.stream import Events, read

__all__ = ["Assembly", "body", "messages"]

_NONE: Final[Pictures] = MappingProxyType({})


def body(request: Request, model: str, shown: Pictures = _NONE) -> bytes:
    """The JSON body of `POST /chat/completions` for this request, streamed and with usage."""
    content: dict[str, Any] = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    if request.tools:
        content["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
            }
            for tool in sorted(request.tools, key=lambda tool: tool.name)
        ]
    content["messages"] = messages(request.system, request.items, shown)
    return encode(content)


def messages(system: str, items: Iterable[Item], shown: Pictures = _NONE) -> list[dict[str, Any]]:
    """The provider's form of a history.

    A step that said nothing and called nothing is left out: several servers refuse empty text.
    """
    written: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for item in items:
        if isinstance(item, Said):
            written.append({"role": "user", "content": _said(item, shown)})
        elif item.calls:
            written += _step(item)
        elif item.text:
            written.append({"role": "assistant", "content": item.text})
    return written


def _said(item: Said, shown: Pictures) -> str | list[dict[str, Any]]:
    """The text; with pictures it is a list of parts, the text first."""
    urls = [f"data:{one.media_type};base64,{shown[one]}" for one in item.attachments if one in shown]
    if not urls:
        return render(item)
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"type": "text", "text": render(item)}, *parts]


def _step(step: Step) -> list[dict[str, Any]]:
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": call.arguments if is_object(call.arguments) else "{}",
            },
        }
        for call in step.calls
    ]
    results = [
        {"role": "tool", "tool_call_id": result.call_id, "content": result.text} for result in step.results
    ]
    return [{"role": "assistant", "content": step.text or None, "tool_calls": calls}, *results]


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Said(msgspec.Struct):
    content: str | list[Any] | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    index: int | None = None
    delta: _Said | None = None
    message: _Said | None = None  # of a server that does not stream
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    object: str | None = None


_CHUNK: Final = msgspec.json.Decoder(_Chunk)
_REASONS: Final = {"length": "length", "max_tokens": "length", "content_filter": "refused"}


class _Gathered:
    """A tool call in the making."""

    __slots__ = ("id", "index", "name", "pieces")

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def is_other(self, piece: _Call, name: str) -> bool:
        """Whether a piece for the same index is the beginning of another call.

        Some servers send whole calls, all with index 0; others a new id with each piece of one call.
        A name comes once in a call, so a second name decides, unless its id says that it is the same.
        """
        if not (name and self.name):
            return False
        if piece.id and self.id:
            return piece.id != self.id
        return is_object(self.arguments)


class Assembly:
    """Puts one answer together again: `feed` it the bytes of the stream as they come, then `end`.

    Text comes out at once; tool calls, whole and in order, at the end. A call without an id gets
    one, and a call whose id is in `taken` or came twice gets another: the same stream always gives
    the same ids. `finished` tells that the model has ended its answer; usage may follow.
    """

    def __init__(self, taken: AbstractSet[str] = frozenset()) -> None:
        self.finished = False
        self._taken = taken
        self._events = Events()
        self._something = False  # any text came
        self._reason = ""
        self._usage: Usage | None = None
        self._calls: list[_Gathered] = []

    def feed(self, piece: bytes) -> list[Delta]:
        """Take bytes in, cut anywhere. `ModelError`: it cannot be read, or the server reports an error."""
        events = self._events.feed(piece)
        return [delta for event in events for delta in self._take(event.data, event.event)]

    def whole(self, body: bytes) -> list[Delta]:
        """Take the answer of a server that does not stream."""
        return self._take(body.decode("utf-8", "replace"), "message")

    def end(self) -> list[Delta]:
        """Nothing follows: gives the tool calls, the usage and the `Stop`. `ModelError` if it was cut."""
        ends = [delta for event in self._events.end() for delta in self._take(event.data, event.event)]
        if not self._reason and not (self.finished and (self._something or self._calls)):
            raise faults.cut("the stream ended without a finish_reason")
        if self._reason == "error":
            raise faults.reported("finish_reason: error")
        calls = self._tool_calls()
        if self._reason in _REASONS:  # the answer was stopped: a call may be half a call
            calls = [call for call in calls if is_object(call.arguments)]
        ends += calls
        if self._usage is not None:
            ends.append(self._usage)
        ends.append(Stop(_REASONS.get(self._reason, "tools" if calls else "end")))
        return ends

    def _take(self, data: str, event: str) -> list[Delta]:
        if data.startswith("[DONE]"):
            self.finished = True
            return []
        chunk = read(data, _CHUNK) if data else _Chunk()
        if chunk.error is not None:
            raise faults.reported(chunk.error)
        if event == "error" or chunk.object == "error":  # the error is the chunk itself
            raise faults.reported(msgspec.json.decode(data or "{}"))
        if chunk.usage:
            self._usage = _usage(chunk.usage)
        deltas: list[Delta] = []
        for choice in chunk.choices or ():
            if not choice.index:  # one answer was asked for
                self._choice(choice, deltas)
        self._something = self._something or bool(deltas)
        return deltas

    def _choice(self, choice: _Choice, deltas: list[Delta]) -> None:
        said = choice.delta or choice.message
        if said is not None:
            text = said.content if isinstance(said.content, str) else _texts(said.content)
            if text := text or said.refusal or "":
                deltas.append(Text(text))
            for piece in said.tool_calls or ():
                self._gather(piece)
        if choice.finish_reason:
            self._reason = choice.finish_reason
            self.finished = True

    def _gather(self, piece: _Call) -> None:
        name = (piece.function.name if piece.function else None) or ""
        call = self._call_of(piece, name)
        if call is None:
            call = _Gathered(piece.index)
            self._calls.append(call)
        call.id = call.id or piece.id or ""
        if name != call.name:
            call.name += name
        arguments = piece.function.arguments if piece.function else None
        if isinstance(arguments, str):
            call.pieces.append(arguments)
        elif arguments is not None:
            call.pieces[:] = [msgspec.json.encode(arguments).decode()]

    def _call_of(self, piece: _Call, name: str) -> _Gathered | None:
        """The call that `piece` goes on with; None where it begins one."""
        if piece.index is not None:
            found = next((call for call in reversed(self._calls) if call.index == piece.index), None)
            return None if found is None or found.is_other(piece, name) else found
        if piece.id:
            found = next((call for call in self._calls if call.id == piece.id), None)
            if found is not None:
                return found
        return None if name or not self._calls else self._calls[-1]

    def _tool_calls(self) -> list[ToolCall]:
        calls = sorted(self._calls, key=lambda call: call.index or 0)
        if not all(call.name for call in calls):
            raise faults.malformed("a tool call without a name")
        ids = distinct((call.id for call in calls), self._taken)
        return [
            ToolCall(id_, call.name, call.arguments or "{}") for id_, call in zip(ids, calls, strict=True)
        ]


def _texts(parts: list[Any] | None) -> str:
    """The text of content in parts; what is no text (thinking, references) is left out."""
    return "".join(
        part["text"]
        for part in parts or ()
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    )


def _usage(counts: dict[str, Any]) -> Usage:
    def count(of: Any, key: str) -> int:
        value = of.get(key) if isinstance(of, dict) else None
        return value if isinstance(value, int) else 0

    cached = count(counts.get("prompt_tokens_details"), "cached_tokens")
    return Usage(count(counts, "prompt_tokens"), count(counts, "completion_tokens"), cached)
