"""The stream of the Messages API to deltas, whatever its form and its cuts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_anthropic.assembly import Assembly
from hermes_anthropic.thoughts import Thought, keep
from hermes_core.errors import ModelError
from hermes_core.messages import ToolCall
from hermes_core.models import Delta, Opaque, Stop, Text, Usage
from hermes_core.testing.model_server import blocks, event
from hermes_httpmodel.assembly_contract import AssemblyContract, Broken, Pieces

THOUGHT = {"type": "thinking", "thinking": "hm, well", "signature": "sig"}
HIDDEN = {"type": "redacted_thinking", "data": "xyz"}
COUNTED = Usage(7, 3, 2)


def said(of: str) -> dict[str, Any]:
    return {"type": "text", "text": of}


def call(id_: str = "x", name: str = "look", arguments: str = "{}") -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": name, "input": arguments}


def play(*pieces: bytes, taken: frozenset[str] = frozenset()) -> list[Delta]:
    """The deltas of a whole stream."""
    assembly = Assembly("m", taken)
    deltas = [delta for piece in pieces for delta in assembly.feed(piece)]
    return [*deltas, *assembly.end()]


def test_text_comes_out_piece_by_piece_and_the_end_with_the_usage() -> None:
    assembly = Assembly("m")
    given_: list[list[Delta]] = [assembly.feed(piece) for piece in blocks(said("Good day"))]
    assert [one for one in given_ if one] == [[Text("Good")], [Text(" day")]]
    assert assembly.finished
    assert assembly.end() == [COUNTED, Stop("end")]


def test_the_answer_is_finished_with_its_reason_and_not_before() -> None:
    *most, reason, _ = blocks(said("a"))
    assembly = Assembly("m")
    for piece in most:
        assembly.feed(piece)
    before = assembly.finished
    assembly.feed(reason)
    assert (before, assembly.finished) == (False, True)
    assert assembly.end()[-1] == Stop("end")


def test_tool_calls_come_whole_and_in_order() -> None:
    answer = blocks(said("So."), call("x", "look", '{"n": 1}'), call("y", "wait", ""), stop="tool_use")
    calls = [ToolCall("x", "look", '{"n": 1}'), ToolCall("y", "wait", "{}")]
    assert play(*answer) == [Text("S"), Text("o."), *calls, COUNTED, Stop("tools")]


def test_blocks_may_be_mixed() -> None:
    start = [
        event(
            "content_block_start",
            index=n,
            content_block={"type": "tool_use", "id": f"i{n}", "name": f"t{n}", "input": {}},
        )
        for n in (1, 0)
    ]
    pieces = [(0, '{"a"'), (1, "{"), (0, ":1}"), (1, "}")]
    deltas = [
        event("content_block_delta", index=n, delta={"type": "input_json_delta", "partial_json": piece})
        for n, piece in pieces
    ]
    end = event("message_delta", delta={"stop_reason": "tool_use"})
    assert play(*start, *deltas, end) == [
        ToolCall("i0", "t0", '{"a":1}'),
        ToolCall("i1", "t1", "{}"),
        Stop("tools"),
    ]


def test_a_call_that_comes_whole_at_once_is_taken() -> None:
    start = event("content_block_start", index=0, content_block={**call(), "input": {"n": 1}})
    assert play(start, event("message_delta", delta={"stop_reason": "tool_use"}))[0] == ToolCall(
        "x", "look", '{"n":1}'
    )


def test_an_id_that_is_missing_or_was_there_before_is_replaced() -> None:
    answer = blocks(call("a"), call(""), call("new"), stop="tool_use")
    ids = [one.id for one in play(*answer, taken=frozenset({"a", "call_1"})) if isinstance(one, ToolCall)]
    assert ids == ["call_2", "call_3", "new"]


def test_thinking_is_kept_unchanged_with_its_place_and_shown_to_nobody() -> None:
    answer = blocks(THOUGHT, HIDDEN, said("ab"), THOUGHT, call(), HIDDEN, call("y"), stop="tool_use")
    thoughts = [Thought(THOUGHT), Thought(HIDDEN), Thought(THOUGHT, 2), Thought(HIDDEN, 2, 1)]
    calls = [ToolCall("x", "look", "{}"), ToolCall("y", "look", "{}")]
    assert play(*answer) == [
        Text("a"),
        Text("b"),
        *calls,
        Opaque(keep("m", thoughts)),
        COUNTED,
        Stop("tools"),
    ]


def test_thinking_of_which_only_the_signature_is_told_is_kept() -> None:
    silent = {"type": "thinking", "thinking": "", "signature": "sig"}
    assert Opaque(keep("m", [Thought(silent)])) in play(*blocks(silent, said("a")))


def test_a_thought_that_was_cut_at_the_limit_is_dropped() -> None:
    """It has no signature, so the next call would be refused."""
    cut = {"type": "thinking", "thinking": "hm", "signature": ""}
    assert play(*blocks(THOUGHT, cut, stop="max_tokens")) == [
        Opaque(keep("m", [Thought(THOUGHT)])),
        COUNTED,
        Stop("length"),
    ]


_BLOCKS = st.lists(
    st.one_of(
        st.builds(said, st.text(max_size=8)),
        st.builds(
            lambda name, arguments: call("", name, json.dumps(arguments, ensure_ascii=False)),
            st.sampled_from(["look", "wait"]),
            st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
        ),
        st.builds(lambda text: {**THOUGHT, "thinking": text}, st.text(max_size=8)),
        st.just(HIDDEN),
    ),
    min_size=1,
    max_size=4,
)


@given(_BLOCKS, st.lists(st.integers(0, 5000), max_size=20))
def test_the_cuts_of_the_stream_never_matter(content: list[dict[str, Any]], cuts: list[int]) -> None:
    stream = b"".join(blocks(*content))
    places = [0, *sorted(cut % len(stream) for cut in cuts), len(stream)]
    deltas = play(*(stream[start:stop] for start, stop in itertools.pairwise(places)))
    assert deltas == play(stream)
    assert "".join(one.text for one in deltas if isinstance(one, Text)) == "".join(
        block["text"] for block in content if block["type"] == "text"
    )
    assert [(one.name, one.arguments) for one in deltas if isinstance(one, ToolCall)] == [
        (block["name"], block["input"]) for block in content if block["type"] == "tool_use"
    ]
    kept = [one["block"] for d in deltas if isinstance(d, Opaque) for one in d.data["anthropic"]["thoughts"]]
    assert kept == [block for block in content if "thinking" in block["type"]]


@pytest.mark.parametrize("reason", ["max_tokens", "refusal"])
def test_half_a_call_is_dropped_where_the_answer_was_stopped(reason: str) -> None:
    deltas = play(*blocks(call("x"), call("y", "look", '{"n": '), call("z", "look", ""), stop=reason))
    assert [one.id for one in deltas if isinstance(one, ToolCall)] == ["x"]


START = event("message_start", message={"usage": {"input_tokens": 5, "output_tokens": 1}})
BEGIN = event("content_block_start", index=0, content_block=said(""))
SAY = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "a"})
REASON = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 6})
END = event("message_stop")


def ended(reason: str) -> tuple[bytes, ...]:
    return blocks(said("a"), stop=reason)


def counting(**usage: Any) -> tuple[bytes, ...]:
    return event("message_start", message={"usage": usage}), SAY, REASON.replace(b"output_tokens", b"x")


def broken(error: Any) -> bytes:
    return event("error", error=error)


class TestAssembly(AssemblyContract):
    shows = (SAY,)
    spoken = (Text("a"), Usage(5, 6), Stop("end"))
    ways: ClassVar[Mapping[str, Pieces]] = {
        "all of it": [START, BEGIN, SAY, REASON, END],
        "no message_stop": [START, BEGIN, SAY, REASON],
        "no last blank line": [START, BEGIN, SAY, REASON.strip()],
        "a block that was not begun": [START, SAY, REASON, END],
        "pings": [START, event("ping"), BEGIN, b": hi\n\n", SAY, event("ping"), REASON],
        "an unknown event": [START, event("news", index=None, content="x"), BEGIN, SAY, REASON],
        "unknown blocks and deltas": [
            START,
            event("content_block_start", index=1, content_block={"type": "server_tool_use", "id": "s"}),
            event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": "{"}),
            event("content_block_delta", index=1, delta={"type": "citations_delta", "citation": {}}),
            event("content_block_delta", index=9, delta={"type": "signature_delta", "signature": "s"}),
            SAY,
            REASON,
        ],
        "no event name": [START.replace(b"event: message_start\n", b""), BEGIN, SAY, REASON],
        "text at once": [START, event("content_block_start", index=0, content_block=said("a")), REASON],
    }
    unreadable: ClassVar[Mapping[str, tuple[Pieces, str]]] = {
        "no end": ([START, BEGIN, SAY], "broke off"),
        "an end and nothing before": ([START, END], "broke off"),
        "in a tool call": (blocks(call(), stop=None), "broke off"),
        "another form": ([b'data: {"type": 3}\n\n'], "unknown form"),
        "a call without a name": (blocks(call(name="")), "without a name"),
    }
    reasons: ClassVar[Mapping[str, tuple[Pieces, str]]] = {
        "end_turn": (ended("end_turn"), "end"),
        "stop_sequence": (ended("stop_sequence"), "end"),
        "tool_use": (ended("tool_use"), "end"),
        "max_tokens": (ended("max_tokens"), "length"),
        "model_context_window_exceeded": (ended("model_context_window_exceeded"), "length"),
        "pause_turn": (ended("pause_turn"), "length"),
        "refusal": (ended("refusal"), "refused"),
        "something_new": (ended("something_new"), "end"),
    }
    usages: ClassVar[Mapping[str, tuple[Pieces, Usage]]] = {
        "plain": (counting(input_tokens=5, output_tokens=6), Usage(5, 6)),
        "cached": (counting(input_tokens=5, cache_read_input_tokens=4), Usage(9, 0, 4)),
        "stored": (counting(input_tokens=5, cache_creation_input_tokens=4), Usage(9)),
        "null": (counting(input_tokens=5, cache_read_input_tokens=None), Usage(5)),
    }
    errors: ClassVar[Mapping[str, Broken]] = {
        "overloaded": (broken({"type": "overloaded_error", "message": "boom"}), "too much to do", True),
        "too often": (broken({"type": "rate_limit_error", "message": "boom"}), "too much to do", True),
        "its own": (broken({"type": "api_error", "message": "boom"}), "reported an error", True),
        "ours": (broken({"type": "invalid_request_error", "message": "boom"}), "reported", False),
        "the key": (broken({"type": "authentication_error", "message": "boom"}), "reported", False),
        "too long": (
            broken({"type": "invalid_request_error", "message": "boom: prompt is too long: 9 tokens"}),
            "too long for the model",
            False,
        ),
        "a text": (broken("boom"), "reported an error", True),
    }

    def new(self) -> Assembly:
        return Assembly("m")


def test_an_end_without_a_reason_counts_if_there_is_an_answer() -> None:
    assert play(BEGIN, SAY, END) == [Text("a"), Stop("end")]


def test_the_answer_of_a_server_that_does_not_stream_is_read_as_well() -> None:
    content = [THOUGHT, said("a"), {**call(), "input": {"n": 1}}]
    usage = {"input_tokens": 1, "output_tokens": 2}
    whole = {
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": "tool_use",
        "usage": usage,
    }
    assembly = Assembly("m")
    deltas = [*assembly.whole(json.dumps(whole).encode()), *assembly.end()]
    assert deltas == [
        Text("a"),
        ToolCall("x", "look", '{"n":1}'),
        Opaque(keep("m", [Thought(THOUGHT)])),
        Usage(1, 2),
        Stop("tools"),
    ]


def test_an_error_without_an_error_object_is_one_too() -> None:
    with pytest.raises(ModelError, match="reported an error"):
        Assembly("m").feed(event("error", message="boom"))
