"""The chat completions API as pure functions: requests to JSON, streams to deltas."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.errors import ModelError
from hermes_core.messages import Attachment, Item, Said, SaidKind, Step, ToolCall, ToolResult
from hermes_core.models import Delta, Request, Stop, Text, ToolSpec, Usage
from hermes_core.testing.model_server import DONE, asks, chunk
from hermes_httpmodel.content import call_ids
from hermes_openai.wire import Assembly, body, messages

HELLO = Said(SaidKind.MESSAGE, "hello")
CALLED = Step(
    "",
    (ToolCall("a", "look", '{"x": 1}'), ToolCall("b", "wait", "{}")),
    (ToolResult("a", "1"), ToolResult("b", "2")),
)


# ---- requests


def test_a_request_is_streamed_with_usage_and_has_its_tools_sorted_by_name() -> None:
    tools = (ToolSpec("b", "second", {"type": "object"}), ToolSpec("a", "first", {"type": "object"}))
    sent = json.loads(body(Request("be kind", (HELLO,), tools), "m"))
    assert sent == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {"name": "a", "description": "first", "parameters": {"type": "object"}},
            },
            {
                "type": "function",
                "function": {"name": "b", "description": "second", "parameters": {"type": "object"}},
            },
        ],
        "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello"}],
    }


def test_without_tools_and_system_prompt_neither_is_sent() -> None:
    sent = json.loads(body(Request("", (HELLO,)), "m"))
    assert "tools" not in sent
    assert sent["messages"] == [{"role": "user", "content": "hello"}]


def test_a_step_becomes_an_assistant_message_and_one_tool_message_for_each_result() -> None:
    function = {"type": "function"}
    assert messages("", [HELLO, CALLED, Step("done")]) == [
        {"role": "user", "content": "hello"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", **function, "function": {"name": "look", "arguments": '{"x": 1}'}},
                {"id": "b", **function, "function": {"name": "wait", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "assistant", "content": "done"},
    ]


def test_text_beside_tool_calls_is_kept() -> None:
    step = Step("I look.", (ToolCall("a", "look", "{}"),), (ToolResult("a", "1"),))
    assert messages("", [step])[0]["content"] == "I look."


def test_a_step_that_said_nothing_leaves_no_empty_message() -> None:
    assert messages("", [HELLO, Step(""), HELLO]) == [{"role": "user", "content": "hello"}] * 2


@pytest.mark.parametrize(
    ("came", "sent"),
    [
        pytest.param('{"x": 1}', '{"x": 1}', id="an object stays as it is"),
        pytest.param('{ "x":1 }', '{ "x":1 }', id="byte by byte"),
        pytest.param('{"x": ', "{}", id="half an object"),
        pytest.param("[1]", "{}", id="a list"),
        pytest.param("look at x", "{}", id="no JSON"),
        pytest.param("", "{}", id="nothing"),
        pytest.param('{"x": "\ud800"}', "{}", id="half a character"),
    ],
)
def test_arguments_that_are_no_object_are_sent_as_an_empty_one(came: str, sent: str) -> None:
    step = Step("", (ToolCall("a", "look", came),), (ToolResult("a", "no"),))
    assert messages("", [step])[0]["tool_calls"][0]["function"]["arguments"] == sent


def test_steers_and_notes_stay_in_the_user_role_and_differ_from_a_message() -> None:
    """S1, A6."""
    kinds = [SaidKind.MESSAGE, SaidKind.STEER, SaidKind.NOTE, SaidKind.INJECTION]
    sent = messages("", [Said(kind, "left") for kind in kinds])
    assert {one["role"] for one in sent} == {"user"}
    assert len({one["content"] for one in sent}) == len(kinds)


def test_an_attachment_is_named_with_its_type() -> None:
    sent = messages("", [Said(SaidKind.MESSAGE, "see", attachments=(Attachment("a.png", "image/png"),))])
    assert "a.png" in sent[0]["content"]
    assert "image/png" in sent[0]["content"]


def test_half_a_character_does_not_spoil_the_request() -> None:
    sent = json.loads(
        body(Request("", (Said(SaidKind.MESSAGE, "a\ud83db"), Said(SaidKind.MESSAGE, "\ud83d\ude00"))), "m")
    )
    assert [one["content"] for one in sent["messages"]] == ["a\ufffdb", "😀"]


_TEXTS = st.text(max_size=8)
_SAID = st.builds(Said, st.sampled_from(SaidKind), _TEXTS, _TEXTS)


@st.composite
def _steps(draw: st.DrawFn) -> Step:
    count = draw(st.integers(0, 3))
    calls = tuple(ToolCall(f"{draw(st.uuids())}", draw(_TEXTS), draw(_TEXTS)) for _ in range(count))
    return Step(draw(_TEXTS), calls, tuple(ToolResult(call.id, draw(_TEXTS)) for call in calls))


@given(st.lists(st.one_of(_SAID, _steps()), max_size=6), st.lists(st.one_of(_SAID, _steps()), max_size=3))
def test_what_was_sent_before_is_sent_again_byte_by_byte(before: list[Item], more: list[Item]) -> None:
    """The cache of the provider lives from it; and each call has its one result, right behind it (I6)."""
    first = body(Request("s", tuple(before)), "m")
    second = body(Request("s", (*before, *more)), "m")
    assert second.startswith(first[:-2])
    waiting: list[str] = []
    for one in json.loads(second)["messages"]:
        if one["role"] == "tool":
            assert one["tool_call_id"] == waiting.pop(0)
        else:
            assert not waiting
            waiting = [call["id"] for call in one.get("tool_calls", [])]
    assert not waiting


# ---- streams


def play(*pieces: bytes, taken: frozenset[str] = frozenset()) -> list[Delta]:
    """The deltas of a whole stream."""
    assembly = Assembly(taken)
    deltas = [delta for piece in pieces for delta in assembly.feed(piece)]
    return [*deltas, *assembly.end()]


def call(
    index: int | None = None, id: str | None = None, name: str | None = None, arguments: Any = None
) -> Any:
    """A piece of a tool call in a chunk, with what is given only."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    piece = {"index": index, "id": id, "function": function}
    return {key: value for key, value in piece.items() if value is not None}


END = chunk(finish="tool_calls")


def test_text_comes_out_piece_by_piece() -> None:
    assembly = Assembly()
    assert assembly.feed(chunk("Good ")) == [Text("Good ")]
    assert assembly.feed(chunk("day")) == [Text("day")]
    before = assembly.finished
    assert assembly.feed(chunk(finish="stop")) == []
    assert (before, assembly.finished) == (False, True)
    assert assembly.end() == [Stop("end")]


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        pytest.param(
            [[call(0, "x", "a", "")], [call(0, arguments='{"n"')], [call(0, arguments=": 1}")]],
            [("x", "a", '{"n": 1}')],
            id="in pieces",
        ),
        pytest.param(
            [
                [call(0, "x", "a", '{"n')],
                [call(1, "y", "b", "{")],
                [call(0, arguments='":1}')],
                [call(1, arguments="}")],
            ],
            [("x", "a", '{"n":1}'), ("y", "b", "{}")],
            id="two at once, mixed",
        ),
        pytest.param(
            [[call(1, "y", "b", "{}")], [call(0, "x", "a", "{}")]],
            [("x", "a", "{}"), ("y", "b", "{}")],
            id="by index",
        ),
        pytest.param([[call(0, "x", "a")]], [("x", "a", "{}")], id="no arguments at all"),
        pytest.param([[call(0, "x", "a", {"n": 1})]], [("x", "a", '{"n":1}')], id="arguments as an object"),
        pytest.param(
            [[call(0, "x", "a", "{}")], [call(0, "y", "b", "{}")]],
            [("x", "a", "{}"), ("y", "b", "{}")],
            id="whole calls, all with index 0",
        ),
        pytest.param(
            [[call(0, None, "a", "{}"), call(0, None, "a", "{}")]],
            [("call_1", "a", "{}"), ("call_2", "a", "{}")],
            id="whole calls with index 0 and no id",
        ),
        pytest.param(
            [[call(None, None, "a", '{"n":1}'), call(None, None, "b", "{}")]],
            [("call_1", "a", '{"n":1}'), ("call_2", "b", "{}")],
            id="neither index nor id",
        ),
        pytest.param(
            [
                [call(None, None, "a", "{")],
                [call(arguments="}")],
                [call(None, None, "b", "{")],
                [call(arguments="}")],
            ],
            [("call_1", "a", "{}"), ("call_2", "b", "{}")],
            id="neither index nor id, in pieces",
        ),
        pytest.param(
            [
                [call(None, "x", "a", "{")],
                [call(None, "y", "b", "{")],
                [call(None, "x", arguments="}")],
                [call(None, "y", arguments="}")],
            ],
            [("x", "a", "{}"), ("y", "b", "{}")],
            id="by id, without index",
        ),
        pytest.param(
            [[call(0, "x", "a", "{")], [call(0, "y", arguments="}")]],
            [("x", "a", "{}")],
            id="a new id with each piece",
        ),
        pytest.param(
            [[call(0, "x", "a", "{")], [call(0, "x", "a", "}")]],
            [("x", "a", "{}")],
            id="the name with each piece",
        ),
        pytest.param(
            [[call(0, "x", "a"), call(1, "x", "b")]],
            [("x", "a", "{}"), ("call_1", "b", "{}")],
            id="one id twice",
        ),
    ],
)
def test_tool_calls_come_out_whole_and_in_order(pieces: list[Any], calls: list[tuple[str, str, str]]) -> None:
    deltas = play(*(chunk(calls=piece) for piece in pieces), END)
    assert deltas == [*(ToolCall(*one) for one in calls), Stop("tools")]


def test_an_id_that_the_history_has_is_not_given_again() -> None:
    taken = call_ids([HELLO, CALLED, Step("", (ToolCall("call_1", "c", "{}"),), (ToolResult("call_1", ""),))])
    pieces = chunk(calls=[call(0, "a", "x"), call(1, None, "y"), call(2, "new", "z")])
    ids = [delta.id for delta in play(pieces, END, taken=taken) if isinstance(delta, ToolCall)]
    assert ids == ["call_2", "call_3", "new"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["look", "wait"]), st.dictionaries(st.text(max_size=5), st.integers(), max_size=3)
        ),
        min_size=1,
        max_size=4,
    ),
    st.text(max_size=10),
    st.lists(st.integers(0, 3000), max_size=20),
)
def test_the_cuts_of_the_stream_never_matter(
    asked: list[tuple[str, dict[str, int]]], text: str, cuts: list[int]
) -> None:
    given_calls = [(name, json.dumps(arguments)) for name, arguments in asked]
    stream = b"".join(part for part in asks(*given_calls, text=text).parts if isinstance(part, bytes))
    places = [0, *sorted(cut % len(stream) for cut in cuts), len(stream)]
    deltas = play(*(stream[start:stop] for start, stop in itertools.pairwise(places)))
    assert deltas == play(stream)
    calls = [ToolCall(f"id-{index}", name, arguments) for index, (name, arguments) in enumerate(given_calls)]
    assert deltas == [*([Text(text)] if text else []), *calls, Usage(7, 3, 2), Stop("tools")]


@given(
    st.lists(st.sampled_from([0, 1, 2]), min_size=12, max_size=12),
    st.lists(st.text('{}ab:,1"é€', max_size=6), min_size=12, max_size=12),
)
def test_parallel_calls_may_be_mixed_in_any_way(order: list[int], pieces: list[str]) -> None:
    first = chunk(calls=[call(index, f"i{index}", f"t{index}", "") for index in range(3)])
    rest = [chunk(calls=[call(index, arguments=piece)]) for index, piece in zip(order, pieces, strict=True)]
    whole = [
        "".join(piece for at, piece in zip(order, pieces, strict=True) if at == index) for index in range(3)
    ]
    assert play(first, *rest, END) == [
        *(ToolCall(f"i{n}", f"t{n}", whole[n] or "{}") for n in range(3)),
        Stop("tools"),
    ]


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", "end"),
        ("tool_calls", "end"),
        ("length", "length"),
        ("content_filter", "refused"),
        ("eos", "end"),
    ],
)
def test_why_the_model_stopped_is_told(finish: str, reason: str) -> None:
    assert play(chunk("a"), chunk(finish=finish))[-1] == Stop(reason)


def test_stop_with_calls_means_tools() -> None:
    assert play(chunk(calls=[call(0, "x", "a")]), chunk(finish="stop"))[-1] == Stop("tools")


def test_half_a_call_is_dropped_where_the_length_ran_out() -> None:
    pieces = chunk(calls=[call(0, "x", "a", "{}"), call(1, "y", "b", '{"n": ')])
    assert play(pieces, chunk(finish="length")) == [ToolCall("x", "a", "{}"), Stop("length")]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([chunk("a"), chunk(finish="stop"), DONE], id="finish and DONE"),
        pytest.param([chunk("a"), chunk(finish="stop")], id="no DONE"),
        pytest.param([chunk("a"), DONE], id="no finish_reason"),
        pytest.param([chunk("a"), chunk(finish="stop").strip()], id="no last blank line"),
        pytest.param([chunk("a", finish="stop"), DONE], id="text and finish in one"),
        pytest.param([b": ping\n\n", chunk("a"), b": ping\n\n", chunk(finish="stop")], id="comments"),
        pytest.param(
            [b'data: {"choices": []}\n\n', b"data: {}\n\n", chunk("a"), DONE], id="chunks without a choice"
        ),
        pytest.param(
            [b'data: {"choices": null, "usage": null}\n\n', chunk("a"), DONE], id="null for nothing"
        ),
        pytest.param(
            [b'data: {"choices":[{"delta":{"refusal":"a"},"finish_reason":"stop"}]}\n\n'], id="refusal"
        ),
        pytest.param(
            [
                b'data: {"choices":[{"delta":{"content":[{"type":"thinking"},{"type":"text","text":"a"}]}}]}\n\n',
                DONE,
            ],
            id="content in parts",
        ),
        pytest.param(
            [chunk("a"), b'data: {"choices":[{"index":1,"delta":{"content":"z"}}]}\n\n', DONE],
            id="a second choice",
        ),
    ],
)
def test_an_answer_is_whole_where_its_server_says_so_in_any_way(pieces: list[bytes]) -> None:
    assert play(*pieces) == [Text("a"), Stop("end")]


def test_the_answer_of_a_server_that_does_not_stream_is_read_as_well() -> None:
    said = {
        "role": "assistant",
        "content": "a",
        "tool_calls": [{"id": "x", "type": "function", "function": {"name": "t", "arguments": "{}"}}],
    }
    whole = {
        "choices": [{"index": 0, "message": said, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    }
    assembly = Assembly()
    deltas = [*assembly.whole(json.dumps(whole).encode()), *assembly.end()]
    assert deltas == [Text("a"), ToolCall("x", "t", "{}"), Usage(1, 2), Stop("tools")]


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        pytest.param({"prompt_tokens": 5, "completion_tokens": 6}, Usage(5, 6), id="plain"),
        pytest.param(
            {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(5, 0, 4), id="cached"
        ),
        pytest.param({"prompt_tokens": 5, "prompt_tokens_details": None}, Usage(5), id="null"),
        pytest.param({"prompt_tokens": "many"}, Usage(), id="nonsense counts as 0"),
    ],
)
def test_usage_is_counted(usage: dict[str, Any], counted: Usage) -> None:
    assert play(chunk("a", finish="stop"), chunk(usage=usage), DONE)[1] == counted


def test_usage_that_is_repeated_counts_once() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 1}
    deltas = play(chunk("a", usage=usage), chunk(finish="stop", usage={**usage, "completion_tokens": 2}))
    assert deltas == [Text("a"), Usage(5, 2), Stop("end")]


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        pytest.param([chunk("a")], "broke off", id="no end"),
        pytest.param([], "broke off", id="nothing at all"),
        pytest.param([DONE], "broke off", id="DONE and nothing before"),
        pytest.param([chunk(calls=[call(0, "x", "a", "{")])], "broke off", id="in a tool call"),
        pytest.param([b"data: {oh\n\n"], "no JSON", id="no JSON"),
        pytest.param([b"data: [1]\n\n"], "unknown form", id="another JSON"),
        pytest.param([b'data: {"choices": 3}\n\n'], "unknown form", id="another form"),
        pytest.param(
            [chunk(calls=[call(0, "x", None, "{}")]), END], "without a name", id="a call without a name"
        ),
        pytest.param([b"data: " + b"x" * 5_000_000], "does not end", id="an endless chunk"),
        pytest.param([chunk("a"), chunk(finish="error")], "reported an error", id="finish_reason error"),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_it_and_may_be_tried_again(
    pieces: list[bytes], text: str
) -> None:
    with pytest.raises(ModelError, match=text) as raised:
        play(*pieces)
    assert raised.value.retryable


@pytest.mark.parametrize(
    ("event", "retryable"),
    [
        pytest.param('data: {"error": {"message": "boom", "code": 503}}', True, id="error object"),
        pytest.param('data: {"error": "boom"}', True, id="error text"),
        pytest.param('event: error\ndata: {"message": "boom"}', True, id="error event"),
        pytest.param(
            'data: {"object": "error", "message": "boom", "code": 500}', True, id="the chunk is the error"
        ),
        pytest.param('data: {"error": {"message": "boom", "code": 400}}', False, id="our own fault"),
        pytest.param(
            'data: {"error": {"message": "boom", "type": "invalid_request_error"}}',
            False,
            id="our own fault by type",
        ),
        pytest.param(
            'data: {"error": {"message": "boom", "code": "context_length_exceeded"}}', False, id="too long"
        ),
        pytest.param('data: {"error": {"message": "boom", "code": 429}}', True, id="too much"),
        pytest.param(
            'data: {"error": {"message": "boom", "code": "insufficient_quota"}}', False, id="no credit"
        ),
    ],
)
def test_an_error_inside_the_stream_is_an_error_whose_cause_says_what_the_server_said(
    event: str, retryable: bool
) -> None:
    assembly = Assembly()
    assert assembly.feed(chunk("a")) == [Text("a")]
    with pytest.raises(ModelError) as raised:
        assembly.feed(event.encode() + b"\n\n")
    assert raised.value.retryable is retryable
    assert "boom" not in str(raised.value)
    assert "boom" in str(raised.value.__cause__)


def test_pictures_are_parts_behind_the_text_and_what_is_not_shown_stands_in_the_text_only() -> None:
    png, pdf = Attachment("a.png", "image/png", 3, "1"), Attachment("b.pdf", "application/pdf", 3, "2")
    both = Said(SaidKind.MESSAGE, "look", attachments=(png, pdf))
    (with_picture,) = messages("", [both], {png: "QUJD"})
    text, picture = with_picture["content"]
    assert text["text"].startswith("look\n[attached: ")
    assert picture == {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    assert messages("", [both])[0]["content"] == text["text"]
