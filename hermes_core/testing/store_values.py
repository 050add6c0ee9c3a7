"""What the contracts of stores have in common: addresses, entries, turns."""

from __future__ import annotations

from typing import Final

from hermes_core.messages import (
    Address,
    Author,
    Entry,
    Outgoing,
    Said,
    SaidKind,
    Step,
    ToolCall,
    ToolResult,
    TurnEnd,
    When,
)
from hermes_core.store import Ending, Store

__all__ = [
    "ADA",
    "ASKED",
    "CALL",
    "COUNTED",
    "HERE",
    "ODD_IDS",
    "PLANNED",
    "THERE",
    "entry",
    "numbers",
    "outgoing",
    "run_turn",
    "waiting_ids",
]

HERE: Final = Address("test", "bot", "here")
THERE: Final = Address("test", "bot", "there", "thread:1 %")
ADA: Final = Author("42", "Ada")
ASKED: Final = Said(SaidKind.MESSAGE, "how many?")
CALL: Final = ToolCall("c1", "count", '{"of": "files"}')
PLANNED: Final = Step("let me count", (CALL,), opaque={"signature": [1, None]})
COUNTED: Final = Step("let me count", (CALL,), (ToolResult("c1", "3"),))
ODD_IDS: Final = ("", "0", "a'b\"c", "line\nline", "\x00", "💧" * 40, "x" * 2000, "%s?")


def entry(id_: str, address: Address = HERE, when: When = When.QUEUE, text: str = "hello") -> Entry:
    """A message of Ada's."""
    return Entry(id_, address, ADA, text, when, arrived=12.5)


def outgoing(key: str, address: Address = HERE, text: str = "an answer") -> Outgoing:
    """A message that is to leave."""
    return Outgoing(key, address, text, answers="7")


async def run_turn(store: Store, turn: int, reply: int | None = None, address: Address = HERE) -> None:
    """One turn from start to end; with a `reply` it is a completed one."""
    await store.start_turn(address, turn, [ASKED], [])
    end = TurnEnd.INTERRUPTED if reply is None else TurnEnd.COMPLETED
    await store.finish(Ending(address, turn, end, (ASKED, Step(f"text {turn}")), (), reply))


async def waiting_ids(store: Store, address: Address = HERE) -> list[str]:
    """What waits there, by id."""
    return [one.id for one in await store.waiting(address)]


async def numbers(store: Store, address: Address = HERE) -> list[int]:
    """The turns of its history."""
    return [turn.number for turn in await store.history(address)]
