"""The table: T1 to T7, I7, I10, S1 to S3, A1 to A5, E1, as a pure function."""

from __future__ import annotations

from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_core import inbox
from hermes_core.inbox import (
    TABLE,
    Amended,
    Commit,
    Drop,
    Effect,
    Give,
    Halt,
    Phase,
    Receipt,
    Renew,
    Resume,
    Signal,
    Start,
    State,
    Wait,
)
from hermes_core.inbox.values import Happening
from hermes_core.messages import Address, Author, Entry, TurnEnd, When

HERE = Address("test", "me", "1")
ANN, BOB = Author("ann"), Author("bob")


class Talk:
    """A conversation at the table: what it was told, and what it answered."""

    def __init__(self) -> None:
        self.state = State()
        self.seq = 0

    def say(
        self,
        text: str,
        when: When = When.INTERRUPT,
        author: Author = ANN,
        *,
        admin: bool = False,
        wait: float = 0.0,
        at: int | None = None,
        partial: bool = False,
    ) -> list[Effect]:
        self.seq += 1
        entry = Entry(f"e{self.seq}", HERE, author, text, when, seq=self.seq, at_reply=at, partial=partial)
        return inbox.arrive(self.state, entry, admin=admin, wait=wait)

    def note(self, text: str, replies: int) -> list[Effect]:
        return self.say(text, When.AT_REPLY, at=self.state.replies + replies)

    def tell(self, signal: Signal, end: TurnEnd | None = None, keep: bool = True) -> list[Effect]:
        return inbox.step(self.state, signal, Happening(end=end, keep=keep))

    def answer(self) -> list[Effect]:
        """The turn answers and ends completed."""
        assert self.tell(Signal.ANSWERED) == [Commit()]
        return self.tell(Signal.ENDED, TurnEnd.COMPLETED)

    def interrupted(self) -> list[Effect]:
        return self.tell(Signal.ENDED, TurnEnd.INTERRUPTED)


def texts(effects: list[Effect]) -> list[list[str]]:
    return [[entry.text for entry in one.batch] for one in effects if isinstance(one, Start)]


def note_texts(effects: list[Effect]) -> list[list[str]]:
    return [[entry.text for entry in one.notes] for one in effects if isinstance(one, Start)]


def kinds(effects: list[Effect]) -> list[tuple[str, int]]:
    return [(one.kind, one.position) for one in effects if isinstance(one, Receipt)]


# ---- the table itself


def test_every_signal_has_an_answer_in_every_phase_but_restored_which_comes_first() -> None:
    missing = {
        (phase, signal)
        for phase in Phase
        for signal in Signal
        if (phase, signal) not in TABLE and signal is not Signal.RESTORED and signal is not Signal.ENDED
    }
    assert missing == set()
    assert {phase for phase, signal in TABLE if signal is Signal.RESTORED} == {Phase.IDLE}
    assert {phase for phase, signal in TABLE if signal is Signal.ENDED} == {
        Phase.RUNNING,
        Phase.STOPPING,
        Phase.COMMITTING,
    }


def test_the_last_row_of_every_pair_has_no_condition_and_no_row_stands_behind_one() -> None:
    for pair, rows in TABLE.items():
        unconditional = [row.guard.__name__ == "always" for row in rows]
        assert unconditional[-1], pair
        assert not any(unconditional[:-1]), pair


def test_the_diagram_names_every_phase_and_is_the_same_every_time() -> None:
    drawn = inbox.diagram()
    assert drawn == inbox.diagram()
    assert all(f"{phase.value} -->" in drawn for phase in Phase)


def test_a_state_can_be_written_down_and_read_back_at_any_instant() -> None:
    talk = Talk()
    talk.say("one")
    talk.say("two", When.QUEUE)
    talk.note("later", 3)
    again = inbox.load(inbox.dump(talk.state))
    assert list(again.line) == list(talk.state.line)
    assert again.phase is Phase.RUNNING
    assert again.notes == talk.state.notes
    assert isinstance(again.line, OrderedDict)


# ---- T1


def test_t1_a_message_to_an_idle_conversation_starts_a_turn_at_once() -> None:
    assert texts(Talk().say("hello")) == [["hello"]]


@pytest.mark.parametrize("when", [When.INTERRUPT, When.QUEUE, When.STEER, When.FOLLOWUP])
def test_t2_when_idle_every_mode_is_a_plain_message(when: When) -> None:
    assert texts(Talk().say("hello", when)) == [["hello"]]


def test_t1_parts_of_a_paste_are_gathered_into_one_turn() -> None:
    talk = Talk()
    assert talk.say("part 1", wait=1.5) == [Wait(1.5)]
    assert talk.say("part 2", wait=1.5) == [Wait(1.5)]
    assert texts(talk.tell(Signal.EXPIRED)) == [["part 1", "part 2"]]


def test_t1_the_short_last_part_ends_the_waiting() -> None:
    talk = Talk()
    talk.say("part 1", wait=1.5)
    assert texts(talk.say("the end")) == [["part 1", "the end"]]


def test_t1_a_message_that_is_deleted_while_gathered_starts_nothing() -> None:
    talk = Talk()
    talk.say("part 1", wait=1.5)
    assert [
        [one.id for one in drop.entries]
        for drop in inbox.cancel(talk.state, ["e1"])
        if isinstance(drop, Drop)
    ]
    assert talk.tell(Signal.EXPIRED) == []
    assert talk.state.phase is Phase.IDLE


# ---- T2, T3, T4


def test_t3_all_that_was_queued_goes_into_the_next_turn_in_its_order_the_fifth_as_well() -> None:
    talk = Talk()
    talk.say("work")
    for number in range(1, 6):
        assert kinds(talk.say(str(number), When.QUEUE)) == [("queued", number)]
    assert texts(talk.answer()) == [["1", "2", "3", "4", "5"]]


def test_t3_followups_have_a_turn_each_and_keep_their_place_among_queued_messages() -> None:
    talk = Talk()
    talk.say("work")
    talk.say("a", When.QUEUE)
    talk.say("b", When.QUEUE)
    talk.say("f", When.FOLLOWUP)
    talk.say("g", When.FOLLOWUP)
    talk.say("c", When.QUEUE)
    assert texts(talk.answer()) == [["a", "b"]]
    assert texts(talk.answer()) == [["f"]]
    assert texts(talk.answer()) == [["g"]]
    assert texts(talk.answer()) == [["c"]]


def test_case_8_t1_parts_of_a_paste_are_one_followup() -> None:
    """Where each message has a turn of its own, one that the platform split has one, too: idle and busy."""
    talk = Talk()
    assert talk.say("1", When.FOLLOWUP, wait=1.5, partial=True) == [Wait(1.5)]
    assert talk.say("2", When.FOLLOWUP, wait=1.5, partial=True) == [Wait(1.5)]
    assert texts(talk.say("3", When.FOLLOWUP)) == [["1", "2", "3"]]  # the short last part ends the waiting
    talk.say("4", When.FOLLOWUP, partial=True)
    talk.say("of somebody else", When.FOLLOWUP, author=BOB)
    talk.say("5", When.FOLLOWUP, partial=True)
    talk.say("6", When.FOLLOWUP)
    talk.say("7", When.FOLLOWUP)
    assert texts(talk.answer()) == [["4"]]
    assert texts(talk.answer()) == [["of somebody else"]]
    assert texts(talk.answer()) == [["5", "6"]]
    assert texts(talk.answer()) == [["7"]]
    talk.answer()
    talk.say("an album's first", When.FOLLOWUP, wait=1.5, partial=True)
    talk.say("and last", When.FOLLOWUP, wait=1.5, partial=True)
    assert texts(talk.tell(Signal.EXPIRED)) == [["an album's first", "and last"]]


def test_t2_only_the_person_whose_turn_runs_or_an_admin_interrupts() -> None:
    talk = Talk()
    talk.say("work", author=ANN)
    talk.tell(Signal.GAP)
    effects = talk.say("me first", author=BOB)
    assert kinds(effects) == [("queued", 1)]
    assert not any(isinstance(one, Halt) for one in effects)
    assert Halt(1) in talk.say("now", author=BOB, admin=True)


def test_t2_what_could_not_interrupt_is_a_queued_message_from_then_on() -> None:
    talk = Talk()
    talk.say("work", author=ANN)
    effects = talk.say("me", When.STEER, author=BOB)
    (entry,) = talk.state.line.values()
    assert entry.when is When.QUEUE
    assert inbox.Amended(entry) in effects


def test_t4_an_event_rides_with_the_next_model_call_of_the_running_turn() -> None:
    talk = Talk()
    talk.say("work")
    assert talk.say("[event] done", When.EVENT) == []
    assert [
        [one.text for one in give.entries] for give in talk.tell(Signal.GAP) if isinstance(give, Give)
    ] == [["[event] done"]]


def test_t4_events_and_queued_messages_go_together_in_the_order_of_their_arrival() -> None:
    talk = Talk()
    talk.say("work")
    talk.say("event 1", When.EVENT)
    talk.say("hello", When.QUEUE)
    talk.say("event 2", When.EVENT)
    assert texts(talk.answer()) == [["event 1", "hello", "event 2"]]


def test_j8_an_event_starts_a_turn_when_idle() -> None:
    assert texts(Talk().say("event", When.EVENT)) == [["event"]]


# ---- I


def test_e1_an_interrupting_message_and_what_was_typed_while_stopping_overtake_the_queue() -> None:
    talk = Talk()
    talk.say("work")
    talk.say("queued before", When.QUEUE)
    assert Halt(1) in talk.say("stop that")
    talk.say("and this", When.QUEUE)
    talk.say("and that", When.STEER)
    assert texts(talk.interrupted()) == [["stop that", "and this", "and that"]]
    assert texts(talk.answer()) == [["queued before"]]


def test_e1_what_others_type_while_a_turn_stops_keeps_their_own_order() -> None:
    talk = Talk()
    talk.say("work", author=ANN)
    talk.say("b1", author=BOB)
    talk.say("new work", author=ANN)
    talk.say("b2", author=BOB)
    assert texts(talk.interrupted()) == [["new work"]]
    assert texts(talk.answer()) == [["b1", "b2"]]


def test_t6_a_turn_of_which_nothing_was_seen_is_interrupted_silently() -> None:
    talk = Talk()
    talk.say("one")
    assert talk.say("two") == [Halt(1)]
    seen = Talk()
    seen.say("one")
    seen.state.shown = True
    assert kinds(seen.say("two")) == [("interrupting", 0)]


def test_case_16_a_stop_that_belongs_to_the_old_turn_does_not_touch_the_next_one() -> None:
    talk = Talk()
    talk.say("one")
    talk.say("two")
    assert texts(talk.interrupted()) == [["two"]]
    assert talk.tell(Signal.GAP) == [Give(())]
    assert talk.answer() == []


def test_case_21_a_message_while_the_answer_is_committed_is_simply_the_next_one() -> None:
    talk = Talk()
    talk.say("one")
    assert talk.tell(Signal.ANSWERED) == [Commit()]
    assert talk.say("two") == []
    assert texts(talk.tell(Signal.ENDED, TurnEnd.COMPLETED)) == [["two"]]
    assert talk.state.replies == 1


def test_case_10_stop_empties_the_whole_queue_and_starts_nothing() -> None:
    talk = Talk()
    talk.say("work")
    for text in "abc":
        talk.say(text, When.QUEUE)
    talk.say("hint", When.STEER)
    effects = talk.tell(Signal.STOP)
    assert [[entry.text for entry in one.entries] for one in effects if isinstance(one, Drop)] == [
        ["a", "b", "c", "hint"]
    ]
    assert effects[-1] == Halt(1)
    assert talk.interrupted() == []
    assert talk.state.phase is Phase.IDLE


def test_i10_after_stop_an_event_waits_for_the_next_message_and_is_not_lost() -> None:
    talk = Talk()
    talk.say("work")
    talk.say("event", When.EVENT)
    talk.tell(Signal.STOP)
    assert talk.interrupted() == []
    assert texts(talk.say("hello")) == [["event", "hello"]]


def test_i10_the_store_hears_which_events_start_nothing_any_more() -> None:
    talk = Talk()
    talk.say("work")
    talk.say("event", When.EVENT)
    told = [one.entry for one in talk.tell(Signal.STOP) if isinstance(one, Amended)]
    assert [(one.text, one.parked) for one in told] == [("event", True)]


def test_i10_what_is_typed_after_stop_begins_when_the_turn_has_ended() -> None:
    talk = Talk()
    talk.say("work")
    talk.tell(Signal.STOP)
    talk.say("new")
    assert texts(talk.interrupted()) == [["new"]]


def test_i10_a_bare_interrupt_lets_what_waits_begin() -> None:
    talk = Talk()
    talk.say("work")
    talk.say("next", When.QUEUE)
    assert talk.tell(Signal.BREAK) == [Halt(1)]
    assert texts(talk.interrupted()) == [["next"]]


def test_t7_new_cancels_what_waits_and_the_notes_and_renews_after_the_turn() -> None:
    talk = Talk()
    talk.say("work")
    talk.say("next", When.QUEUE)
    talk.note("later", 2)
    dropped = [
        entry.text for one in talk.tell(Signal.RESET) if isinstance(one, Drop) for entry in one.entries
    ]
    assert dropped == ["next", "later"]
    assert talk.interrupted() == [Renew()]
    assert talk.tell(Signal.RESET) == [Renew()]


def test_t7_what_is_typed_after_new_is_in_the_new_history() -> None:
    talk = Talk()
    talk.say("work")
    talk.tell(Signal.RESET)
    talk.say("fresh")
    effects = talk.interrupted()
    assert effects[0] == Renew()
    assert texts(effects) == [["fresh"]]


# ---- S


def test_s1_steers_enter_at_the_gap_in_their_order() -> None:
    talk = Talk()
    talk.say("work")
    assert kinds(talk.say("left", When.STEER)) == [("steering", 0)]
    talk.say("right", When.STEER)
    (given_,) = talk.tell(Signal.GAP)
    assert isinstance(given_, Give)
    assert [one.text for one in given_.entries] == ["left", "right"]
    assert talk.tell(Signal.GAP) == [Give(())]


def test_s2_a_final_text_is_not_the_end_while_a_steer_waits() -> None:
    talk = Talk()
    talk.say("work")
    talk.say("wait", When.STEER)
    (given_,) = talk.tell(Signal.ANSWERED)
    assert isinstance(given_, Give)
    assert talk.state.phase is Phase.RUNNING
    assert talk.answer() == []


def test_case_18_a_steer_at_the_very_end_becomes_the_next_prompt() -> None:
    talk = Talk()
    talk.say("work")
    assert talk.tell(Signal.ANSWERED) == [Commit()]
    talk.say("too late", When.STEER)
    assert texts(talk.tell(Signal.ENDED, TurnEnd.COMPLETED)) == [["too late"]]


def test_s3_steers_of_a_failed_turn_go_before_what_was_queued_in_the_order_of_all() -> None:
    talk = Talk()
    talk.say("work")
    talk.say("queued", When.QUEUE)
    talk.say("hint 1", When.STEER)
    talk.say("hint 2", When.STEER)
    assert texts(talk.tell(Signal.ENDED, TurnEnd.FAILED)) == [["queued", "hint 1", "hint 2"]]


def test_s3_steers_of_an_interrupted_turn_follow_the_interrupting_message() -> None:
    talk = Talk()
    talk.say("work")
    talk.say("hint", When.STEER)
    talk.say("no, this")
    assert texts(talk.interrupted()) == [["no, this", "hint"]]


# ---- A


@pytest.mark.parametrize("replies", [0, 1, 2, 5])
def test_a1_a_note_lands_in_the_first_turn_after_so_many_replies(replies: int) -> None:
    talk = Talk()
    talk.note("note", replies)
    for number in range(8):
        effects = talk.say(f"m{number}")
        assert note_texts(effects) == [["note"] if number == replies else []]
        talk.answer()


def test_a1_the_reply_that_is_being_written_is_the_first_that_counts() -> None:
    talk = Talk()
    talk.say("one")
    talk.note("note", 1)
    talk.answer()
    assert note_texts(talk.say("two")) == [["note"]]


def test_a3_a_note_starts_nothing_in_any_phase() -> None:
    talk = Talk()
    assert talk.note("note", 0) == []
    talk.say("one")
    assert talk.note("another", 0) == []
    assert talk.answer() == []
    assert talk.state.phase is Phase.IDLE


def test_a5_a_note_of_an_interrupted_turn_rides_with_the_next_one_in_its_order() -> None:
    talk = Talk()
    talk.note("first", 0)
    talk.say("one")
    talk.note("second", 0)
    talk.say("two")
    assert note_texts(talk.interrupted()) == [["first", "second"]]
    assert talk.answer() == []
    assert note_texts(talk.say("three")) == [[]]


def test_t7_a_note_that_rides_with_the_turn_that_new_ends_is_cancelled_with_it() -> None:
    talk = Talk()
    talk.note("riding", 0)
    talk.say("one")
    talk.tell(Signal.RESET)
    effects = talk.interrupted()
    assert [entry.text for one in effects if isinstance(one, Drop) for entry in one.entries] == ["riding"]
    assert note_texts(talk.say("two")) == [[]]


# ---- D


def test_d9_an_edit_replaces_what_waits_in_its_place() -> None:
    talk = Talk()
    talk.say("work")
    talk.say("left", When.QUEUE)
    talk.say("other", When.QUEUE)
    inbox.amend(talk.state, "e2", "right")
    assert texts(talk.answer()) == [["right", "other"]]


def test_d9_nothing_changes_once_a_turn_took_it() -> None:
    talk = Talk()
    talk.say("work")
    assert inbox.amend(talk.state, "e1", "other") == []
    assert inbox.cancel(talk.state, ["e1"]) == []


def test_d6_what_a_former_run_left_is_one_batch_in_its_order() -> None:
    state = State(turns=4, replies=3)
    entries = tuple(Entry(f"e{n}", HERE, ANN, str(n), When.INTERRUPT, seq=n) for n in range(3))
    assert inbox.step(state, Signal.RESTORED) == []
    for entry in entries:
        inbox.arrive(state, entry, wait=9.0)
    effects = inbox.step(state, Signal.EXPIRED)
    assert texts(effects) == [["0", "1", "2"]]
    assert isinstance(effects[0], Start)
    assert (effects[0].turn, effects[0].notes) == (5, ())


def test_d4_an_open_turn_goes_on_and_what_waits_follows_it() -> None:
    state = State(turns=4, replies=3)
    assert inbox.step(state, Signal.RESTORED, Happening(turn=4)) == [Resume(4)]
    late = Entry("e9", HERE, ANN, "next", When.QUEUE, seq=9)
    inbox.arrive(state, late)
    inbox.step(state, Signal.ANSWERED)
    assert texts(inbox.step(state, Signal.ENDED, Happening(end=TurnEnd.COMPLETED))) == [["next"]]


# ---- any sequence at all

WHENS = st.sampled_from([When.INTERRUPT, When.STEER, When.QUEUE, When.FOLLOWUP, When.EVENT])
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("say"), WHENS, st.sampled_from([ANN, BOB]), st.sampled_from([0.0, 0.0, 1.5])),
        st.tuples(st.just("note"), st.integers(0, 3)),
        st.tuples(st.just("gap")),
        st.tuples(st.just("answered")),
        st.tuples(st.just("ended"), st.sampled_from([TurnEnd.FAILED, TurnEnd.INTERRUPTED]), st.booleans()),
        st.tuples(st.just("expired")),
        st.tuples(st.sampled_from(["stop", "break", "reset"])),
        st.tuples(st.just("cancel"), st.integers(1, 30)),
    ),
    max_size=60,
)


@settings(max_examples=400, deadline=None)
@given(MOVES)
def test_d2_whatever_happens_every_entry_ends_once_and_nothing_is_stuck(
    moves: list[tuple[object, ...]],
) -> None:
    talk = Talk()
    entries: dict[str, Entry] = {}
    used: list[str] = []  # by a turn that kept it
    dropped: list[str] = []
    riding: list[Entry] = []  # with the running turn
    running: int | None = None

    def perform(effects: list[Effect]) -> None:
        nonlocal running, riding
        for one in effects:
            if isinstance(one, Start):
                assert running is None, "at most one turn (T)"
                running, riding = one.turn, [*one.notes, *one.batch]
                assert one.batch, "a note starts nothing"
                assert all((note.at_reply or 0) <= talk.state.replies for note in one.notes)
            elif isinstance(one, Give):
                riding.extend(one.entries)
            elif isinstance(one, Halt):
                assert running == one.turn
            elif isinstance(one, Drop):
                dropped.extend(entry.id for entry in one.entries)

    def end(how: TurnEnd, keep: bool) -> None:
        nonlocal running, riding
        back = set() if how is TurnEnd.COMPLETED else {When.AT_REPLY} if keep else {When.AT_REPLY, When.EVENT}
        used.extend(entry.id for entry in riding if entry.when not in back)
        running, riding = None, []
        perform(talk.tell(Signal.ENDED, how, keep))

    for move in moves:
        match move:
            case ("say", When() as when, Author() as author, float() as wait):
                perform(talk.say("x", when, author, wait=wait, partial=wait > 0.0))
                entries[f"e{talk.seq}"] = Entry(f"e{talk.seq}", HERE, author, "x", when)
            case ("note", int() as replies):
                perform(talk.note("n", replies))
                entries[f"e{talk.seq}"] = Entry(f"e{talk.seq}", HERE, ANN, "n", When.AT_REPLY)
            case ("gap",) | ("answered",) | ("expired",):
                signal = Signal(str(move[0]))
                if signal is Signal.EXPIRED or running is not None:
                    perform(talk.tell(signal))
                    if talk.state.phase is Phase.COMMITTING and signal is Signal.ANSWERED:
                        pass
            case ("ended", TurnEnd() as how, bool() as keep) if running is not None:
                if talk.state.phase is Phase.COMMITTING:
                    end(TurnEnd.COMPLETED, True)
                elif talk.state.phase is Phase.STOPPING or how is TurnEnd.FAILED:
                    end(how, keep or how is TurnEnd.FAILED)
            case (("stop" | "break" | "reset") as name,):
                perform(talk.tell(Signal(str(name))))
            case ("cancel", int() as number):
                perform(inbox.cancel(talk.state, [f"e{number}"]))

    # let everything run out: it must come to rest by itself
    for _ in range(4 * len(moves) + 8):
        if talk.state.phase is Phase.GATHERING:
            perform(talk.tell(Signal.EXPIRED))
        elif talk.state.phase is Phase.STOPPING:
            end(TurnEnd.INTERRUPTED, True)
        elif talk.state.phase is Phase.COMMITTING:
            end(TurnEnd.COMPLETED, True)
        elif talk.state.phase is Phase.RUNNING:
            perform(talk.tell(Signal.ANSWERED))
    assert talk.state.phase is Phase.IDLE
    assert running is None
    assert not talk.state.front
    assert not talk.state.line
    assert not talk.state.steers
    assert not talk.state.events
    held = [*talk.state.notes, *talk.state.parked]
    assert sorted([*used, *dropped, *held]) == sorted(entries), "each entry ends once, or waits as it should"


def test_what_waits_is_found_by_its_short_id_while_it_waits_and_no_longer() -> None:
    talk = Talk()
    talk.say("work")
    for number in range(40):
        talk.say(str(number), When.QUEUE)
    entry = list(inbox.waiting(talk.state))[36]
    assert inbox.find_short(talk.state, entry.short) is entry
    assert inbox.find_short(talk.state, "a" + entry.short[1:]) is None, "another letter is another kind"
    for unknown in ("q", "", "qzzz", "q-1", "q!"):
        assert inbox.find_short(talk.state, unknown) is None
    inbox.cancel(talk.state, [entry.id])
    assert inbox.find_short(talk.state, entry.short) is None
    talk.answer()
    assert talk.state.places == {}, "nothing is remembered of what waits no more"
