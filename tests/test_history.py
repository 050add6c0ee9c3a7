"""What a model is handed: valid by construction, bounded, with a stable beginning (I6, A6)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core import history
from hermes_core.errors import HermesError
from hermes_core.messages import (
    Address,
    Attachment,
    Author,
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

HERE = Address("test", "me", "1")


def entry(text: str, when: When = When.INTERRUPT, name: str = "", **more: object) -> Entry:
    return Entry("1", HERE, Author(name.lower() or "ann", name), text, when, group=bool(name), **more)  # type: ignore[arg-type]


# ---- the prompt of a turn


def test_i7_messages_of_one_batch_are_joined_with_a_newline() -> None:
    items = history.prompt([], [entry("one"), entry("two")])
    assert items == (Said(SaidKind.MESSAGE, "one\ntwo"),)


def test_a6_notes_stand_first_each_its_own_block_and_are_labelled() -> None:
    items = history.prompt([entry("n1", When.AT_REPLY), entry("n2", When.AT_REPLY)], [entry("hello")])
    assert [one.kind for one in items] == [SaidKind.NOTE, SaidKind.NOTE, SaidKind.MESSAGE]
    assert "note that the user left" in history.render(items[0])
    assert history.render(items[2]) == "hello"


def test_t4_events_keep_their_place_between_messages() -> None:
    items = history.prompt([], [entry("a"), entry("[event] x", When.EVENT), entry("b"), entry("c")])
    assert [(one.kind.value, one.text) for one in items] == [
        ("message", "a"),
        ("event", "[event] x"),
        ("message", "b\nc"),
    ]


def test_in_a_group_every_line_says_who_wrote_it() -> None:
    (one,) = history.prompt([], [entry("hi", name="Ann"), entry("me too", name="Bob")])
    assert history.render(one) == "Ann: hi\nBob: me too"
    (alone,) = history.prompt([], [entry("hi", name="Ann")])
    assert history.render(alone) == "Ann: hi"


def test_t3_a_quoted_reply_stands_in_front() -> None:
    (one,) = history.prompt([], [entry("why?", quote="because\nof this")])
    assert one.text == "> because\n> of this\n\nwhy?"


def test_attachments_are_named() -> None:
    (one,) = history.prompt([], [entry("look", attachments=(Attachment("a.png", "image/png", 12),))])
    assert history.render(one) == "look\n[attached: a.png, image/png, 12 bytes]"


# ---- validity


CALL = ToolCall("c1", "t", "{}")


@pytest.mark.parametrize(
    "items",
    [
        (Step("hi"),),
        (Said(SaidKind.MESSAGE, "x"), Step("", (CALL,))),
        (Said(SaidKind.MESSAGE, "x"), Step("", (), (ToolResult("c1", ""),))),
        (Said(SaidKind.MESSAGE, "x"), Step("", (CALL, CALL), (ToolResult("c1", ""), ToolResult("c1", "")))),
        (Said(SaidKind.MESSAGE, "x"), *[Step("", (CALL,), (ToolResult("c1", ""),))] * 2),
    ],
    ids=["agent first", "no result", "orphan", "same id twice", "same id in two steps"],
)
def test_what_a_provider_would_refuse_is_refused_here(items: tuple[Item, ...]) -> None:
    with pytest.raises(HermesError):
        history.check(items)


def test_a_finished_step_is_valid() -> None:
    history.check((Said(SaidKind.MESSAGE, "x"), Step("", (CALL,), (ToolResult("c1", ""),)), Step("done")))


# ---- the window

TURNS = st.lists(
    st.lists(st.text(max_size=40), min_size=1, max_size=3).map(
        lambda texts: tuple(Said(SaidKind.MESSAGE, text) for text in texts)
    ),
    min_size=1,
    max_size=40,
).map(lambda turns: [TurnRecord(number, items) for number, items in enumerate(turns, 1)])


@given(TURNS, st.integers(50, 1000))
def test_the_window_is_bounded_holds_whole_turns_and_always_the_latest(
    turns: list[TurnRecord], limit: int
) -> None:
    first = history.window(turns, limit)
    assert 0 <= first < len(turns)
    kept = sum(history.size(turn.items) for turn in turns[first:])
    assert kept <= limit or first == len(turns) - 1


def test_the_beginning_of_the_prompt_stays_the_same_for_many_turns() -> None:
    turns: list[TurnRecord] = []
    starts: list[int] = []
    for number in range(1, 201):
        turns.append(TurnRecord(number, (Said(SaidKind.MESSAGE, "x" * 84),)))
        del turns[: history.window(turns, 2000)]
        starts.append(turns[0].number)
    changes = sum(1 for a, b in itertools.pairwise(starts) if a != b)
    assert changes < 200 / 8, "the start moves once in many turns, so that a prompt cache is of use"
