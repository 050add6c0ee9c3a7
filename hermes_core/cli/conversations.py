"""`hermes conversations list`, `show` and `export`: what was said, whether or not Hermes runs.

All three read the database beside the program that has it, and change nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hermes_core.cli.common import load_config, print_json, print_line
from hermes_core.errors import HermesError

if TYPE_CHECKING:
    from hermes_core.messages import Entry, Item
    from hermes_core.store.told import Told, ToldTurn

__all__ = ["EXPORT", "LIST", "SHOW"]

_LATEST: Final = 20  # turns that `show` shows where nothing else is said


class _Command(NamedTuple):
    """A command of the group."""

    NAME: tuple[str, ...]
    HELP: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="as JSON: a list, one object for each conversation"
    )


def _list(options: argparse.Namespace) -> int:
    """Print every conversation, the one with the newest message first."""
    from hermes_core.store.peek import peek
    from hermes_core.store.told import Summary, summaries

    missing: list[Summary] = []
    found = peek(load_config(options).runtime.data_dir, summaries, missing)
    if options.json:
        import msgspec

        print_json([{**msgspec.to_builtins(one), "address": str(one.address)} for one in found])
        return 0
    for one in found:
        parts = [f"{one.replies} replies"]
        parts += ["a turn runs"] * one.running
        parts += [f"{one.waiting} wait"] * bool(one.waiting)
        parts += [f"{one.notes} notes"] * bool(one.notes)
        parts += [f"{one.unsent} not sent"] * bool(one.unsent)
        print_line(f"{_when(one.last)}  {one.address}  {', '.join(parts)}")
    if not found:
        print_line("There are no conversations.")
    return 0


def _show_arguments(parser: argparse.ArgumentParser) -> None:
    _address_argument(parser)
    parser.add_argument(
        "--limit",
        type=int,
        default=_LATEST,
        metavar="N",
        help=f"the latest N turns (default: {_LATEST}); 0: all",
    )
    parser.add_argument("--all", action="store_true", help="also what was said before /new")
    parser.add_argument(
        "--json", action="store_true", help="as JSON: one object, with the ids of all messages"
    )


def _address_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "address", metavar="ADDRESS", help="the conversation, as `hermes conversations list` shows it"
    )


def _show(options: argparse.Namespace) -> int:
    """Print the latest turns with their tool calls, and what waits."""
    found = _told(options, epochs=options.all, limit=options.limit if options.limit > 0 else None)
    if options.json:
        print_json(_facts(found))
        return 0
    for line in _lines(found):
        print_line(_plain(line))
    return 0


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    _address_argument(parser)
    parser.add_argument(
        "--json", action="store_true", help="as JSON: one object with everything that is kept"
    )


def _export(options: argparse.Namespace) -> int:
    """Print all that was said here, from the beginning, as Markdown."""
    found = _told(options, epochs=True, limit=None)
    if options.json:
        print_json(_facts(found))
        return 0
    print_line(f"# {found.record.address}")
    epoch = 0
    for turn in found.turns:
        if turn.epoch != epoch:
            epoch = turn.epoch
            print_line("\n---\n\nA new conversation began here (`/new`).")
        number = f", reply {turn.reply}" if turn.reply is not None else ""
        print_line(f"\n## Turn {turn.number}: {turn.end or 'runs'}{number}")
        for name, text in _said(turn.items):
            print_line(f"\n**{_plain(name)}**\n\n{_plain(text)}")
    return 0


def _told(options: argparse.Namespace, *, epochs: bool, limit: int | None) -> Told:
    from hermes_core.messages import Address
    from hermes_core.store.peek import peek
    from hermes_core.store.told import told

    config = load_config(options)
    address = Address.parse(options.address)
    found: Told | None = peek(config.runtime.data_dir, told, None, address, epochs, limit)
    if found is None:
        raise HermesError(
            f"There is no conversation {options.address[:120]!r}.", "See: hermes conversations list"
        )
    return found


def _lines(found: Told) -> Iterator[str]:
    from hermes_core.messages import first_words

    record = found.record
    yield f"{record.address}: {record.replies} replies, {record.turns} turns"
    for turn in found.turns:
        number = f", reply {turn.reply}" if turn.reply is not None else ""
        yield ""
        yield f"turn {turn.number}, {_when(_began(turn))}: {turn.end or 'runs'}{number}"
        for name, text in _said(turn.items):
            shown = text if name == "agent" else first_words(text, 200)
            for line in f"{name}: {shown}".splitlines():
                yield f"  {line}"
    for title, entries in (("waits", found.waiting), ("notes", found.notes)):
        if entries:
            yield ""
            yield f"{title}:"
        for entry in entries:
            place = f" after reply {entry.at_reply}" if entry.at_reply is not None else ""
            yield f"  {entry.short}{place}, {_who(entry)}: {first_words(entry.text, 100)}"
    if found.unsent:
        yield ""
        yield f"not sent yet: {len(found.unsent)}"


def _began(turn: ToldTurn) -> float | None:
    return turn.entries[0].arrived if turn.entries else None


def _said(items: tuple[Item, ...]) -> Iterator[tuple[str, str]]:
    """Who and what, in order; a tool call with its result is one."""
    from hermes_core.messages import Said, SaidKind

    for item in items:
        if isinstance(item, Said):
            name = item.author or "person"
            yield (name if item.kind is SaidKind.MESSAGE else f"{item.kind.value} ({name})"), item.text
            continue
        if item.text and not item.text.isspace():
            yield "agent", item.text
        results = {result.call_id: result for result in item.results}
        for call in item.calls:
            result = results.get(call.id)
            yield f"tool {call.name}", f"{call.arguments} → {result.text if result is not None else ''}"


def _facts(found: Told) -> dict[str, Any]:
    import msgspec

    record = found.record

    def entry(one: Entry) -> dict[str, Any]:
        return {**msgspec.to_builtins(one), "address": str(one.address), "short": one.short}

    return {
        "address": str(record.address),
        "epoch": record.epoch,
        "replies": record.replies,
        "turns": [
            {
                "epoch": turn.epoch,
                "number": turn.number,
                "end": turn.end,
                "reply": turn.reply,
                "entries": [entry(one) for one in turn.entries],
                "items": msgspec.to_builtins(turn.items),
            }
            for turn in found.turns
        ],
        "waiting": [entry(one) for one in found.waiting],
        "notes": [entry(one) for one in found.notes],
        "unsent": [{**msgspec.to_builtins(one), "address": str(one.address)} for one in found.unsent],
        "aside": [{"state": state, **entry(one)} for state, one in found.aside],
    }


def _who(entry: Entry) -> str:
    return entry.author.name or entry.author.id


def _when(at: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) if at else " " * 16


def _plain(text: str) -> str:
    """Text that others wrote, on the operator's terminal: nothing in it moves the cursor or hides a line."""
    return "".join(one if one in "\n\t" or one.isprintable() else f"\\x{ord(one):02x}" for one in text)


LIST: Final = _Command(
    ("conversations", "list"),
    "list conversations, the latest first, also while Hermes runs",
    _list_arguments,
    _list,
)
SHOW: Final = _Command(
    ("conversations", "show"),
    "show the latest turns of a conversation, and what waits there",
    _show_arguments,
    _show,
)
EXPORT: Final = _Command(
    ("conversations", "export"), "print a whole conversation as Markdown or JSON", _export_arguments, _export
)
