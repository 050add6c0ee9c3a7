"""Long texts become messages within the platform's limit, each right by itself, nothing lost (R2, case 36)."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hermes_core.markup import (
    DISCORD,
    PLAIN,
    SLACK,
    TELEGRAM,
    Code,
    Dialect,
    Document,
    Paragraph,
    Part,
    Text,
    graphemes,
    parse,
    plain,
    render,
    split,
    utf8,
    utf16,
)
from hermes_core.testing.platforms.telegram_rules import check_text

DIALECTS = [DISCORD, SLACK, TELEGRAM, PLAIN]
COUNTS: list[Callable[[str], int]] = [len, utf16, utf8]


def texts(source: str, dialect: Dialect, limit: int, count: Callable[[str], int] = len) -> list[str]:
    return [part.text for part in split(parse(source), dialect, limit, count)]


def letters(text: str) -> str:
    return "".join(one for one in text if one.isalnum())


def code_blocks(part: Part, dialect: Dialect) -> list[str]:
    """The code in one message, as the platform would show it."""
    if dialect is TELEGRAM:
        units = part.text.encode("utf-16-le")
        return [
            units[2 * one.offset : 2 * (one.offset + one.length)].decode("utf-16-le")
            for one in part.entities
            if one.type == "pre"
        ]
    text = html.unescape(part.text) if dialect is SLACK else part.text
    return [found[2] for found in re.findall(r"^(`{3,})(\S*)\n(.*?)\n\1$", text, re.MULTILINE | re.DOTALL)]


def put_together(code: str, pieces: list[str]) -> bool:
    """Whether `pieces` are `code`, cut at line ends (which the cut stands for) or inside lines."""
    # A piece that begins with a line end can follow a cut inside the line or behind it: both are tried.
    ends = {0}
    for index, piece in enumerate(pieces):
        begins = ends | {at + 1 for at in ends if index > 0 and code[at : at + 1] == "\n"}
        ends = {at + len(piece) for at in begins if code.startswith(piece, at)}
    return len(code) in ends


# ---- where it is cut


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        pytest.param("a" * 30 + "\n\n" + "b" * 30, ["a" * 30, "b" * 30], id="between paragraphs"),
        pytest.param(
            "One.\n\n" + "word " * 7 + "end.",
            ["One.", "word " * 7 + "end."],
            id="a paragraph that fits stays whole",
        ),
        pytest.param(
            "first line of three\nsecond line\nthird line",
            ["first line of three\nsecond line", "third line"],
            id="lines",
        ),
        pytest.param(
            "A sentence is here. Another one follows it.",
            ["A sentence is here.", "Another one follows it."],
            id="sentences",
        ),
        pytest.param("word " * 10, ["word word word word word word word word", "word word"], id="words"),
        pytest.param("你好世界，再见。" * 6, ["你好世界，再见。" * 5, "你好世界，再见。"], id="no spaces"),
        pytest.param("x" * 50, ["x" * 40, "x" * 10], id="one long word"),
        pytest.param(
            "# Head\n\n" + "b" * 35, ["# Head", "b" * 35], id="a heading that cannot stay with its text"
        ),
        pytest.param(
            "c" * 30 + "\n\n# Head\n\n" + "b" * 20,
            ["c" * 30, "# Head\n\n" + "b" * 20],
            id="a heading goes with its text",
        ),
        pytest.param("- " + "a" * 25 + "\n- " + "b" * 25, ["- " + "a" * 25, "- " + "b" * 25], id="items"),
        pytest.param("> " + "word " * 9, ["> word word word word word word word", "> word word"], id="quote"),
        pytest.param(
            "**" + "word " * 9 + "x**",
            ["**word word word word word word word**", "**word word x**"],
            id="bold",
        ),
        pytest.param(
            "[" + "word " * 7 + "x](http://a)",
            ["[word word word word word](http://a)", "[word word x](http://a)"],
            id="link",
        ),
        pytest.param(
            "abcd `" + "x y" * 12 + "`", ["abcd", "`" + "x y" * 12 + "`"], id="code in a line stays whole"
        ),
        pytest.param("- " + "word " * 9, ["- word word word word word word word", "word word"], id="item"),
    ],
)
def test_a_text_is_cut_where_a_reader_would(source: str, parts: list[str]) -> None:
    assert texts(source, DISCORD, 40) == parts


def test_what_fits_is_one_message_to_the_last_character() -> None:
    assert len(texts("word " * 399 + "12345", DISCORD, 2000)) == 1
    assert len(texts("word " * 399 + "123456", DISCORD, 2000)) == 2


def test_nothing_is_no_message() -> None:
    assert split(parse(" \n"), DISCORD, 2000) == []


def test_a_limit_that_holds_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot hold"):
        split(parse("a"), DISCORD, 10)


# ---- case 36


def test_case_36_bold_is_closed_and_opened_again() -> None:
    parts = texts("Intro. **" + "bold words " * 300 + "end** outro", DISCORD, 2000)
    assert len(parts) == 2
    assert all(part.count("**") == 2 for part in parts)


def test_case_36_a_fence_is_closed_and_opened_again_with_its_language() -> None:
    code = "\n".join(f"    line({number})" for number in range(400))
    parts = split(parse(f"Look:\n\n```python\n{code}\n```\n\ndone"), DISCORD, 2000)
    assert all(len(part.text) <= 2000 for part in parts)
    assert all(part.text.count("```python\n") == 1 for part in parts)
    assert "\n".join(block for part in parts for block in code_blocks(part, DISCORD)) == code


def test_case_36_a_fence_is_longer_than_what_stands_in_it() -> None:
    code = "````\n```\nx\n```\n````"
    (part,) = split(Document((Code(code, "md"),)), DISCORD, 2000)
    assert part.text == f"`````md\n{code}\n`````"


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)
@pytest.mark.parametrize(
    "info", ["x" * 5000, "python " + "x" * 5000, "é" * 300], ids=["word", "words", "odd"]
)
def test_case_36_a_long_info_string_pushes_no_message_over_the_limit(info: str, dialect: Dialect) -> None:
    parts = split(parse(f"```{info}\n{'code ' * 1000}\n```"), dialect, 400)
    assert max(len(part.text) for part in parts) <= 400
    assert sum(part.text.count("code") for part in parts) >= 1000


@pytest.mark.parametrize(
    "emoji",
    ["👨‍👩‍👧‍👦", "🇩🇪", "👍🏽", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "é̄", "👩🏿‍🚒", "한", "क्षि"],
    ids=["family", "flag", "skin", "England", "accents", "firefighter", "hangul", "devanagari"],
)
@pytest.mark.parametrize("count", COUNTS, ids=lambda one: one.__name__)
def test_case_36_no_cut_inside_an_emoji(emoji: str, count: Callable[[str], int]) -> None:
    for lead in range(4):
        parts = texts("a" * lead + emoji * 60, PLAIN, 31, count)
        assert "".join(parts) == "a" * lead + emoji * 60
        for part in parts:
            assert count(part) <= 31
            assert set(graphemes(part)) <= {"a", emoji}


def test_case_36_the_indentation_of_code_is_kept_where_it_is_cut() -> None:
    code = "def f():\n" + "\n".join("        deep(" + "x" * 20 + ")" for _ in range(20))
    for dialect in (DISCORD, SLACK, TELEGRAM):
        parts = split(Document((Code(code),)), dialect, 100)
        assert len(parts) > 4
        assert "\n".join(block for part in parts for block in code_blocks(part, dialect)) == code


def test_a_link_whose_address_is_longer_than_a_message_is_shown_as_text() -> None:
    parts = texts(f"[label](http://a/{'b' * 300})", DISCORD, 100)
    assert "".join(parts).replace(" ", "") == f"label(http://a/{'b' * 300})"


def test_no_message_has_more_entities_than_telegram_keeps() -> None:
    parts = split(parse("**a** b " * 350), TELEGRAM, 4096)
    assert [len(part.entities) for part in parts] == [100, 100, 100, 50]


# ---- properties

SEEDS = st.sampled_from(
    [
        "**",
        "*",
        "~~",
        "`",
        "\n",
        "\n\n",
        "> ",
        "- ",
        "1. ",
        "# ",
        "[a](http://b.c) ",
        "漢字。",
        "👨‍👩‍👧",
        "🇩🇪",
        "word ",
        "two words. ",
        "snake_case ",
        "x" * 50,
        "&<>",
        "```\n",
        "\n```py\n",
        "|a|b|\n|-|-|\n",
        "    ",
    ]
)
SOURCES = st.lists(SEEDS, max_size=40).map("".join)
LIMITS = st.integers(16, 200)


@settings(deadline=None, max_examples=400)
@given(SOURCES, LIMITS, st.sampled_from(DIALECTS), st.sampled_from(COUNTS))
def test_no_message_is_over_the_limit_or_blank_and_no_letter_is_lost(
    source: str, limit: int, dialect: Dialect, count: Callable[[str], int]
) -> None:
    document = parse(source)
    parts = split(document, dialect, limit, count)
    assert all(count(part.text) <= limit for part in parts)
    assert all(part.text.strip() for part in parts)
    whole = render(document, PLAIN).text
    sent = "".join(html.unescape(part.text) if dialect is SLACK else part.text for part in parts)
    if "](" not in source:  # addresses are repeated where a link is cut
        assert letters(sent).replace("py", "") == letters(whole).replace("py", "")
    rest = iter(sent)
    assert [one for one in letters(whole.replace(" (http://b.c)", "")) if one not in rest] == []


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.sampled_from(["x = 1", "    y", "", "\ty ", "`", "```", "é👍", "z" * 60]), max_size=12),
    LIMITS,
)
def test_code_is_the_same_when_it_is_put_together_again(lines: list[str], limit: int) -> None:
    code = "\n".join(lines)
    for dialect in (DISCORD, SLACK, TELEGRAM):
        parts = split(Document((Code(code, "py"),)), dialect, max(limit, 24))
        blocks = [block for part in parts for block in code_blocks(part, dialect)]
        if dialect is TELEGRAM:  # it takes no blank message, so blank lines at a cut are gone
            squeezed = [re.sub(r"\n+", "\n", block).strip("\n") for block in blocks]
            assert put_together(re.sub(r"\n+", "\n", code).strip("\n"), [one for one in squeezed if one])
        else:
            assert put_together(code, blocks)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.sampled_from(["x = 1", "    y", "", "", "  ", "`", "é👍", "z" * 40]), max_size=30),
    st.integers(150, 300),
)
def test_blank_lines_of_code_outlive_what_telegram_trims(lines: list[str], limit: int) -> None:
    """It takes white space away at the end of each message; at its beginning not where code begins there."""
    code = "\n".join(lines).rstrip(" \n")
    blocks = []
    for part in split(Document((Code(code, "py"),)), TELEGRAM, limit):
        sent = [{"type": one.type, "offset": one.offset, "length": one.length} for one in part.entities]
        text, kept = check_text(part.text, sent)
        units = text.encode("utf-16-le")
        for one in kept:
            block = units[2 * one["offset"] : 2 * (one["offset"] + one["length"])]
            blocks.append(block.decode("utf-16-le"))
    assert "\n".join(blocks) == code


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.sampled_from(["**a b** ", "*c d* ", "~~e f~~ ", "`g` ", "plain. ", "**h *i j* k** "]), max_size=30
    ),
    LIMITS,
)
def test_styles_are_balanced_in_every_message(pieces: list[str], limit: int) -> None:
    """Balanced: a parser finds no mark left over, and the same letters in the same styles as in the whole."""
    source = "".join(pieces)
    limit = max(limit, 30)
    assert [one for part in texts(source, DISCORD, limit) for one in styled(part)] == styled(source)


def styled(source: str) -> list[tuple[str, frozenset[str]]]:
    """Every character that is shown but blanks, with the styles around it."""
    parser = MarkdownIt("commonmark").enable("strikethrough")
    found: list[tuple[str, frozenset[str]]] = []
    for block in parser.parse(source):
        open_: list[str] = []
        for token in block.children or []:
            if token.nesting == 1:
                open_.append(token.tag)
            elif token.nesting == -1:
                open_.pop()
            else:
                around = frozenset((*open_, token.tag)) - {""}
                found += [(one, around) for one in token.content if not one.isspace()]
    return found


@settings(deadline=None, max_examples=200)
@given(SOURCES, LIMITS)
def test_entities_fit_their_message(source: str, limit: int) -> None:
    for part in split(parse(source), TELEGRAM, limit):
        for one in part.entities:
            assert 0 <= one.offset < one.offset + one.length <= utf16(part.text)


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=300), LIMITS, st.sampled_from(COUNTS))
def test_any_text_at_all_can_be_split(text: str, limit: int, count: Callable[[str], int]) -> None:
    parts = split(plain(text), PLAIN, limit, count)
    assert all(count(part.text) <= limit for part in parts)
    assert letters("".join(part.text for part in parts)) == letters(text)


# ---- cost


@pytest.mark.parametrize(
    "unit",
    ["word ", "x", "👍🏽", "**b** ", "a.\n\n", "- a\n", "> a\n", "```\nx\n```\n", "[a](http://b) ", "漢字。"],
    ids=["words", "word", "emoji", "bold", "paragraphs", "items", "quotes", "fences", "links", "cjk"],
)
@pytest.mark.parametrize("dialect", [DISCORD, TELEGRAM], ids=lambda one: one.name)
def test_the_work_grows_with_the_length_of_the_text(unit: str, dialect: Dialect) -> None:
    """Counted in characters that the platform's count is asked about: no clock, no chance."""

    def work(times: int) -> int:
        asked = 0

        def count(text: str) -> int:
            nonlocal asked
            asked += len(text) + 1
            return len(text)

        split(parse(unit * times), dialect, 200, count)
        return asked

    assert work(4000) <= 4.6 * work(1000)


def test_a_character_that_alone_is_over_the_limit_takes_its_number_along() -> None:
    assert "".join(texts("7. 👨‍👩‍👧", TELEGRAM, 16, utf8)) == "7. 👨‍👩‍👧"


def test_a_document_made_by_hand_is_split_as_well() -> None:
    document = Document((Paragraph((Text("line one\nline two"),)),))
    assert [part.text for part in split(document, PLAIN, 16)] == ["line one", "line two"]
