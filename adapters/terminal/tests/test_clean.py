from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_terminal.clean import clean, one_line

ANYTHING = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)


@given(ANYTHING)
def test_no_control_character_is_left_but_newline_and_tab(text: str) -> None:
    left = {character for character in clean(text) if unicodedata.category(character) in ("Cc", "Cs")}
    assert left <= {"\n", "\t"}


@given(ANYTHING, st.integers(0, 60))
def test_the_pieces_of_a_stream_can_be_cleaned_one_by_one(text: str, at: int) -> None:
    assert clean(text[:at]) + clean(text[at:]) == clean(text)


@given(ANYTHING)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        pytest.param("\x1b[2J", "␛[2J", id="clears the screen"),
        pytest.param("\x1b]0;t\x07", "␛]0;t␇", id="sets the title"),
        pytest.param("ab\x08\x08cd", "ab␈␈cd", id="writes over what stands there"),
        pytest.param("safe\rrm", "saferm", id="returns to the start of the line"),
        pytest.param("a\r\nb", "a\nb", id="ends a line as Windows does"),
        pytest.param("\x9b2J", "\ufffd2J", id="an escape sequence in one byte"),
        pytest.param("a\u202egpj.exe", "a\ufffdgpj.exe", id="turns the reading direction"),
        pytest.param("\ud800", "\ufffd", id="half a surrogate pair"),
        pytest.param("👩‍👩‍👧 žluťoučký 日本 \t.", "👩‍👩‍👧 žluťoučký 日本 \t.", id="ordinary text"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_instead(raw: str, shown: str) -> None:
    assert clean(raw) == shown


def test_a_name_is_one_line_whatever_it_holds() -> None:
    assert one_line("run\n\x1b[31m  it\t") == "run ␛[31m it"
