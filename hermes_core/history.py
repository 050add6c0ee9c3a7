"""History: what a model is handed, valid by construction.

A history is a sequence of items: texts in the user role (`Said`) and steps (`Step`), each step with
exactly one result for each of its calls. Everything here is pure, and a function of the items alone:
the same items give the same text for ever, so a provider's prompt cache can be used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from hermes_core.errors import HermesError
from hermes_core.file import described
from hermes_core.job import RESULT_TOOL, event_job
from hermes_core.messages import (
    Entry,
    Item,
    Said,
    SaidKind,
    Step,
    ToolCall,
    ToolResult,
    TurnRecord,
    When,
)

__all__ = ["check", "folded", "introduced", "prompt", "render", "said", "size", "window"]

_LABELS: Final = {
    SaidKind.STEER: "[The user adds, while you work:]\n",
    SaidKind.NOTE: "[A note that the user left for this point of the conversation:]\n",
}


def render(item: Said) -> str:
    """The text of `item` as the model reads it, in the user role, with its label and attachments."""
    if item.kind is SaidKind.INJECTION:
        return f"[Context, {item.author}:]\n{item.text}"
    name = f"{item.author}: " if item.author else ""
    files = "".join(f"\n[attached: {described(one)}]" for one in item.attachments)
    return f"{_LABELS.get(item.kind, '')}{name}{item.text}{files}"


_KINDS: Final = {When.STEER: SaidKind.STEER, When.AT_REPLY: SaidKind.NOTE, When.EVENT: SaidKind.EVENT}


def said(entry: Entry, kind: SaidKind | None = None) -> Said:
    """One entry as an item of its own; the author's name stands in front in a group only."""
    text = entry.text
    if entry.quote:
        text = "".join(f"> {line}\n" for line in entry.quote.splitlines()) + f"\n{entry.text}"
    kind = kind or _KINDS.get(entry.when, SaidKind.MESSAGE)
    author = _author(entry) if kind is not SaidKind.EVENT else ""
    return Said(kind, text, author, attachments=entry.attachments)


def _author(entry: Entry) -> str:
    return (entry.author.name or entry.author.id) if entry.group else ""


def prompt(notes: Iterable[Entry], batch: Iterable[Entry]) -> tuple[Said, ...]:
    """The items that start a turn: notes first, each its own block (A6); then the batch in its order.

    Messages that follow one another are one item, joined with a newline (I7, T3); an event stands by
    itself.
    """
    items = [said(note, SaidKind.NOTE) for note in notes]
    run: list[Entry] = []

    def close() -> None:
        if len(run) == 1:
            items.append(said(run[0], SaidKind.MESSAGE))
        elif run:
            lines = [render(Said(SaidKind.MESSAGE, one.text, _author(one))) for one in run]
            files = tuple(file for one in run for file in one.attachments)
            items.append(Said(SaidKind.MESSAGE, "\n".join(lines), attachments=files))
        run.clear()

    for entry in batch:
        if entry.when is When.EVENT or entry.quote:
            close()
            items.append(said(entry, SaidKind.EVENT if entry.when is When.EVENT else SaidKind.MESSAGE))
        else:
            run.append(entry)
    close()
    return tuple(items)


def introduced(entries: Iterable[Entry], items: Iterable[Item]) -> list[Entry]:
    """Entries for a prompt after `items`: an event says what its job was where its start is no part of them.

    That is so after /new (T7), and when the start has left the bounded context.
    """
    entries = list(entries)
    if not any(one.when is When.EVENT and one.quote for one in entries):
        return entries
    known = "\n".join(result.text for item in items if isinstance(item, Step) for result in item.results)
    return [_introduced(one, known) if one.when is When.EVENT else one for one in entries]


def _introduced(entry: Entry, known: str) -> Entry:
    started = (event_job(entry.id) or "") in known
    text = (
        entry.text if started else f"{entry.text}\nThis conversation no longer holds its start: {entry.quote}"
    )
    return msgspec.structs.replace(entry, text=text, quote=None)


def folded(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Past items, each ended job that the model has read as one line (J9).

    An event was read once a step stands after it: a model call has carried it (E7). With it fold the
    results of `get_job_result` for that job; the start and its answer stay. The line keeps the id, so
    that the output can be read again. A function of the items alone, like all of this module.
    """
    read: set[str] = set()
    pending: list[str] = []
    for item in items:
        if isinstance(item, Step):
            read.update(pending)
            pending.clear()
            read.update(id_ for call, result in _reads(item) if (id_ := _ended(result)))
        elif item.kind is SaidKind.EVENT and (event := _EVENT.match(item.text)):
            pending.append(event[2])
    if not read:
        return items
    return tuple(_fold(item, read) for item in items)


_EVENT: Final = re.compile(r"\[event\] (job_\w+) job_id=(\S+) (tool=\S+ status=\S+)\nsummary: (.*)")
_RESULT: Final = re.compile(r"job_id=(\S+) status=(\S+)")


def _reads(step: Step) -> Iterator[tuple[ToolCall, ToolResult]]:
    for call, result in zip(step.calls, step.results, strict=True):
        if call.name == RESULT_TOOL and not result.error:
            yield call, result


def _ended(result: ToolResult) -> str | None:
    """The id of the job, where this result says that it has ended."""
    found = _RESULT.match(result.text)
    return found[1] if found and found[2] not in ("queued", "running") else None


def _fold(item: Item, read: set[str]) -> Item:
    if isinstance(item, Step):
        folded = {
            call.id: ToolResult(call.id, f"{found[0]} (read before; the output is left out here)")
            for call, result in _reads(item)
            if (found := _RESULT.match(result.text)) and found[1] in read
        }
        if not folded:
            return item
        results = tuple(folded.get(result.call_id, result) for result in item.results)
        return msgspec.structs.replace(item, results=results)
    event = _EVENT.match(item.text) if item.kind is SaidKind.EVENT else None
    if event is None or event[2] not in read:
        return item
    line = f"[event] {event[1]} job_id={event[2]} {event[3]} summary: {event[4]}"
    return msgspec.structs.replace(item, text=line)


def check(items: Sequence[Item]) -> None:
    """Raise `HermesError` where `items` would be refused by a provider (I6); nothing else does."""
    if items and isinstance(items[0], Step):
        raise HermesError("A history cannot begin with the agent's own step.")
    seen: set[str] = set()
    for item in items:
        if isinstance(item, Said):
            continue
        called = [call.id for call in item.calls]
        if [result.call_id for result in item.results] != called:
            raise HermesError(f"The calls {called} do not have exactly one result each, in order.")
        if len(set(called)) != len(called) or seen & set(called):
            raise HermesError(f"A call id of {called} is used twice.")
        seen.update(called)


def size(items: Iterable[Item]) -> int:
    """The length of `items` in characters, near enough to bound a context."""
    total = 0
    for item in items:
        total += len(item.text) + 16
        if isinstance(item, Step):
            total += sum(len(call.arguments) + len(call.name) + 32 for call in item.calls)
            total += sum(len(result.text) + 32 for result in item.results)
    return total


def window(turns: Sequence[TurnRecord], limit: int) -> int:
    """The index of the first of `turns` that still belongs into a context of `limit` characters.

    Whole turns leave, oldest first, and always the latest stays. When the limit is passed, half of
    it is given back at once, so that the start of the prompt stays the same for many turns.
    """
    sizes = [size(turn.items) for turn in turns]
    total = sum(sizes)
    if total <= limit:
        return 0
    first = 0
    while first < len(turns) - 1 and total > limit // 2:
        total -= sizes[first]
        first += 1
    return first
