"""From Markdown to what Slack takes."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from hermes_core.markup import SLACK, parse, plain, split
from hermes_slack.limits import MAX_TEXT
from hermes_slack.render import cut

WORDS = st.text("ab Z19.,:;?!'%=$-*_`<>&#~|/@\n", max_size=30)


@given(WORDS, st.booleans())
@example("mailto: a. b", True)
@example("a " * 3000, True)
@example("www. a: b", True)
@example("Title ===", True)
@example("7", True)
@example("7. a", True)
@example("7.", False)
@example("12 of 3: b", True)
def test_the_short_way_for_plain_words_gives_what_the_parser_gives(text: str, final: bool) -> None:
    parts = split(parse(text) if final else plain(text), SLACK, MAX_TEXT)
    assert [piece.text for piece in cut(text, final)] == [part.text for part in parts]


@given(st.text("a*_`<>&@!#| \n", max_size=200))
def test_nothing_in_a_text_rings_at_anybody_r4(text: str) -> None:
    for written in (text, "<!channel> <@U1> <!subteam^S1>" + text):
        for piece in cut(written, True):
            assert "<!" not in piece.text
            assert "<@" not in piece.text


def test_every_piece_says_of_how_many_it_is_one_and_a_draft_never_does() -> None:
    text = "word " * 2000
    final = cut(text, True)
    assert [piece.of for piece in final] == [len(final)] * len(final)
    assert {piece.of for piece in cut(text, False)} == {0}


def test_bold_italics_code_links_and_lists_are_mrkdwn() -> None:
    text = "**bold** _it_ `co<de>` [label](https://example.org/a?b=1&c=2)\n\n- one\n- two"
    assert cut(text, True)[0].text == (
        "*bold* _it_ `co&lt;de&gt;` <https://example.org/a?b=1&amp;c=2|label>\n\n• one\n• two"
    )
