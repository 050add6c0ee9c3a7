from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from hermes_terminal.blocks import Block
from hermes_terminal.markdown import render

STYLING = re.compile(r"\x1b\[[0-9;]*m")
PIECES = (
    """word |# |- |1. |> |**|_|`|~~|<b>|<!--|-->|    |[a](b)|![c](d)|[e]|<http://g.h>|\\|&amp;|日本|👩‍👩‍👧"""
)
MARKDOWN = st.lists(
    st.sampled_from([*PIECES.split("|"), "|", "\n", "\n\n", "```\n", "|--|--|\n", "[e]: f\n", "---\n"]),
    max_size=25,
).map("".join)


def plain(text: str, width: int = 60) -> str:
    return STYLING.sub("", render(Block(text), width))


@given(MARKDOWN, st.integers(1, 90))
@settings(deadline=None)
def test_any_markdown_renders_to_coloured_lines_and_no_other_escape_sequence(text: str, width: int) -> None:
    rendered = render(Block(text), width)
    assert "\x1b" not in STYLING.sub("", rendered)
    assert rendered == "" or rendered.endswith("\n")


@given(MARKDOWN)
@settings(deadline=None)
def test_no_word_of_any_markdown_is_lost(text: str) -> None:
    assume(not re.search(r"(```|~~~).*word", text))  # a word beside a fence names its language
    assert plain(text, 400).count("word") >= text.count("word")


@given(
    st.lists(st.text("abc", min_size=1, max_size=12), min_size=1, max_size=30).map(" ".join),
    st.integers(12, 60),
)
@settings(deadline=None)
def test_no_line_is_wider_than_asked_for(text: str, width: int) -> None:
    assert max(cell_len(line) for line in plain(text, width).split("\n")) <= width


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("**b** and `c`", "b and c\n", id="emphasis and code"),
        pytest.param("# Title", "Title\n", id="a heading stands at the left"),
        pytest.param("a <b>x</b> <!-- y -->", "a <b>x</b> <!-- y -->\n", id="HTML is text"),
        pytest.param("<div>\nx\n</div>", "<div> x </div>\n", id="a block of HTML is text"),
        pytest.param("![alt](i.png) ![](j.png)", "alt (i.png) j.png\n", id="images"),
        pytest.param("[t](http://u.v)", "t (http://u.v)\n", id="the address of a link is seen"),
        pytest.param("<http://u.v> <a@b.c>", "http://u.v a@b.c\n", id="a bare address is seen once"),
        pytest.param("[a]\n\n[a]: http://u.v", "[a]\n\n[a]: http://u.v\n", id="definitions of links stay"),
        pytest.param("3. x\n4. y", " 3 x\n 4 y\n", id="a list goes on where it says"),
        pytest.param("```py\nx = 1\n\n\ty\n```", "  x = 1\n\n      y\n", id="code keeps its lines"),
        pytest.param("```nolanguage\nx\n```", "  x\n", id="an unknown language"),
        pytest.param("| a | b |\n|---|---|\n| 1 | 2 |", " a  b\n──────\n 1  2\n", id="a table"),
        pytest.param("```py\n```", "```py\n```\n", id="code without code"),
        pytest.param(" \n\n", "", id="nothing"),
    ],
)
def test_markdown_looks_like_this(text: str, shown: str) -> None:
    assert [line.rstrip() for line in plain(text).split("\n")] == [
        line.rstrip() for line in shown.split("\n")
    ]


def test_a_table_with_no_room_is_shown_as_it_came() -> None:
    table = "|" + "|".join(f"column{n}" for n in range(30)) + "|\n" + "|-" * 30 + "|\n"
    assert plain(table, 20) == table


def test_a_row_with_too_many_cells_is_not_shortened() -> None:
    table = "| a |\n|---|\n| 1 | more |\n"
    assert plain(table) == table


def test_code_that_was_cut_is_still_code() -> None:
    assert STYLING.sub("", render(Block("*b* = 2\n```\n", inside="```python\n"), 60)) == "  *b* = 2\n"


def test_without_colour_there_is_no_escape_sequence() -> None:
    assert render(Block("# a\n\n**b**"), 60, color=False) == "a\n\nb\n"
