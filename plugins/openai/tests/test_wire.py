"""The chat completions API as pure functions: requests to JSON, streams to deltas."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.messages import Attachment, Item, Said, SaidKind, Step, ToolCall, ToolResult
from hermes_core.models import Delta, Request, Stop, Text, ToolSpec, Usage
from hermes_core.testing.model_server import DONE, asks, chunk
from hermes_httpmodel.assembly_contract import AssemblyContract, Broken, Pieces
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


def ended(finish: str) -> tuple[bytes, ...]:
    return chunk("a"), chunk(finish=finish)


def counting(**usage: Any) -> tuple[bytes, ...]:
    return chunk("a", finish="stop"), chunk(usage=usage), DONE


def broken(event: str) -> bytes:
    return event.encode() + b"\n\n"


class TestAssembly(AssemblyContract):
    shows = (chunk("a"),)
    spoken = (Text("a"), Stop("end"))
    ways: ClassVar[Mapping[str, Pieces]] = {
        "finish and DONE": [chunk("a"), chunk(finish="stop"), DONE],
        "no DONE": [chunk("a"), chunk(finish="stop")],
        "no finish_reason": [chunk("a"), DONE],
        "no last blank line": [chunk("a"), chunk(finish="stop").strip()],
        "text and finish in one": [chunk("a", finish="stop"), DONE],
        "comments": [b": ping\n\n", chunk("a"), b": ping\n\n", chunk(finish="stop")],
        "chunks without a choice": [b'data: {"choices": []}\n\n', b"data: {}\n\n", chunk("a"), DONE],
        "null for nothing": [b'data: {"choices": null, "usage": null}\n\n', chunk("a"), DONE],
        "refusal": [b'data: {"choices":[{"delta":{"refusal":"a"},"finish_reason":"stop"}]}\n\n'],
        "content in parts": [
            b'data: {"choices":[{"delta":{"content":[{"type":"thinking"},{"type":"text","text":"a"}]}}]}\n\n',
            DONE,
        ],
        "a second choice": [
            chunk("a"),
            b'data: {"choices":[{"index":1,"delta":{"content":"z"}}]}\n\n',
            DONE,
        ],
    }
    unreadable: ClassVar[Mapping[str, tuple[Pieces, str]]] = {
        "no end": ([chunk("a")], "broke off"),
        "DONE and nothing before": ([DONE], "broke off"),
        "in a tool call": ([chunk(calls=[call(0, "x", "a", "{")])], "broke off"),
        "another form": ([b'data: {"choices": 3}\n\n'], "unknown form"),
        "a call without a name": ([chunk(calls=[call(0, "x", None, "{}")]), END], "without a name"),
        "finish_reason error": ([chunk("a"), chunk(finish="error")], "reported an error"),
    }
    reasons: ClassVar[Mapping[str, tuple[Pieces, str]]] = {
        "stop": (ended("stop"), "end"),
        "tool_calls": (ended("tool_calls"), "end"),
        "length": (ended("length"), "length"),
        "content_filter": (ended("content_filter"), "refused"),
        "eos": (ended("eos"), "end"),
    }
    usages: ClassVar[Mapping[str, tuple[Pieces, Usage]]] = {
        "plain": (counting(prompt_tokens=5, completion_tokens=6), Usage(5, 6)),
        "cached": (counting(prompt_tokens=5, prompt_tokens_details={"cached_tokens": 4}), Usage(5, 0, 4)),
        "null": (counting(prompt_tokens=5, prompt_tokens_details=None), Usage(5)),
        "nonsense counts as 0": (counting(prompt_tokens="many"), Usage()),
    }
    errors: ClassVar[Mapping[str, Broken]] = {
        "error object": (
            broken('data: {"error": {"message": "boom", "code": 503}}'),
            "reported an error",
            True,
        ),
        "error text": (broken('data: {"error": "boom"}'), "reported an error", True),
        "error event": (broken('event: error\ndata: {"message": "boom"}'), "reported an error", True),
        "the chunk is the error": (
            broken('data: {"object": "error", "message": "boom", "code": 500}'),
            "reported an error",
            True,
        ),
        "our own fault": (
            broken('data: {"error": {"message": "boom", "code": 400}}'),
            "reported an error",
            False,
        ),
        "our own fault by type": (
            broken('data: {"error": {"message": "boom", "type": "invalid_request_error"}}'),
            "reported an error",
            False,
        ),
        "too long": (
            broken('data: {"error": {"message": "boom", "code": "context_length_exceeded"}}'),
            "too long for the model",
            False,
        ),
        "too much": (broken('data: {"error": {"message": "boom", "code": 429}}'), "reported an error", True),
        "no credit": (
            broken('data: {"error": {"message": "boom", "code": "insufficient_quota"}}'),
            "reported an error",
            False,
        ),
    }

    def new(self) -> Assembly:
        return Assembly()


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


def test_stop_with_calls_means_tools() -> None:
    assert play(chunk(calls=[call(0, "x", "a")]), chunk(finish="stop"))[-1] == Stop("tools")


def test_half_a_call_is_dropped_where_the_length_ran_out() -> None:
    pieces = chunk(calls=[call(0, "x", "a", "{}"), call(1, "y", "b", '{"n": ')])
    assert play(pieces, chunk(finish="length")) == [ToolCall("x", "a", "{}"), Stop("length")]


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


def test_usage_that_is_repeated_counts_once() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 1}
    deltas = play(chunk("a", usage=usage), chunk(finish="stop", usage={**usage, "completion_tokens": 2}))
    assert deltas == [Text("a"), Usage(5, 2), Stop("end")]


def test_pictures_are_parts_behind_the_text_and_what_is_not_shown_stands_in_the_text_only() -> None:
    png, pdf = Attachment("a.png", "image/png", 3, "1"), Attachment("b.pdf", "application/pdf", 3, "2")
    both = Said(SaidKind.MESSAGE, "look", attachments=(png, pdf))
    (with_picture,) = messages("", [both], {png: "QUJD"})
    text, picture = with_picture["content"]
    assert text["text"].startswith("look\n[attached: ")
    assert picture == {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    assert messages("", [both])[0]["content"] == text["text"]
