"""The inbox: one table that decides what becomes of everything that comes in for a conversation.

Theory of operation. A conversation is in one of five phases:

    IDLE        no turn runs
    GATHERING   a first message came and more of it is likely on its way (T1)
    RUNNING     a turn runs
    STOPPING    a turn is being ended from outside (I1)
    COMMITTING  a turn has its final text and is being made durable; nothing can take it back (D3)

What happens is told to the table as a *signal*: an entry arrives (its `When` says how), the turn
asks for steers in its gap or wants to answer, the turn ended, a person says /stop. `TABLE` has rows
for every pair of phase and signal; the first row whose guard holds gives the next phase and the
actions. Actions change the state and give *effects*, which whoever owns the conversation performs:
start a turn, halt it, hand it entries, let it commit, show a receipt.

There is no clock, no task and no I/O here: the same state and the same signals give the same
effects, and `State` is a plain value that can be written down at any instant. So nothing can race
with anything: what comes first is decided by the order of the calls of `step`, once.

Waiting entries stand in lanes. `front` is what overtakes: an interrupting message and what was typed
while the turn was stopping (I7, E1). `line` is what waits in its order. `steers` waits for a gap,
`events` for the next model call, `notes` for a reply count (A1). Taking, holding and cancelling an
entry cost the same whatever the length of a lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, overload

import msgspec

from hermes_core.inbox.table import TABLE, Row, diagram
from hermes_core.inbox.values import (
    Amended,
    Commit,
    Drop,
    Effect,
    Give,
    Halt,
    Happening,
    Lane,
    Phase,
    Receipt,
    Renew,
    Resume,
    Signal,
    Start,
    State,
    Wait,
    dump,
    load,
)
from hermes_core.messages import Attachment, Entry, When

__all__ = [
    "EDITED",
    "ENTERED",
    "TABLE",
    "Amended",
    "Commit",
    "Drop",
    "Effect",
    "Give",
    "Halt",
    "Happening",
    "Lane",
    "Phase",
    "Receipt",
    "Renew",
    "Resume",
    "Row",
    "Signal",
    "Start",
    "State",
    "Wait",
    "Waiting",
    "amend",
    "arrive",
    "cancel",
    "diagram",
    "dump",
    "find",
    "find_short",
    "load",
    "notes",
    "step",
    "waiting",
    "within",
]

_NOTHING = Happening()
_ARRIVAL = {when: Signal(when.value) for when in When}

ENTERED: Final = "+"
"""Stands between the id of a command and the number of what it put in."""
EDITED: Final = "~"
"""Stands between the id of a message and a mark of what it was edited to."""


def step(state: State, signal: Signal, what: Happening = _NOTHING) -> list[Effect]:
    """Let `signal` happen: changes `state` and gives the effects, to be performed in their order.

    KeyError for a signal that cannot come in this phase: a fault of the caller.
    """
    effects: list[Effect] = []
    for row in TABLE[state.phase, signal]:
        if row.guard(state, what):
            for action in row.actions:
                action(state, what, effects)
            state.phase = row.to
            break
    return effects


def arrive(state: State, entry: Entry, *, admin: bool = False, wait: float = 0.0) -> list[Effect]:
    """An entry came in: `step` with the signal of its `When`."""
    return step(state, _ARRIVAL[entry.when], Happening(entry, admin, wait))


def cancel(state: State, ids: Iterable[str]) -> list[Effect]:
    """Take entries that still wait out of their lanes (D2, D9); those that do not wait are passed over."""
    gone: list[Entry] = []
    for id_ in ids:
        for lane in (state.front, state.line, state.steers, state.notes):
            if id_ in lane:
                gone.append(lane.pop(id_))
                break
    return [Drop(tuple(gone))] if gone else []


def amend(
    state: State, id_: str, text: str, attachments: tuple[Attachment, ...] | None = None
) -> list[Effect]:
    """Replace the text of an entry that still waits, in its place (D9)."""
    for lane in (state.front, state.line, state.steers):
        if id_ in lane:
            old = lane[id_]
            files = old.attachments if attachments is None else attachments
            lane[id_] = msgspec.structs.replace(old, text=text, attachments=files)
            return [Amended(lane[id_])]
    return []


def within(state: State, id_: str) -> list[Entry]:
    """What waits of the message with this id: itself, what its command put in, or what an edit of it became."""
    lanes = (state.front, state.line, state.steers, state.notes)
    exact = [lane[id_] for lane in lanes if id_ in lane]
    starts = (f"{id_}{ENTERED}", f"{id_}{EDITED}")
    return exact or [one for lane in lanes for one in lane.values() if one.id.startswith(starts)]


class Waiting(Sequence[Entry]):
    """What waits for a turn, in the order in which it will be taken; events and notes are not listed.

    A live view: nothing is copied, so looking at the first ones costs the same whatever the length.
    """

    __slots__ = ("_lanes",)

    def __init__(self, state: State) -> None:
        self._lanes = (state.front, state.steers, state.line)

    def __len__(self) -> int:
        return sum(map(len, self._lanes))

    def __iter__(self) -> Iterator[Entry]:
        return chain.from_iterable(lane.values() for lane in self._lanes)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> list[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | list[Entry]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            return list(islice(self, start, stop, step)) if step > 0 else list(self)[index]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(index)
        return next(islice(self, place, None))


def find(state: State, id_: str) -> Entry | None:
    """The entry with this id, if it is a message or a note that waits."""
    for lane in (state.front, state.line, state.steers, state.notes):
        if id_ in lane:
            return lane[id_]
    return None


def find_short(state: State, short: str) -> Entry | None:
    """The message that waits under this short id; costs the same however many wait."""
    try:
        id_ = state.places.get(int(short[1:], 36))
    except ValueError:
        return None
    entry = find(state, id_) if id_ is not None else None
    return entry if entry is not None and entry.short == short else None


def waiting(state: State) -> Waiting:
    """What waits for a turn, as a live view."""
    return Waiting(state)


def notes(state: State) -> Iterator[Entry]:
    """The notes that wait for their reply, and those that ride with the running turn."""
    yield from (entry for entry in state.carried if entry.when is When.AT_REPLY)
    yield from state.notes.values()
