"""Server-sent events: what the standard says, and that the cuts of the stream never matter."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.errors import HermesError
from hermes_core.sse import Decoder, Event


def whole(stream: bytes, limit: int = 10_000) -> list[Event]:
    """The events of `stream`, handed over in one piece."""
    decoder = Decoder(limit)
    return [*decoder.feed(stream), *decoder.end()]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        pytest.param("data: a\n\n", [Event("a")], id="one line"),
        pytest.param("data:a\n\n", [Event("a")], id="no space"),
        pytest.param("data:  a\n\n", [Event(" a")], id="one space only is taken off"),
        pytest.param("data: a\ndata: b\n\n", [Event("a\nb")], id="lines are joined"),
        pytest.param("data\n\n", [Event("")], id="a field without colon has an empty value"),
        pytest.param("data:\n\n", [Event("")], id="an empty value"),
        pytest.param("data: a: b\n\n", [Event("a: b")], id="only the first colon divides"),
        pytest.param("\ufeffdata: a\n\n", [Event("a")], id="byte order mark"),
        pytest.param("data: a\n\n\ufeffdata: b\n\n", [Event("a")], id="a later mark makes another field"),
        pytest.param("data: a\r\n\r\ndata: b\r\n\r\n", [Event("a"), Event("b")], id="CRLF"),
        pytest.param("data: a\r\rdata: b\r\r", [Event("a"), Event("b")], id="CR"),
        pytest.param("data: a\r\n\ndata: b\r\r\n", [Event("a"), Event("b")], id="mixed line ends"),
        pytest.param("data: a\u2028b\x0bc\n\n", [Event("a\u2028b\x0bc")], id="other separators are text"),
        pytest.param(": hello\n:\ndata: a\n\n", [Event("a")], id="comments"),
        pytest.param(": hello\n\n\n\n", [], id="comments alone"),
        pytest.param("event: x\n\ndata: a\n\n", [Event("a")], id="no data, no event; the type is forgotten"),
        pytest.param("event: x\ndata: a\n\n", [Event("a", "x")], id="type"),
        pytest.param("event:\ndata: a\n\n", [Event("a", "message")], id="empty type"),
        pytest.param(
            "id: 7\ndata: a\n\ndata: b\n\n", [Event("a", id="7"), Event("b", id="7")], id="id stays"
        ),
        pytest.param("id: 7\nid\ndata: a\n\n", [Event("a")], id="an empty id"),
        pytest.param("id: 7\nid: 8\0\ndata: a\n\n", [Event("a", id="7")], id="an id with NUL is ignored"),
        pytest.param("retry: 50\n\ndata: a\n\ndata: b\n\n", [Event("a", retry=50), Event("b")], id="retry"),
        pytest.param("retry: 5x\nretry: ５\nretry: -1\ndata: a\n\n", [Event("a")], id="no number"),
        pytest.param("colour: red\ndata: a\n\n", [Event("a")], id="unknown field"),
        pytest.param("Data: a\n\n", [], id="field names have a case"),
        pytest.param("data: a\n\ndata: b", [Event("a"), Event("b")], id="the last blank line is missing"),
        pytest.param("", [], id="nothing"),
    ],
)
def test_the_standard_s_examples_and_corners(stream: str, events: list[Event]) -> None:
    assert whole(stream.encode()) == events


def test_an_event_is_given_as_soon_as_its_blank_line_is_there() -> None:
    decoder = Decoder()
    assert decoder.feed(b"data: a\r\n") == []
    assert decoder.feed(b"\r") == [Event("a")]
    assert decoder.feed(b"\ndata: b\n\n") == [Event("b")]


def test_bytes_that_are_no_utf8_become_replacement_characters() -> None:
    assert whole(b"data: a\xff\n\ndata: \xe2\x82") == [Event("a\ufffd"), Event("\ufffd")]


def test_text_and_bytes_may_be_mixed() -> None:
    decoder = Decoder()
    assert decoder.feed("data: ä") == []
    assert decoder.feed(b"\xc3") == []
    assert decoder.feed("b\n\n") == [Event("ä\ufffdb")]


# Lines that matter to the decoder, and any text in any line, with all kinds of line ends.
_LINES = st.one_of(
    st.sampled_from(["", "", "data: x", "data", ":c", "event: e", "id: 1", "id", "retry: 9", "data: ä€😀"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
_STREAMS = st.lists(st.tuples(_LINES, st.sampled_from(["\n", "\r", "\r\n"])), max_size=20).map(
    lambda lines: "".join(line + end for line, end in lines).encode()
)


def _cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[start:stop] for start, stop in itertools.pairwise(places)]


def _outcome(pieces: list[bytes], limit: int) -> tuple[list[Event], bool]:
    """All events, and whether the limit was reported."""
    decoder = Decoder(limit)
    events: list[Event] = []
    try:
        for piece in pieces:
            events += decoder.feed(piece)
        events += decoder.end()
    except HermesError:
        return events, True
    return events, False


@given(_STREAMS, st.lists(st.integers(0, 400), max_size=30), st.sampled_from([3, 8, 20, 10_000]))
def test_the_same_stream_gives_the_same_events_however_it_is_cut(
    stream: bytes, cuts: list[int], limit: int
) -> None:
    expected = _outcome([stream], limit)
    assert _outcome(_cut(stream, cuts), limit) == expected
    assert _outcome([bytes([one]) for one in stream], limit) == expected


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"))))
def test_what_is_written_as_data_lines_is_read_back(texts: list[str]) -> None:
    stream = "".join(f"data: {text}\n\n" for text in texts).encode()
    assert [event.data for event in whole(stream)] == texts


def test_an_event_over_the_limit_is_an_error_that_names_the_limit() -> None:
    decoder = Decoder(limit=20)
    assert decoder.feed(b"data: 1\n\ndata: " + b"x" * 50) == [Event("1")]
    with pytest.raises(HermesError, match="longer than 20 characters"):
        decoder.feed(b"x")
    with pytest.raises(HermesError, match="longer than 20 characters"):
        decoder.end()


def test_the_limit_counts_one_event_and_no_finished_comment() -> None:
    stream = b": keep-alive\n" * 100 + b"data: 12345\n\n" * 100
    assert len(whole(stream, limit=15)) == 100


def test_a_long_line_in_tiny_pieces_costs_linear_time() -> None:
    """200,000 pieces: were each looked at with every new one, this would take minutes."""
    decoder = Decoder(limit=1_000_000)
    for _ in range(200_000):
        assert decoder.feed(b"dat: ") == []
    assert decoder.end() == []
