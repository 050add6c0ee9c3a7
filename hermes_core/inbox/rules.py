"""The guards and actions of the table: small functions of the state and what happened."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

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
    Start,
    State,
    Wait,
)
from hermes_core.messages import Entry, TurnEnd, When

# ---- guards


def always(state: State, what: Happening) -> bool:
    """No condition."""
    return True


def more_is_likely(state: State, what: Happening) -> bool:
    """The message is probably a part, or a quiet window is configured (T1)."""
    return what.wait > 0


def is_a_part(state: State, what: Happening) -> bool:
    """The message is probably a part of a longer one (T1)."""
    return what.entry is not None and what.entry.partial


def ends_a_followup(state: State, what: Happening) -> bool:
    """All that waits is the beginning of this message, which has a turn of its own (T1, T3)."""
    line = [*state.line.values(), what.entry] if what.entry is not None else []
    followup = what.wait == 0.0 and len(line) > 1 and line[0].when is When.FOLLOWUP
    return followup and all(map(_goes_on, line, line[1:]))


def may_interfere(state: State, what: Happening) -> bool:
    """The sender is a person of the running turn, or an admin; or nobody's turn runs (T2)."""
    return what.admin or not state.people or (what.entry is not None and what.entry.author.id in state.people)


def steers_wait(state: State, what: Happening) -> bool:
    """Somebody steered since the last gap (S2)."""
    return bool(state.steers)


def something_starts(state: State, what: Happening) -> bool:
    """An entry waits that starts a turn: a note or a parked event does not (A3)."""
    return bool(state.front or state.line or state.steers or state.events)


def a_turn_was_open(state: State, what: Happening) -> bool:
    """The former run left a turn unfinished."""
    return what.turn is not None


# ---- actions


def _entry(what: Happening) -> Entry:
    assert what.entry is not None, "an arrival has an entry"
    return what.entry


def hold(state: State, what: Happening, effects: list[Effect]) -> None:
    """Into the line; what could not interrupt or steer waits like a queued one from now on."""
    entry = _entry(what)
    if state.phase is not Phase.IDLE and entry.when in (When.INTERRUPT, When.STEER):
        entry = msgspec.structs.replace(entry, when=When.QUEUE)
        if state.phase is not Phase.GATHERING:
            effects.append(Amended(entry))
    state.line[entry.id] = entry
    state.places[entry.seq] = entry.id


def overtake(state: State, what: Happening, effects: list[Effect]) -> None:
    """Into the front (E1)."""
    entry = _entry(what)
    state.front[entry.id] = entry
    state.places[entry.seq] = entry.id


def hold_steer(state: State, what: Happening, effects: list[Effect]) -> None:
    """To the steers that the next gap takes."""
    entry = _entry(what)
    state.steers[entry.id] = entry
    state.places[entry.seq] = entry.id


def hold_event(state: State, what: Happening, effects: list[Effect]) -> None:
    """To the events that the next model call takes."""
    entry = _entry(what)
    state.events[entry.id] = entry


def keep_note(state: State, what: Happening, effects: list[Effect]) -> None:
    """To the notes; starts nothing (A3)."""
    entry = _entry(what)
    state.notes[entry.id] = entry


def resume(state: State, what: Happening, effects: list[Effect]) -> None:
    """The open turn goes on."""
    assert what.turn is not None
    state.turns, state.shown = what.turn, True
    effects.append(Resume(what.turn))


def wait_for_more(state: State, what: Happening, effects: list[Effect]) -> None:
    """Begin or prolong the quiet window."""
    effects.append(Wait(what.wait))


def start(state: State, what: Happening, effects: list[Effect]) -> None:
    """The next turn begins with all that may go into it."""
    notes = tuple(note for note in state.notes.values() if (note.at_reply or 0) <= state.replies)
    for note in notes:
        del state.notes[note.id]
    batch = _take(state)
    if not (state.front or state.line or state.steers):
        state.places.clear()
    state.turns += 1
    state.shown = False
    state.people = frozenset(entry.author.id for entry in batch if entry.when is not When.EVENT)
    state.carried = notes + tuple(entry for entry in batch if entry.when is When.EVENT)
    effects.append(Start(state.turns, notes, batch))


def _take(state: State) -> tuple[Entry, ...]:
    if not state.front and state.line and next(iter(state.line.values())).when is When.FOLLOWUP:
        parts = [state.line.popitem(last=False)[1]]
        while state.line and _goes_on(parts[-1], next(iter(state.line.values()))):
            parts.append(state.line.popitem(last=False)[1])
        return tuple(parts)
    events = [*state.parked.values(), *state.events.values()]
    state.parked.clear()
    state.events.clear()
    if state.front:
        batch = list(state.front.values())
        state.front.clear()
        return (*batch, *events)
    while state.line and next(iter(state.line.values())).when is not When.FOLLOWUP:
        events.append(state.line.popitem(last=False)[1])
    return tuple(sorted(events, key=_by_seq))


def _goes_on(part: Entry, entry: Entry) -> bool:
    """Whether what follows a part is more of the same message (case 8); an answer to another one is not."""
    return part.partial and part.author.id == entry.author.id and entry.reply_to is None


def give(state: State, what: Happening, effects: list[Effect]) -> None:
    """Steers, and the events that came meanwhile, enter the running turn in their order."""
    entries = sorted([*state.steers.values(), *state.events.values()], key=_by_seq)
    state.carried += tuple(state.events.values())
    state.people |= {entry.author.id for entry in state.steers.values()}
    state.steers.clear()
    state.events.clear()
    effects.append(Give(tuple(entries)))


def commit(state: State, what: Happening, effects: list[Effect]) -> None:
    """The turn may end with its text: from here on nothing takes it back."""
    effects.append(Commit())


def halt(state: State, what: Happening, effects: list[Effect]) -> None:
    """The turn is to be ended from outside."""
    effects.append(Halt(state.turns))


def say_queued(state: State, what: Happening, effects: list[Effect]) -> None:
    """Receipt: it waits, at this position."""
    effects.append(Receipt(state.line[_entry(what).id], "queued", len(state.line) + len(state.front)))


def say_steering(state: State, what: Happening, effects: list[Effect]) -> None:
    """Receipt: it goes into the running turn."""
    effects.append(Receipt(_entry(what), "steering"))


def say_interrupting(state: State, what: Happening, effects: list[Effect]) -> None:
    """Receipt: the turn is being stopped for it; none where people have seen nothing of that turn (T6)."""
    if state.shown:
        effects.append(Receipt(_entry(what), "interrupting"))


def cancel_waiting(state: State, what: Happening, effects: list[Effect]) -> None:
    """What waits is cancelled; events stay, but start nothing by themselves (I10)."""
    dropped = [*state.front.values(), *state.line.values(), *state.steers.values()]
    for lane in (state.front, state.line, state.steers):
        lane.clear()
    _park(state, state.events.values(), effects)
    state.events.clear()
    if dropped:
        effects.append(Drop(tuple(dropped)))


def cancel_notes(state: State, what: Happening, effects: list[Effect]) -> None:
    """All notes are cancelled (T7); `settle` cancels those that ride with the running turn."""
    dropped = tuple(state.notes.values())
    state.notes.clear()
    if dropped:
        effects.append(Drop(dropped))


def renew_now(state: State, what: Happening, effects: list[Effect]) -> None:
    """An empty history begins."""
    effects.append(Renew())


def renew_later(state: State, what: Happening, effects: list[Effect]) -> None:
    """An empty history begins when the running turn has ended."""
    state.renew = True


def settle(state: State, what: Happening, effects: list[Effect]) -> None:
    """Account for the turn that ended: the reply counts, or what it carried rides with the next (A5, E2)."""
    if what.end is TurnEnd.COMPLETED:
        state.replies += 1
    else:
        _take_back(state, what.keep, effects)
    state.carried, state.people = (), frozenset()
    _steers_become_messages(state)
    if state.renew:
        state.renew = False
        effects.append(Renew())


def _take_back(state: State, kept: bool, effects: list[Effect]) -> None:
    notes = [entry for entry in state.carried if entry.when is When.AT_REPLY]
    if state.renew and notes:
        effects.append(Drop(tuple(notes)))
    elif notes:
        state.notes = Lane(
            (entry.id, entry) for entry in sorted([*notes, *state.notes.values()], key=_by_seq)
        )
    if not kept:  # the history has no trace of the events: the next turn carries them
        _park(state, [entry for entry in state.carried if entry.when is When.EVENT], effects)


def _park(state: State, events: Iterable[Entry], effects: list[Effect]) -> None:
    """They start nothing any more; the store hears of it, so that a restart does not start them either."""
    for entry in events:
        state.parked[entry.id] = parked = msgspec.structs.replace(entry, parked=True)
        effects.append(Amended(parked))


def _steers_become_messages(state: State) -> None:
    """S3: behind an interrupting message, else before all that waits."""
    if state.front:
        state.front.update(state.steers)
    else:
        for entry in reversed(state.steers.values()):
            state.line[entry.id] = entry
            state.line.move_to_end(entry.id, last=False)
    state.steers.clear()


def _by_seq(entry: Entry) -> int:
    return entry.seq
