"""History: what a model is handed, valid by construction.

A history is a sequence of items: texts in the user role (`Said`) and steps (`Step`), each step with
exactly one result for each of its calls. Everything here is pure, and a function of the items alone:
the same items give the same text for ever, so a provider's prompt cache can be used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hermes_core.errors import HermesError
from hermes_core.messages import Attachment, Entry, Item, Said, SaidKind, Step, TurnRecord, When

__all__ = ["check", "prompt", "render", "said", "size", "window"]

_LABELS: Final = {
    SaidKind.STEER: "[The user adds, while you work:]\n",
    SaidKind.NOTE: "[A note that the user left for this point of the conversation:]\n",
}


def render(item: Said) -> str:
    """The text of `item` as the model reads it, in the user role, with its label and attachments."""
    if item.kind is SaidKind.INJECTION:
        return f"[Context, {item.author}:]\n{item.text}"
    name = f"{item.author}: " if item.author else ""
    files = "".join(f"\n[attached: {_describe(one)}]" for one in item.attachments)
    return f"{_LABELS.get(item.kind, '')}{name}{item.text}{files}"


def _describe(one: Attachment) -> str:
    return f"{one.name}, {one.media_type}" + (f", {one.size} bytes" if one.size is not None else "")


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
