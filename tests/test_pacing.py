"""One budget for everything that goes to a chat, and typing that ends (R3, cases 33, 34, 42, 53)."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_core.pacing import Budget, Rate, Typing, Want


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def telegram(clock: Clock) -> Budget:
    """One message a second in a chat, twenty a minute in a group, thirty a second in all."""

    def rates(chat: str) -> tuple[Rate, ...]:
        group = (Rate(20, 60.0, burst=20),) if chat.startswith("-") else ()
        return (Rate(1.0, burst=1), *group)

    return Budget(rates, (Rate(30.0, burst=30),), clock)


def test_case_33_send_edit_and_typing_share_one_budget() -> None:
    clock = Clock()
    budget = telegram(clock)
    taken = []
    for tenth in range(200):
        clock.now = tenth / 10
        for want in (Want.TYPING, Want.STREAM_EDIT, Want.FINAL_EDIT, Want.FINAL_SEND):
            taken += [clock.now] * (budget.ask("chat", want) == 0.0)
    assert len(taken) == 20
    assert all(later - earlier >= 1.0 - 1e-9 for earlier, later in itertools.pairwise(taken))


def test_case_34_a_wait_of_minutes_parks_one_conversation_only() -> None:
    clock = Clock()
    budget = telegram(clock)
    budget.blocked("slow", 200.0)
    assert budget.ask("slow", Want.FINAL_SEND) == 200.0
    assert budget.ask("other", Want.TYPING) == 0.0
    assert budget.blocked_until("slow") == 200.0
    clock.now = 200.0
    assert budget.ask("slow", Want.FINAL_SEND) == 0.0


def test_a_limit_of_the_account_parks_everything() -> None:
    clock = Clock()
    budget = telegram(clock)
    budget.blocked_everywhere(5.0)
    assert budget.ask("one", Want.FINAL_SEND) == 5.0
    assert budget.blocked_until("two") == 5.0


def test_a_final_text_that_waits_goes_before_an_edit_that_came_first() -> None:
    clock = Clock()
    budget = telegram(clock)
    assert budget.ask("chat", Want.STREAM_EDIT) == 0.0
    assert budget.ask("chat", Want.STREAM_EDIT) == pytest.approx(1.0)
    assert budget.ask("chat", Want.FINAL_SEND) == pytest.approx(1.0)
    clock.now = 1.0
    assert budget.ask("chat", Want.STREAM_EDIT) > 0.0
    assert budget.ask("chat", Want.TYPING) > 0.0
    assert budget.ask("chat", Want.FINAL_SEND) == 0.0


def test_who_was_told_to_wait_and_does_not_come_back_holds_nobody_up() -> None:
    clock = Clock()
    budget = telegram(clock)
    budget.ask("chat", Want.FINAL_SEND)
    budget.ask("chat", Want.FINAL_SEND)
    clock.now = 10.0
    assert budget.ask("chat", Want.TYPING) == 0.0


def test_typing_leaves_the_last_place_of_a_burst_to_a_text() -> None:
    clock = Clock()
    budget = Budget(lambda chat: (Rate(1.0, burst=3),), (), clock)
    assert [budget.ask("chat", Want.TYPING) for _ in range(3)][:2] == [0.0, 0.0]
    assert budget.ask("chat", Want.TYPING) > 0.0
    assert budget.ask("chat", Want.FINAL_SEND) == 0.0


def test_edits_leave_a_part_of_the_account_s_burst_to_final_texts() -> None:
    clock = Clock()
    budget = telegram(clock)
    edits = [budget.ask(f"chat {number}", Want.STREAM_EDIT) for number in range(30)]
    assert edits.count(0.0) == 24
    assert budget.ask("one more", Want.FINAL_SEND) == 0.0


def test_case_53_idle_destinations_are_forgotten() -> None:
    clock = Clock()
    budget = telegram(clock)
    budget.blocked("parked", 10_000.0)
    most = 0
    for number in range(5000):
        clock.now += 0.1
        budget.ask(f"chat {number}", Want.FINAL_SEND)
        most = max(most, len(budget))
    assert most < 50
    assert budget.blocked_until("parked") == 10_000.0


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.0, 3.0), st.sampled_from(["a", "b", "-g"]), st.sampled_from(Want)), max_size=200
    )
)
def test_no_mix_of_wants_exceeds_what_the_platform_allows(asked: list[tuple[float, str, Want]]) -> None:
    clock = Clock()
    budget = telegram(clock)
    taken: list[tuple[float, str]] = []
    for pause, chat, want in asked:
        clock.now += pause
        wait = budget.ask(chat, want)
        assert wait >= 0.0
        if wait == 0.0:
            taken.append((clock.now, chat))
    for chat in ("a", "b", "-g"):
        times = [at for at, where in taken if where == chat]
        assert all(later - earlier > 0.999 for earlier, later in itertools.pairwise(times))
    group = [at for at, where in taken if where == "-g"]
    # A bucket that was full lets a burst through, and refills meanwhile: at most twice the burst in a minute.
    assert all(group[index + 40] - group[index] > 60.0 for index in range(len(group) - 40))


@given(st.lists(st.sampled_from(Want), min_size=1, max_size=30))
def test_whoever_waits_as_told_gets_there(wants: list[Want]) -> None:
    clock = Clock()
    budget = telegram(clock)
    for want in wants:
        for _ in range(10):
            wait = budget.ask("chat", want)
            if wait == 0.0:
                break
            clock.now += wait
        else:
            pytest.fail(f"{want.name} never got its place")


# ---- typing


def test_case_42_typing_goes_on_while_the_agent_works_and_ends_with_the_turn() -> None:
    typing = Typing(every=4.0)
    assert typing.due(0.0) == ([], None)
    typing.start("chat", 0.0)
    typing.start("chat", 0.5)
    assert typing.due(0.5) == (["chat"], 4.5)
    assert typing.due(4.0) == ([], 4.5)
    assert typing.due(4.5) == (["chat"], 8.5)
    typing.stop("chat")
    typing.stop("chat")
    assert typing.due(100.0) == ([], None)
    assert "chat" not in typing


def test_case_42_a_turn_that_follows_at_once_types_at_once_and_once() -> None:
    typing = Typing(every=4.0)
    typing.start("other", 0.0)
    typing.start("chat", 0.0)
    typing.due(0.0)
    typing.stop("chat")
    typing.start("chat", 1.0)
    assert typing.due(1.0) == (["chat"], 4.0)
    assert typing.due(4.0) == (["other"], 5.0)
    assert typing.due(5.0) == (["chat"], 8.0)


def test_typing_needs_no_more_memory_while_nobody_asks_for_it() -> None:
    """An adapter without such a sign never asks; and somewhere the agent is always at work."""
    typing = Typing(every=2.0)
    typing.start("all day", 0.0)
    tracemalloc.start()
    try:
        for number in range(20_000):
            typing.start("chat", float(number))
            typing.stop("chat")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 100_000
    assert typing.due(30_000.0) == (["all day"], 30_002.0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 3)), max_size=60))
def test_typing_is_said_where_the_agent_works_and_nowhere_else(told: list[tuple[str, bool, int]]) -> None:
    typing = Typing(every=2.0)
    said: dict[str, float] = {}
    working: set[str] = set()
    now = 0.0
    for where, starts, pause in told:
        now += pause
        if starts:
            typing.start(where, now)
            working.add(where)
        else:
            typing.stop(where)
            working.discard(where)
            said.pop(where, None)
        due, at = typing.due(now)
        assert set(due) <= working
        assert len(due) == len(set(due))
        assert all(now - said.get(one, -9.0) >= 2.0 for one in due)
        said.update(dict.fromkeys(due, now))
        assert all(now - said[one] < 2.0 for one in working)
        assert (at is None) == (not working)
