"""The rows of the table, and a drawing of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from hermes_core.inbox.rules import (
    a_turn_was_open,
    always,
    cancel_notes,
    cancel_waiting,
    commit,
    ends_a_followup,
    give,
    halt,
    hold,
    hold_event,
    hold_steer,
    is_a_part,
    keep_note,
    may_interfere,
    more_is_likely,
    overtake,
    renew_later,
    renew_now,
    resume,
    say_interrupting,
    say_queued,
    say_steering,
    settle,
    something_starts,
    start,
    steers_wait,
    wait_for_more,
)
from hermes_core.inbox.values import Effect, Happening, Phase, Signal, State

__all__ = ["TABLE", "Row", "diagram"]

Guard = Callable[[State, Happening], bool]
Action = Callable[[State, Happening, list[Effect]], None]


class Row(msgspec.Struct, frozen=True):
    """If `guard` holds: perform `actions` in their order, then go to `to`."""

    guard: Guard
    actions: tuple[Action, ...]
    to: Phase


_P, _S = Phase, Signal
_PLAIN: Final = (_S.INTERRUPT, _S.STEER, _S.QUEUE)
_QUIET_STOP: Final = (cancel_waiting,)
_QUIET_RESET: Final = (cancel_waiting, cancel_notes)


def _rows() -> Iterator[tuple[Phase, Signal, Row]]:
    for plain in _PLAIN:
        yield _P.IDLE, plain, Row(more_is_likely, (hold, wait_for_more), _P.GATHERING)
        yield _P.IDLE, plain, Row(always, (hold, start), _P.RUNNING)
        yield _P.GATHERING, plain, Row(more_is_likely, (hold, wait_for_more), _P.GATHERING)
        yield _P.GATHERING, plain, Row(always, (hold, start), _P.RUNNING)
        yield _P.STOPPING, plain, Row(may_interfere, (overtake,), _P.STOPPING)
        yield _P.STOPPING, plain, Row(always, (hold, say_queued), _P.STOPPING)
    yield _P.IDLE, _S.FOLLOWUP, Row(is_a_part, (hold, wait_for_more), _P.GATHERING)
    yield _P.IDLE, _S.FOLLOWUP, Row(always, (hold, start), _P.RUNNING)
    yield _P.IDLE, _S.EVENT, Row(always, (hold_event, start), _P.RUNNING)
    yield _P.GATHERING, _S.FOLLOWUP, Row(is_a_part, (hold, wait_for_more), _P.GATHERING)
    yield _P.GATHERING, _S.FOLLOWUP, Row(ends_a_followup, (hold, start), _P.RUNNING)
    yield _P.GATHERING, _S.FOLLOWUP, Row(always, (hold,), _P.GATHERING)
    yield _P.GATHERING, _S.EXPIRED, Row(something_starts, (start,), _P.RUNNING)
    yield _P.GATHERING, _S.EXPIRED, Row(always, (), _P.IDLE)

    yield _P.RUNNING, _S.INTERRUPT, Row(may_interfere, (overtake, halt, say_interrupting), _P.STOPPING)
    yield _P.RUNNING, _S.INTERRUPT, Row(always, (hold, say_queued), _P.RUNNING)
    yield _P.RUNNING, _S.STEER, Row(may_interfere, (hold_steer, say_steering), _P.RUNNING)
    yield _P.RUNNING, _S.STEER, Row(always, (hold, say_queued), _P.RUNNING)
    yield _P.RUNNING, _S.GAP, Row(always, (give,), _P.RUNNING)
    yield _P.RUNNING, _S.ANSWERED, Row(steers_wait, (give,), _P.RUNNING)
    yield _P.RUNNING, _S.ANSWERED, Row(always, (commit,), _P.COMMITTING)
    for waits in (_S.QUEUE, _S.FOLLOWUP):
        yield _P.RUNNING, waits, Row(always, (hold, say_queued), _P.RUNNING)
    yield _P.STOPPING, _S.FOLLOWUP, Row(always, (hold, say_queued), _P.STOPPING)

    yield _P.COMMITTING, _S.INTERRUPT, Row(may_interfere, (overtake,), _P.COMMITTING)
    for waits in (_S.INTERRUPT, _S.STEER, _S.QUEUE, _S.FOLLOWUP):
        yield _P.COMMITTING, waits, Row(always, (hold,), _P.COMMITTING)

    for ending in (_P.RUNNING, _P.STOPPING, _P.COMMITTING):
        yield ending, _S.ENDED, Row(something_starts, (settle, start), _P.RUNNING)
        yield ending, _S.ENDED, Row(always, (settle,), _P.IDLE)
        yield ending, _S.EVENT, Row(always, (hold_event,), ending)
    yield _P.GATHERING, _S.EVENT, Row(always, (hold_event,), _P.GATHERING)

    for resting in (_P.IDLE, _P.GATHERING):
        yield resting, _S.STOP, Row(always, _QUIET_STOP, _P.IDLE)
        yield resting, _S.RESET, Row(always, (*_QUIET_RESET, renew_now), _P.IDLE)
    yield _P.IDLE, _S.BREAK, Row(always, (), _P.IDLE)
    yield _P.GATHERING, _S.BREAK, Row(something_starts, (start,), _P.RUNNING)
    yield _P.GATHERING, _S.BREAK, Row(always, (), _P.IDLE)
    yield _P.RUNNING, _S.STOP, Row(always, (*_QUIET_STOP, halt), _P.STOPPING)
    yield _P.RUNNING, _S.BREAK, Row(always, (halt,), _P.STOPPING)
    yield _P.RUNNING, _S.RESET, Row(always, (*_QUIET_RESET, renew_later, halt), _P.STOPPING)
    for ending in (_P.STOPPING, _P.COMMITTING):
        yield ending, _S.STOP, Row(always, _QUIET_STOP, ending)
        yield ending, _S.BREAK, Row(always, (), ending)
        yield ending, _S.RESET, Row(always, (*_QUIET_RESET, renew_later), ending)

    yield _P.IDLE, _S.RESTORED, Row(a_turn_was_open, (resume,), _P.RUNNING)
    yield _P.IDLE, _S.RESTORED, Row(always, (), _P.GATHERING)
    for phase in _P:
        yield phase, _S.AT_REPLY, Row(always, (keep_note,), phase)
    # What a turn says after its owner decided to stop it, or a timer that fired too late, changes nothing.
    for late in (_S.GAP, _S.ANSWERED):
        for phase in (_P.IDLE, _P.GATHERING, _P.STOPPING, _P.COMMITTING):
            yield phase, late, Row(always, (), phase)
    for phase in (_P.IDLE, _P.RUNNING, _P.STOPPING, _P.COMMITTING):
        yield phase, _S.EXPIRED, Row(always, (), phase)


def _table() -> dict[tuple[Phase, Signal], tuple[Row, ...]]:
    table: dict[tuple[Phase, Signal], tuple[Row, ...]] = {}
    for phase, signal, row in _rows():
        table[phase, signal] = (*table.get((phase, signal), ()), row)
    return table


TABLE: Final = _table()
"""Phase and signal to rows. A pair that is not here cannot happen: `step` raises KeyError."""


def diagram() -> str:
    """The table as a Mermaid state diagram; loops that only hold an entry are left out."""
    lines = ["stateDiagram-v2", "    [*] --> idle"]
    merged: dict[tuple[Phase, Phase, str], list[str]] = {}
    for (phase, signal), rows in TABLE.items():
        for row in rows:
            if row.to is phase and not row.actions:
                continue
            what = " · ".join(action.__name__ for action in row.actions)
            guard = "" if row.guard.__name__ == "always" else f" [{row.guard.__name__}]"
            merged.setdefault((phase, row.to, what + guard), []).append(signal.value)
    for (phase, to, what), signals in merged.items():
        lines.append(f"    {phase.value} --> {to.value}: {', '.join(signals)} → {what}")
    return "\n".join(lines) + "\n"
