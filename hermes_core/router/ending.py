"""Ending: what the end of a turn leaves behind, as pure functions (I5, I6, A5, E2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hermes_core.errors import told
from hermes_core.messages import Address, Entry, Item, Outgoing, Said, SaidKind, TurnEnd, When, turn_key

__all__ = ["causes", "kept", "outgoing", "used"]


def kept(end: TurnEnd, items: tuple[Item, ...], keep: str) -> tuple[Item, ...]:
    """What history keeps of a turn that ended so; `keep` is the setting `interrupt.keep`."""
    if end is TurnEnd.COMPLETED:
        return items
    if keep == "nothing" and end is TurnEnd.INTERRUPTED:
        return ()
    # E2: notes and other injections ride with the next turn and stand in no prompt twice
    riding = (SaidKind.NOTE, SaidKind.INJECTION)
    return tuple(item for item in items if not (isinstance(item, Said) and item.kind in riding))


def used(end: TurnEnd, entries: Iterable[Entry], items: tuple[Item, ...]) -> tuple[str, ...]:
    """The ids of the entries that the turn used up: a note rides on unless it completed (A5), and an event
    of which history has no trace."""
    back: set[When] = set()
    if end is not TurnEnd.COMPLETED:
        back = {When.AT_REPLY} if items else {When.AT_REPLY, When.EVENT}
    return tuple(entry.id for entry in entries if entry.when not in back)


def outgoing(
    address: Address, turn: int, end: TurnEnd, text: str, reply: int | None, entries: Sequence[Entry]
) -> Outgoing | None:
    """The message that ends the turn; none where it was interrupted or has nothing to say (J8)."""
    if end is TurnEnd.INTERRUPTED or not text.strip():
        return None
    answers = next((one.id for one in reversed(entries) if one.when is not When.EVENT), None)
    key = turn_key(address, turn)
    return Outgoing(key, address, text, turn=str(turn), number=reply, answers=answers)


def causes(error: BaseException | None) -> str:
    """An error and what led to it, on one line: the operator's cause, without the traceback."""
    chain: list[str] = []
    while error is not None and len(chain) < 4:
        chain.append(f"{type(error).__name__}: {told(error)}".splitlines()[0])
        error = error.__cause__
    return "; because of ".join(chain)
