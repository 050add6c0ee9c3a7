from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.adapter import Broken, Drafted
from hermes_core.messages import Address, Outgoing
from hermes_terminal.transcript import CHANGED, REPEAT, Printed, Transcript

HERE = Address("terminal", "local", "main")
TEXT = st.text("ab `#-\n", max_size=60)


def reply(text: str, turn: int = 1, *, repeat: bool = False) -> Outgoing:
    return Outgoing(f"t:{turn}", HERE, text, turn=str(turn), number=turn, repeat=repeat)


def text_of(printed: Iterable[Printed]) -> str:
    return "".join(one.text for one in printed if one.kind == "block")


def marks_of(printed: Iterable[Printed]) -> list[str]:
    return [one.text for one in printed if one.kind == "mark"]


@given(st.lists(TEXT, max_size=6), TEXT, st.sets(st.integers(0, 6)))
def test_draft_and_final_text_are_printed_once_however_much_was_drafted(
    pieces: list[str], rest: str, typed_after: set[int]
) -> None:
    transcript = Transcript()
    printed: list[Printed] = []
    for index, piece in enumerate(pieces):
        printed += transcript.drafted(Drafted(1, 0, piece))
        if index in typed_after:
            printed += transcript.cut()
    final = "".join(pieces) + rest
    printed += transcript.sent(reply(final))
    assert text_of(printed) == final
    assert marks_of(printed) == []
    assert transcript.tail.text == ""


@given(st.lists(TEXT, min_size=1, max_size=6))
def test_a_broken_draft_keeps_its_text_and_gets_a_mark(pieces: list[str]) -> None:
    transcript = Transcript()
    printed = [one for piece in pieces for one in transcript.drafted(Drafted(1, 0, piece))]
    printed += transcript.broken(Broken(1, "interrupted"))
    assert text_of(printed) == "".join(pieces)
    assert marks_of(printed) == (["✂ interrupted"] if "".join(pieces).strip() else [])
    assert transcript.tail.text == ""


def test_a_turn_that_showed_nothing_is_broken_silently() -> None:
    assert Transcript().broken(Broken(1, "interrupted")) == []


def test_a_turn_whose_first_part_was_shown_is_broken_with_a_mark() -> None:
    transcript = Transcript()
    transcript.drafted(Drafted(1, 0, "Let me look."))
    transcript.drafted(Drafted(1, 1, ""))
    assert marks_of(transcript.broken(Broken(1, "interrupted"))) == ["✂ interrupted"]


def test_the_parts_of_a_turn_follow_each_other_and_only_the_last_is_its_final_text() -> None:
    transcript = Transcript()
    printed = transcript.drafted(Drafted(1, 0, "Let me look."))
    printed += transcript.drafted(Drafted(1, 1, "It is "))
    printed += transcript.sent(reply("It is 42."))
    assert [one.text for one in printed] == ["Let me look.", "It is 42."]


def test_a_question_is_printed_below_what_its_turn_has_said_and_not_in_the_midst_of_another() -> None:
    for within, order in (
        ("1", ["One moment", "May I?", " please."]),
        ("2", ["May I?", "One moment please."]),
    ):
        transcript = Transcript()
        printed = transcript.drafted(Drafted(1, 0, "One moment"))
        printed += transcript.sent(Outgoing("q", HERE, "May I?", within=within))
        printed += transcript.drafted(Drafted(1, 0, " please."))
        printed += transcript.sent(reply("One moment please."))
        assert [one.text for one in printed] == order


def test_what_was_drafted_before_a_tool_runs_is_printed_and_not_printed_again() -> None:
    transcript = Transcript()
    printed = transcript.drafted(Drafted(1, 0, "Let me look"))
    assert text_of(transcript.paused()) == "Let me look"
    printed = transcript.drafted(Drafted(1, 0, " here."))
    printed += transcript.sent(reply("Let me look here."))
    assert text_of(printed) == " here."


def test_a_final_text_that_differs_is_printed_whole_below_a_mark() -> None:
    transcript = Transcript()
    printed = transcript.drafted(Drafted(1, 0, "It is secret."))
    printed += transcript.sent(reply("It is [removed]."))
    assert [one.text for one in printed] == ["It is secret.", CHANGED, "It is [removed]."]


def test_white_space_at_the_ends_makes_no_difference() -> None:
    transcript = Transcript()
    printed = transcript.drafted(Drafted(1, 0, "\nyes \n"))
    printed += transcript.sent(reply("yes"))
    assert text_of(printed) == "\nyes \n"
    assert marks_of(printed) == []


def test_the_reply_of_an_earlier_turn_that_arrives_late_is_not_printed_again() -> None:
    transcript = Transcript()
    printed = transcript.drafted(Drafted(1, 0, "first"))
    printed += transcript.drafted(Drafted(2, 0, "sec"))
    printed += transcript.sent(reply("first", 1))
    printed += transcript.sent(reply("second", 2))
    assert [one.text for one in printed] == ["first", "second"]


def test_an_answer_to_a_command_leaves_the_draft_alone() -> None:
    transcript = Transcript()
    printed = transcript.drafted(Drafted(1, 0, "half of"))
    printed += transcript.sent(Outgoing("c:1", HERE, "status: fine"))
    assert [one.text for one in printed] == ["status: fine"]
    assert transcript.tail.text == "half of"


def test_a_text_without_a_draft_is_printed_whole() -> None:
    assert text_of(Transcript().sent(reply("a\n\nb"))) == "a\n\nb"


def test_a_text_that_may_be_a_repeat_says_so() -> None:
    assert [one.text for one in Transcript().sent(reply("again", repeat=True))] == [REPEAT, "again"]


def test_leaving_keeps_what_was_drafted() -> None:
    transcript = Transcript()
    transcript.drafted(Drafted(1, 0, "half of"))
    assert [one.text for one in transcript.close("left")] == ["half of", "left"]
    assert transcript.close("left") == []


@pytest.mark.parametrize("piece", ["\x1b[2J", "\x07", "\x08", "\x9b2J", "\r"])
def test_nothing_printed_commands_the_terminal(piece: str) -> None:
    transcript = Transcript()
    printed = transcript.drafted(Drafted(1, 0, f"a {piece} b"))
    printed += transcript.sent(reply(f"a {piece} b{piece}"))
    printed += transcript.broken(Broken(1, piece))
    printed += transcript.sent(Outgoing("n", HERE, piece))
    assert piece not in "".join(one.text for one in printed)
    assert "a " in text_of(printed)


def test_a_hundred_drafts_without_an_end_are_not_remembered_for_ever() -> None:
    transcript = Transcript()
    for turn in range(100):
        transcript.drafted(Drafted(turn, 0, "text"))
    assert text_of(transcript.sent(reply("text", 98))) == ""
    assert text_of(transcript.sent(reply("text", 3))) == "text"
