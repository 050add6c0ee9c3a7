from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_terminal.blocks import Block, Blocks

LINES = st.sampled_from(
    [
        "word",
        "more words here",
        "",
        "",
        "  ",
        "# head",
        "#nohead",
        "```",
        "```python",
        "~~~~",
        "~~~",
        "- item",
        "2. item",
        "  under",
        "    code",
        "> quote",
        "> ```",
        "| a | b |",
        "|---|---|",
        "---",
        "  ```",
        "    ```",
    ]
)
MARKDOWN = st.lists(LINES, max_size=14).map("\n".join) | st.text("a `~#-*\n", max_size=40)


@st.composite
def pieces(draw: st.DrawFn) -> list[str]:
    text = draw(MARKDOWN)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return [text[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def split(*given_pieces: str) -> list[str]:
    blocks = Blocks()
    done = [block for piece in given_pieces for block in blocks.feed(piece)]
    return [block.text for block in [*done, *blocks.close()]]


@given(pieces())
def test_whatever_the_pieces_the_blocks_together_are_the_text(given_pieces: list[str]) -> None:
    assert "".join(split(*given_pieces)) == "".join(given_pieces)


@given(pieces())
def test_whatever_the_pieces_the_blocks_are_the_same(given_pieces: list[str]) -> None:
    assert split(*given_pieces) == split("".join(given_pieces))


@given(pieces())
def test_what_is_done_and_the_tail_are_at_every_moment_what_came_in(given_pieces: list[str]) -> None:
    blocks, done, came = Blocks(), "", ""
    for piece in given_pieces:
        done += "".join(block.text for block in blocks.feed(piece))
        came += piece
        assert done + blocks.tail.text == came


@given(pieces(), st.sets(st.integers(0, 8)))
def test_cutting_at_any_moment_loses_and_repeats_nothing(given_pieces: list[str], cuts: set[int]) -> None:
    blocks = Blocks()
    done: list[Block] = []
    for index, piece in enumerate(given_pieces):
        done += blocks.feed(piece)
        if index in cuts:
            done += blocks.cut()
    done += blocks.close()
    assert "".join(block.text for block in done) == "".join(given_pieces)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("one\ntwo\n\nthree\n", ["one\ntwo\n\n", "three\n"], id="paragraphs end at a blank line"),
        pytest.param("one\n# two\nthree", ["one\n", "# two\n", "three"], id="a heading is one line"),
        pytest.param("a\n```\nb\n\nc\n```\nd", ["a\n", "```\nb\n\nc\n```\n", "d"], id="a fence is whole"),
        pytest.param(
            "````\n```\n\n````\nx", ["````\n```\n\n````\n", "x"], id="a shorter fence closes nothing"
        ),
        pytest.param("~~~\n```\n~~~\nx", ["~~~\n```\n~~~\n", "x"], id="another fence closes nothing"),
        pytest.param("```a`b\nx\n\ny", ["```a`b\nx\n\n", "y"], id="inline code opens no fence"),
        pytest.param("- a\n\n- b\n\nc", ["- a\n\n- b\n\n", "c"], id="a loose list is one block"),
        pytest.param(
            "1. a\n\n   more\n\n2. b\n\nc", ["1. a\n\n   more\n\n2. b\n\n", "c"], id="paragraphs in items"
        ),
        pytest.param(
            "- a\n  ```\n  x\n\n  y\n  ```\n- b\n\nc",
            ["- a\n  ```\n  x\n\n  y\n  ```\n- b\n\n", "c"],
            id="code in items",
        ),
        pytest.param("    a\n\n    b\n\nc", ["    a\n\n    b\n\n", "c"], id="indented code is one block"),
        pytest.param("| a |\n|---|\n| 1 |\n\nb", ["| a |\n|---|\n| 1 |\n\n", "b"], id="a table is one block"),
        pytest.param("\n\na\n\n\nb", ["\n\na\n\n", "\nb"], id="blank lines go with what follows"),
        pytest.param(
            "- a\n```\nb\n```\nc", ["- a\n", "```\nb\n```\n", "c"], id="a fence at the margin ends a list"
        ),
    ],
)
def test_blocks_end_where_markdown_ends_them(text: str, expected: list[str]) -> None:
    assert split(text) == expected


def test_a_paragraph_is_given_out_as_soon_as_its_blank_line_is_there() -> None:
    blocks = Blocks()
    assert blocks.feed("some text\n") == []
    assert blocks.feed("\n") == [Block("some text\n\n")]


def test_a_cut_splits_no_word() -> None:
    blocks = Blocks()
    blocks.feed("the terminal sho")
    assert blocks.cut() == [Block("the terminal ")]
    assert blocks.feed("ws it\n\n") == [Block("shows it\n\n")]


def test_code_goes_on_as_code_after_a_cut() -> None:
    blocks = Blocks()
    blocks.feed("```python\na = 1\nb =")
    assert blocks.cut() == [Block("```python\na = 1\n")]
    assert blocks.tail == Block("b =", inside="```python\n")
    assert blocks.feed(" 2\n```\nend") == [Block("b = 2\n```\n", inside="```python\n")]
    assert blocks.close() == [Block("end")]


def test_a_cut_of_nothing_gives_nothing() -> None:
    blocks = Blocks()
    assert blocks.cut() == []
    blocks.feed("done\n\n")
    assert blocks.cut() == []


def test_a_very_long_fence_takes_linear_time() -> None:
    # Quadratic work would take minutes here and run into the time limit of the suite.
    blocks = Blocks()
    given_pieces = ["```\n", *["x" * 40 + "\n"] * 100_000, "```\n"]
    done = [block for piece in given_pieces for block in blocks.feed(piece)]
    assert [len(block.text) for block in done] == [sum(map(len, given_pieces))]
