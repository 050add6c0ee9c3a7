"""The Messages API as pure functions: a request to JSON. `assembly` reads what comes back.

Messages alternate, beginning and ending with the user: texts that follow one another are blocks of
one message, and the results of a step stand at the head of the message behind its calls (I6). All of
it is a function of the items, and the tools are sorted: what was sent before stays the same, byte by
byte, from turn to turn. Only the marks move that tell the provider up to where to cache: at the end
of the tools, of the system prompt, and of the last two messages of the user. The last but one is
where the call before had its last mark, so a call always finds what the one before it stored.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from types import MappingProxyType
from typing import Any, Final

import msgspec

from hermes_anthropic.thoughts import THINKING, recall
from hermes_core.history import render
from hermes_core.messages import Attachment, Item, Said, Step, ToolCall, ToolResult
from hermes_core.models import Request
from hermes_httpmodel.content import encode, is_object
from hermes_httpmodel.pictures import Pictures

__all__ = ["body", "messages"]

_MARK: Final = {"cache_control": {"type": "ephemeral"}}
_ID: Final = re.compile(r"[A-Za-z0-9_-]+")
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 64
_BLANK: Final = "[An empty message.]"
_NOTHING: Final = "[No output.]"
_GO_ON: Final = "[Go on.]"

Block = dict[str, Any]
_NONE: Final[Pictures] = MappingProxyType({})


def body(
    request: Request, model: str, max_tokens: int, thinking: Block | None = None, shown: Pictures = _NONE
) -> bytes:
    """The JSON body of `POST /v1/messages` for this request, streamed, with at most four cache marks."""
    sent = messages(request.items, model, shown)
    content: dict[str, Any] = {"model": model, "max_tokens": max_tokens, "stream": True}
    if thinking is not None and (thinking["type"] == "adaptive" or _may_think(sent)):
        content["thinking"] = thinking
    if request.tools:
        tools = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
            for tool in sorted(request.tools, key=lambda tool: tool.name)
        ]
        content["tools"] = _marked(tools)
    if request.system.strip():
        content["system"] = _marked([_text(request.system)])
    users = [one for one in sent if one["role"] == "user"]
    for one in users[-2:]:
        one["content"] = _marked(one["content"])
    content["messages"] = sent
    return encode(content)


def messages(items: Iterable[Item], model: str, shown: Pictures = _NONE) -> list[dict[str, Any]]:
    """The provider's form of a history, without marks. `model` alone reads its thinking blocks.

    A step that said nothing and called nothing is left out; text of white space only is never sent.
    """
    written: list[dict[str, Any]] = []

    def add(role: str, blocks: list[Block]) -> None:
        if written and written[-1]["role"] == role:
            written[-1]["content"] += blocks
        elif blocks:
            written.append({"role": role, "content": blocks})

    for item in items:
        if isinstance(item, Said):
            text = render(item)
            pictures = [_picture(one, shown[one]) for one in item.attachments if one in shown]
            add("user", [*pictures, _text(text if text.strip() else _BLANK)])
        else:
            add("assistant", _step(item, model))
            add("user", [_result(result) for result in item.results])
    if not written or written[-1]["role"] == "assistant":  # what models no longer take
        add("user", [_text(_GO_ON)])
    return written


def _picture(one: Attachment, data: str) -> Block:
    """Pictures stand before the text about them, as the provider advises."""
    return {"type": "image", "source": {"type": "base64", "media_type": one.media_type, "data": data}}


def _step(step: Step, model: str) -> list[Block]:
    """The blocks of the assistant: text, then calls, and each thinking block where it stood."""
    blocks: list[Block] = []
    calls = [_call(call) for call in step.calls]
    said = called = 0
    for thought in recall(step.opaque, model):
        blocks += _texts(step.text[said : thought.text])
        blocks += calls[called : thought.calls]
        blocks.append(thought.block)
        said, called = max(said, thought.text), max(called, thought.calls)
    blocks += _texts(step.text[said:])
    blocks += calls[called:]
    while blocks and blocks[-1]["type"] in THINKING:  # refused at the end; nothing came of the thought
        blocks.pop()
    return blocks


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _texts(text: str) -> list[Block]:
    return [_text(text)] if text.strip() else []


def _call(call: ToolCall) -> Block:
    """A call; arguments that are no object, as models make them up, are sent as an empty one."""
    arguments = msgspec.Raw(call.arguments.encode() if is_object(call.arguments) else b"{}")
    name = _NO_NAME.sub("_", call.name)[:_LONGEST_NAME] or "_"
    return {"type": "tool_use", "id": _id(call.id), "name": name, "input": arguments}


def _result(result: ToolResult) -> Block:
    text = result.text if result.text.strip() else _NOTHING
    block: Block = {"type": "tool_result", "tool_use_id": _id(result.call_id), "content": text}
    return {**block, "is_error": True} if result.error else block


def _id(id_: str) -> str:
    """The id itself where the API takes it; other providers' ids may hold any character."""
    if _ID.fullmatch(id_):
        return id_
    return f"toolu_{hashlib.sha256(id_.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"


def _marked(blocks: list[Block]) -> list[Block]:
    """`blocks`, the last of them with a cache mark."""
    return [*blocks[:-1], {**blocks[-1], **_MARK}]


def _may_think(sent: list[dict[str, Any]]) -> bool:
    """Whether the API takes a thinking budget here: not in the middle of a step that began without a thought."""
    if len(sent) < 2 or sent[-1]["content"][0]["type"] != "tool_result":
        return True
    return sent[-2]["content"][0]["type"] in THINKING
