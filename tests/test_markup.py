"""Markdown becomes a tree, and the tree what each platform shows; nothing that was written gets lost (R1, R4)."""

from __future__ import annotations

import html
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hermes_core.markup import (
    DISCORD,
    DISCORD_MENTIONS,
    PLAIN,
    SLACK,
    SLACK_MENTIONS,
    TELEGRAM,
    TELEGRAM_MENTIONS,
    Break,
    Code,
    Dialect,
    Document,
    Emphasis,
    Entity,
    Heading,
    Item,
    Link,
    List,
    Paragraph,
    Quote,
    Rule,
    Strike,
    Strong,
    Table,
    Text,
    aligned,
    neutralise,
    parse,
    pinging_nobody,
    plain,
    render,
    utf8,
    utf16,
    width,
)

DIALECTS = [DISCORD, SLACK, TELEGRAM, PLAIN]
each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda one: one.name)


def words(text: str) -> str:
    """The letters and digits of a text, in order."""
    return "".join(one for one in text if one.isalnum())


def shown(source: str, dialect: Dialect) -> str:
    return render(parse(source), dialect).text


def read(text: str, dialect: Dialect) -> str:
    """The letters and digits that people read in a text that was sent."""
    return words(html.unescape(text) if dialect is SLACK else text)


class Visible(HTMLParser):
    """The text of a page, with the descriptions of images."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.text = ""
        parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
        self.feed(parser.render(source))
        self.close()

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.text += dict(attrs).get("alt") or ""


# ---- the tree


@pytest.mark.parametrize(
    ("source", "blocks"),
    [
        pytest.param(
            "a *b*\nc", (Paragraph((Text("a "), Emphasis((Text("b"),)), Break(), Text("c"))),), id="text"
        ),
        pytest.param("## a **b**", (Heading(2, (Text("a "), Strong((Text("b"),)))),), id="heading"),
        pytest.param("~~a~~", (Paragraph((Strike((Text("a"),)),)),), id="strike"),
        pytest.param(
            "[a](http://x 'y')", (Paragraph((Link("http://x", (Text("a"),), "y"),)),), id="link with a title"
        ),
        pytest.param("![a *b*](http://x)", (Paragraph((Link("http://x", (Text("a b"),)),)),), id="image"),
        pytest.param(
            "![](http://x)", (Paragraph((Link("http://x", (Text("http://x"),)),)),), id="bare image"
        ),
        pytest.param(
            "3. a\n4. b",
            (List((Item((Paragraph((Text("a"),)),)), Item((Paragraph((Text("b"),)),))), 3),),
            id="ordered list that begins with 3",
        ),
        pytest.param(
            "- [x] a\n- [ ] b",
            (List((Item((Paragraph((Text("a"),)),), True), Item((Paragraph((Text("b"),)),), False))),),
            id="tasks",
        ),
        pytest.param("> a", (Quote((Paragraph((Text("a"),)),)),), id="quote"),
        pytest.param("```py\n\tx = 1 \n\n```", (Code("\tx = 1 \n", "py"),), id="code is kept byte for byte"),
        pytest.param("    x\n     y", (Code("x\n y"),), id="indented code"),
        pytest.param("```\n```", (Code(""),), id="empty code"),
        pytest.param(
            "``` what a day!\nx\n```",
            (Code("x", "what"),),
            id="the first word of an info string is a language",
        ),
        pytest.param(
            "```{x y=1}\nx\n```", (Paragraph((Text("{x y=1}"),)), Code("x")), id="another info string is text"
        ),
        pytest.param("a\n\n***", (Paragraph((Text("a"),)), Rule()), id="rule"),
        pytest.param("a <b>c</b>", (Paragraph((Text("a <b>c</b>"),)),), id="HTML is text"),
        pytest.param("a<br/>b", (Paragraph((Text("a"), Break(), Text("b"))),), id="but for line breaks"),
        pytest.param(
            "|a|b|\n|:-|-:|\n|c|",
            (Table(("left", "right"), ((Text("a"),), (Text("b"),)), (((Text("c"),), ()),)),),
            id="table",
        ),
        pytest.param(
            "|a|\n|-|\n|b|c|",
            (Table(("",), ((Text("a"),),), (((Text("b"), Text(" | c")),),)),),
            id="extra cells",
        ),
        pytest.param(
            "a\n\n[x]: http://y\n\nb",
            (Paragraph((Text("a"),)), Paragraph((Text("[x]: http://y"),)), Paragraph((Text("b"),))),
            id="a definition that no link uses is text, where it stood",
        ),
        pytest.param(
            "[a]\n\n[a]: http://y",
            (Paragraph((Link("http://y", (Text("a"),)),)),),
            id="one that is used is not",
        ),
        pytest.param("#", (Paragraph((Text("#"),)),), id="what would be nothing is text"),
        pytest.param("  \n", (), id="blank"),
    ],
)
def test_markdown_becomes_a_small_tree(source: str, blocks: tuple[object, ...]) -> None:
    assert parse(source).blocks == blocks


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(">" * 500 + " deep", id="quotes"),
        pytest.param("".join("  " * depth + "- x\n" for depth in range(200)), id="lists"),
        pytest.param("*" * 4001 + "a" + "*" * 4001, id="emphasis"),
        pytest.param("[" * 3000 + "a" + "](b)" * 3000, id="brackets"),
        pytest.param("![" * 1000 + "a" + "](b)" * 1000, id="images"),
    ],
)
@each_dialect
def test_what_is_nested_too_deeply_arrives_as_plain_text(source: str, dialect: Dialect) -> None:
    assert read(shown(source, dialect), dialect) == words(source)


# ---- nothing is lost

SEEDS = st.sampled_from(
    [
        "**",
        "*",
        "_",
        "~~",
        "`",
        "```",
        "````py",
        "\n",
        "\n\n",
        "> ",
        "- ",
        "1. ",
        "- [ ] ",
        "# ",
        "|",
        "|-|-|\n",
        "[a](http://b.c)",
        "![d](e)",
        "<http://f.g>",
        "[h]: i\n",
        "    ",
        "\t",
        "\\",
        "<",
        "&",
        "---\n",
        "(",
        "]",
        " ",
        "word",
        "two words. ",
        "漢字。",
        "👨‍👩‍👧",
        "🇩🇪",
        "é",
        "@everyone",
        "snake_case",
        "\u00a0",
        "<!--",
    ]
)
SOURCES = st.lists(st.one_of(SEEDS, st.text("ab1 *_`~|\n", max_size=6)), max_size=30).map("".join)


@settings(deadline=None, max_examples=300)
@given(SOURCES, st.sampled_from(DIALECTS))
def test_every_letter_that_a_browser_would_show_is_shown_in_order(source: str, dialect: Dialect) -> None:
    seen = words(Visible(source.replace("<br", "<")).text)
    letters = iter(read(shown(source, dialect), dialect))
    assert [letter for letter in seen if letter not in letters] == []


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=60), st.sampled_from(DIALECTS))
def test_text_without_markup_is_shown_as_it_is(text: str, dialect: Dialect) -> None:
    assert read(render(plain(text), dialect).text, dialect) == words(text)


@settings(deadline=None, max_examples=500)
@given(st.text("ab1*_~`\\[](|.# ", max_size=40).map("a".__add__))
def test_what_discord_is_sent_reads_as_the_text_that_was_meant(text: str) -> None:
    sent = render(plain(text), DISCORD).text
    assert render(parse(sent), PLAIN).text.split() == text.split()


@settings(deadline=None, max_examples=200)
@given(SOURCES)
def test_entities_are_inside_the_text_nested_and_never_empty(source: str) -> None:
    part = render(parse(source), TELEGRAM)
    units = utf16(part.text)
    for one in part.entities:
        assert 0 <= one.offset < one.offset + one.length <= units
    for one in part.entities:
        for other in part.entities:
            apart = one.offset + one.length <= other.offset or other.offset + other.length <= one.offset
            inside = other.offset <= one.offset and one.offset + one.length <= other.offset + other.length
            around = one.offset <= other.offset and other.offset + other.length <= one.offset + one.length
            assert apart or inside or around


# ---- what the platforms show


@pytest.mark.parametrize(
    ("source", "discord", "slack", "telegram"),
    [
        pytest.param("**a** *b* ~~c~~", "**a** *b* ~~c~~", "*a* _b_ ~c~", "a b c", id="styles"),
        pytest.param("`a*b`", "`a*b`", "`a*b`", "a*b", id="code"),
        pytest.param("`` a`b ``", "``a`b``", "a`b", "a`b", id="code with a back-quote"),
        pytest.param("# a", "# a", "*a*", "a", id="heading"),
        pytest.param("##### a", "**a**", "*a*", "a", id="deep heading"),
        pytest.param("[a](http://b)", "[a](http://b)", "<http://b|a>", "a", id="link"),
        pytest.param(
            "[a **b**](http://c)", "[a **b**](http://c)", "<http://c|a b>", "a b", id="bold in a link"
        ),
        pytest.param(
            "<http://a_b/c_d>", "http://a_b/c_d", "http://a_b/c_d", "http://a_b/c_d", id="bare address"
        ),
        pytest.param("[a](x:b)", "a (x:b)", "a (x:b)", "a (x:b)", id="an address that is no web page"),
        pytest.param(
            "[a](!channel)", "a (!channel)", "a (!channel)", "a (!channel)", id="a mention as a link"
        ),
        pytest.param(
            "a & b < c", "a & b < c", "a &amp; b &lt; c", "a & b < c", id="Slack's three characters"
        ),
        pytest.param(
            "snake_case 2 * 3", "snake_case 2 * 3", "snake_case 2 * 3", "snake_case 2 * 3", id="harmless"
        ),
        pytest.param(r"\*a\*", r"\*a\*", "*a*", "*a*", id="a literal asterisk"),
        pytest.param("a**b**c", "a**b**c", "a\u200b*b*\u200bc", "abc", id="bold inside a word"),
        pytest.param("- a\n  - b\n- c", "- a\n  - b\n- c", "• a\n  ◦ b\n• c", "• a\n  ◦ b\n• c", id="list"),
        pytest.param("9. a\n10. b\n    - c", *["9. a\n10. b\n    {} c"] * 3, id="numbers"),
        pytest.param("- [x] a\n- [ ] b", "- ☑ a\n- ☐ b", "☑ a\n☐ b", "☑ a\n☐ b", id="tasks"),
        pytest.param("> a\n>\n> b", "> a\n> \n> b", "> a\n> \n> b", "a\n\nb", id="quote"),
        pytest.param("- \n- a", "-\n- a", "•\n• a", "•\n• a", id="an item without text"),
        pytest.param("```py\n a\n```", "```py\n a\n```", "```\n a\n```", " a", id="code block"),
        pytest.param("- ```\n  a\n  ```", "-\n```\na\n```", "•\n```\na\n```", "•\na", id="code in a list"),
        pytest.param("***a** b*", "***a** b*", "_*a* b_", "a b", id="nested"),
        pytest.param("1\\. a", "1\\. a", "1. a", "1. a", id="no list"),
    ],
)
def test_each_platform_shows_it_in_its_own_way(source: str, discord: str, slack: str, telegram: str) -> None:
    assert shown(source, DISCORD) == discord.replace("{}", "-")
    assert shown(source, SLACK) == slack.replace("{}", "◦")
    assert shown(source, TELEGRAM) == telegram.replace("{}", "◦")


def test_telegram_s_entities_count_utf_16_units() -> None:
    part = render(parse("👍🏽 **a** [b](http://c) `d`\n\n```py\ne\n```\n> f"), TELEGRAM)
    assert part.text == "👍🏽 a b d\n\ne\n\nf"
    assert part.entities == (
        Entity("bold", 5, 1),
        Entity("text_link", 7, 1, "http://c"),
        Entity("code", 9, 1),
        Entity("pre", 12, 1, "py"),
        Entity("blockquote", 15, 1),
    )


def test_code_in_a_telegram_link_keeps_the_address() -> None:
    assert render(parse("[`a`](http://b)"), TELEGRAM).entities == (Entity("text_link", 0, 1, "http://b"),)


# ---- tables


def test_case_37_a_table_is_shown_aligned_and_not_as_pipes() -> None:
    source = "| Name | Größe |\n|:--|--:|\n| 漢字 | 1 |\n| **b** 👍🏽 | 1000 |"
    table = parse(source).blocks[0]
    assert isinstance(table, Table)
    assert aligned(table) == "Name  Größe\n────  ─────\n漢字      1\nb 👍🏽   1000"
    assert len({width(line) for line in aligned(table).splitlines()}) == 1
    for dialect in DIALECTS:
        assert "|" not in shown(source, dialect)
        assert aligned(table) in shown(source, dialect)


def test_a_table_keeps_addresses_line_breaks_and_the_middle() -> None:
    table = parse("|a|b|\n|:-:|-|\n|[x](http://y)|1<br>2|").blocks[0]
    assert isinstance(table, Table)
    assert aligned(table).splitlines() == [
        "     a        b",
        "────────────  ─",
        "x (http://y)  1",
        "              2",
    ]


# ---- mentions


@pytest.mark.parametrize(
    ("patterns", "text", "broken"),
    [
        (
            DISCORD_MENTIONS,
            "@everyone @here <@42> <@&7> <#9> a@b",
            "@·everyone @·here <·@42> <·@&7> <#9> a@b",
        ),
        (
            SLACK_MENTIONS,
            "<!channel> <@U1> @here <#C1> x@here.org",
            "<·!channel> <·@U1> @·here <#C1> x@here.org",
        ),
        (
            TELEGRAM_MENTIONS,
            "@some_one a@mail.org http://x/@some_one @a",
            "@·some_one a@mail.org http://x/@some_one @a",
        ),
    ],
    ids=["discord", "slack", "telegram"],
)
def test_names_in_a_text_ring_at_nobody(patterns: tuple[object, ...], text: str, broken: str) -> None:
    assert neutralise(text, patterns, "·") == broken  # type: ignore[arg-type]


def test_a_dialect_breaks_mentions_in_text_but_never_in_code() -> None:
    quiet = pinging_nobody(DISCORD, DISCORD_MENTIONS)
    assert shown("@everyone `@everyone`", quiet) == "@\u2060everyone `@everyone`"


# ---- the rest


def test_counting_is_the_platform_s() -> None:
    assert (len("a👍é"), utf16("a👍é"), utf8("a👍é")) == (3, 4, 7)


def test_a_text_that_the_parser_cannot_take_is_plain_text() -> None:
    assert parse("\ud800 **a**") != Document(())


def test_starting_the_program_imports_no_parser() -> None:
    check = (
        "import sys, hermes_core.markup; "
        "sys.exit(any(name.split('.')[0] in ('markdown_it', 'wcwidth') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
