"""The demo model's answer as a pure function: the same request always gives the same deltas.

What counts is the end of the history. After tool calls it tells their results; texts that came since
the last step are reacted to by their kind, so that steers, notes and events can be seen to arrive. Of
several messages the last one is carried out: the turns of the others were interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from hermes_core.messages import Item, Said, SaidKind, Step, ToolCall, ToolResult
from hermes_core.models import Delta, Request, Stop, Text, Usage
from hermes_demo import texts
from hermes_demo.requests import Asked, asked, own_words

__all__ = ["answer"]

_WORD: Final = re.compile(r"\s*\S+(?:\s+\Z)?")
_QUOTE: Final = 160
_RESULT: Final = 1500


def answer(request: Request, key: str = "demo") -> list[Delta]:
    """The answer to `request`, its text word by word. Usage counts words.

    `key` begins the idempotency keys of jobs: what is asked for anew is another job, also after /new (J3).
    """
    offered = frozenset(tool.name for tool in request.tools)
    step, texts_ = _end(request.items)
    unanswered, texts_ = _split(texts_)
    wanted = [one for said in texts_ if said.kind in _ASKING for one in asked(said.text)]
    calls = _calls(wanted, offered, request.items, key)
    parts = [*_results(step), *_reactions(texts_)]
    if unanswered:
        parts.append(
            "Before that you said, and I did not answer: " + ", ".join(map(_quoted, unanswered)) + "."
        )
    if texts_ and not calls:
        parts += _talk(wanted, offered, request.items, texts_)
    if step is not None and not texts_:  # the results are told: now what was asked beside the tools
        parts += _said(_wanted_before(request.items), request.items)
    if calls:
        parts.append("One moment." if len(calls) == 1 else f"One moment: {len(calls)} things at once.")
    text = "\n\n".join(parts)
    deltas: list[Delta] = [Text(word) for word in _WORD.findall(text)]
    return [*deltas, *calls, _usage(request, text), Stop("tools" if calls else "end")]


_ASKING: Final = frozenset({SaidKind.MESSAGE, SaidKind.STEER})


def _end(items: Sequence[Item]) -> tuple[Step | None, list[Said]]:
    """The tool calls whose results were not told yet, and the texts that came since the last step."""
    texts_: list[Said] = []
    for item in reversed(items):
        if isinstance(item, Step):
            # A message after tool calls begins a turn of its own: the one before was interrupted.
            told = any(said.kind is SaidKind.MESSAGE for said in texts_)
            return (item if item.calls and not told else None), texts_
        texts_.insert(0, item)
    return None, texts_


def _split(texts_: Sequence[Said]) -> tuple[list[str], list[Said]]:
    """The messages that got no answer, and what this turn is to answer: the last message and all beside it."""
    places = [place for place, said in enumerate(texts_) if said.kind is SaidKind.MESSAGE]
    start = places[-2] + 1 if len(places) > 1 else 0
    return [texts_[place].text for place in places[:-1]], list(texts_[start:])


def _wanted_before(items: Sequence[Item]) -> list[Asked]:
    """What the texts before the last step asked for."""
    last = max(place for place, item in enumerate(items) if isinstance(item, Step))
    _, texts_ = _split(_end(items[:last])[1])
    return [one for said in texts_ if said.kind in _ASKING for one in asked(said.text)]


def _calls(
    wanted: Iterable[Asked], offered: frozenset[str], items: Sequence[Item], key: str
) -> list[ToolCall]:
    number = sum(len(item.calls) for item in items if isinstance(item, Step))
    calls: list[ToolCall] = []
    for one in wanted:
        if one.kind in offered:
            number += 1
            arguments: dict[str, Any] = dict(one.arguments)
            if one.kind == "start_command":
                arguments["idempotency_key"] = f"{key}-{number}"
            calls.append(ToolCall(f"demo_{number}", one.kind, msgspec.json.encode(arguments).decode()))
    return calls


def _results(step: Step | None) -> list[str]:
    if step is None:
        return []
    return [_result(call, result) for call, result in zip(step.calls, step.results, strict=True)]


def _result(call: ToolCall, result: ToolResult) -> str:
    text = (
        result.text
        if len(result.text) <= _RESULT
        else f"{result.text[:_RESULT]}\n… (the rest is left out here)"
    )
    if result.error:
        return f"`{call.name}` did not work:\n\n{_fenced(text)}"
    if call.name == "demo_clock":
        return f"It is **{text}**, says the tool `demo_clock`."
    if call.name == "demo_sleep":
        return f"I have waited, with the tool `demo_sleep` and `{call.arguments}`."
    if call.name.startswith("start_"):
        return f"`{call.name}` has started a job; I am told when it ends:\n\n{_fenced(text)}"
    return f"`{call.name}` gave:\n\n{_fenced(text)}"


def _fenced(text: str) -> str:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"


def _reactions(texts_: Iterable[Said]) -> list[str]:
    return [_REACTIONS[said.kind].format(_quoted(said.text)) for said in texts_ if said.kind in _REACTIONS]


_REACTIONS: Final = {
    SaidKind.STEER: "You steered me: {}.",
    SaidKind.NOTE: "Your note for this point has come: {}.",
    SaidKind.EVENT: "I was told of an event: {}.",
    SaidKind.INJECTION: "I was given some context: {}.",
}


def _talk(
    wanted: Sequence[Asked], offered: frozenset[str], items: Sequence[Item], texts_: Sequence[Said]
) -> list[str]:
    """What is said to texts that call no tool."""
    parts = _said(wanted, items)
    parts += [
        _missing(one.kind) for one in wanted if one.kind.endswith("_command") and one.kind not in offered
    ]
    parts += [
        f"The tool `{one.kind}` is not offered to me here." for one in wanted if one.kind.startswith("demo_")
    ]
    messages = [said for said in texts_ if said.kind is SaidKind.MESSAGE]
    if not parts and messages:
        parts.append(_echo(messages[-1], items))
    return parts


def _missing(tool: str) -> str:
    return texts.SHELL if tool == "run_command" else texts.JOBS


def _said(wanted: Iterable[Asked], items: Sequence[Item]) -> list[str]:
    """The answers that need no tool."""
    earlier = _messages(items)
    parts: list[str] = []
    for one in wanted:
        if one.kind == "count":
            parts.append(
                " ".join(f"{number}," for number in range(1, int(one.value))) + f" {one.value}. Done."
            )
        elif one.kind == "story":
            parts.append(texts.STORY)
        elif one.kind == "help":
            parts.append(texts.HELP)
        elif one.kind == "first":
            parts.append(
                f"The first that you said here was: {_quoted(earlier[0].text)}." if earlier else _NOTHING
            )
        elif one.kind == "before":
            before = earlier[-2].text if len(earlier) > 1 else None
            parts.append(f"Before this you said: {_quoted(before)}." if before is not None else _NOTHING)
    return parts


_NOTHING: Final = "You have said nothing here before this."


def _messages(items: Iterable[Item]) -> list[Said]:
    return [item for item in items if isinstance(item, Said) and item.kind is SaidKind.MESSAGE]


def _echo(message: Said, items: Sequence[Item]) -> str:
    earlier = _messages(items)
    name = f", {message.author}" if message.author else ""
    files = "".join(f" It came with {file.name} ({file.media_type})." for file in message.attachments)
    own = _quoted(own_words(message.text))
    said = f"Hello{name}! I am the demo model, a stand-in for a real one. You said: {own}.{files}"
    if len(earlier) < 2:
        hint = "Write `help` to see what I understand, and `/help` for the commands."
        return f"{said}\n\n{texts.SETUP}\n\n{hint}"
    first = _quoted(earlier[0].text)
    return f"{said}\n\nYou have written {len(earlier)} messages here; the first was {first}. Write `help` for more."


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return f"“{line if len(line) <= _QUOTE else line[: _QUOTE - 1] + '…'}”"


def _usage(request: Request, text: str) -> Usage:
    words = len(request.system.split())
    for item in request.items:
        words += len(item.text.split())
        if isinstance(item, Step):
            words += sum(len(result.text.split()) for result in item.results)
    return Usage(words, len(text.split()))
