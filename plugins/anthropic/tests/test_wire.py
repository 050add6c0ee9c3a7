"""The Messages API as pure functions: requests to JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_anthropic.thoughts import Thought, keep
from hermes_anthropic.wire import body, messages
from hermes_core.history import check
from hermes_core.messages import Attachment, Item, Said, SaidKind, Step, ToolCall, ToolResult
from hermes_core.models import Request, ToolSpec

HELLO = Said(SaidKind.MESSAGE, "hello")
LOOK = Step(
    "I look.",
    (ToolCall("a", "look", '{"x": 1}'), ToolCall("b", "wait", "{}")),
    (ToolResult("a", "1"), ToolResult("b", "no", error=True)),
)
TOOLS = (ToolSpec("b", "second", {"type": "object"}), ToolSpec("a", "first", {"type": "object"}))
MARK = {"cache_control": {"type": "ephemeral"}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}


def text(of: str) -> dict[str, Any]:
    return {"type": "text", "text": of}


def sent(request: Request, thinking: dict[str, Any] | None = None) -> dict[str, Any]:
    """The body of a request, read again."""
    read: dict[str, Any] = json.loads(body(request, "m", 100, thinking))
    return read


def unmarked(value: Any) -> Any:
    """`value` without cache marks."""
    if isinstance(value, dict):
        return {key: unmarked(one) for key, one in value.items() if key != "cache_control"}
    return [unmarked(one) for one in value] if isinstance(value, list) else value


def told(*items: Item, model: str = "m") -> list[dict[str, Any]]:
    """The messages of a history, without marks."""
    read: list[dict[str, Any]] = unmarked(json.loads(body(Request("", items), model, 100))["messages"])
    return read


# ---- the form


def test_a_request_is_streamed_and_has_its_tools_sorted_and_its_system_prompt_beside() -> None:
    assert sent(Request("be kind", (HELLO,), TOOLS)) == {
        "model": "m",
        "max_tokens": 100,
        "stream": True,
        "tools": [
            {"name": "a", "description": "first", "input_schema": {"type": "object"}},
            {"name": "b", "description": "second", "input_schema": {"type": "object"}, **MARK},
        ],
        "system": [{**text("be kind"), **MARK}],
        "messages": [{"role": "user", "content": [{**text("hello"), **MARK}]}],
    }


@pytest.mark.parametrize("system", ["", " \n"])
def test_without_tools_and_system_prompt_neither_is_sent(system: str) -> None:
    assert set(sent(Request(system, (HELLO,)))) == {"model", "max_tokens", "stream", "messages"}


def test_a_step_becomes_text_and_calls_and_a_message_that_begins_with_the_results() -> None:
    steer = Said(SaidKind.STEER, "left")
    asked, answered, followed, last = told(HELLO, LOOK, steer, HELLO, Step("done"), HELLO)[:4]
    assert asked == {"role": "user", "content": [text("hello")]}
    assert answered == {
        "role": "assistant",
        "content": [
            text("I look."),
            {"type": "tool_use", "id": "a", "name": "look", "input": {"x": 1}},
            {"type": "tool_use", "id": "b", "name": "wait", "input": {}},
        ],
    }
    assert followed["role"] == "user"
    assert followed["content"][:2] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "1"},
        {"type": "tool_result", "tool_use_id": "b", "content": "no", "is_error": True},
    ]
    assert ["left" in followed["content"][2]["text"], followed["content"][3]] == [True, text("hello")]
    assert last == {"role": "assistant", "content": [text("done")]}


def test_texts_that_follow_one_another_are_blocks_of_one_message() -> None:
    """A6, S1: each keeps its own label."""
    kinds = [SaidKind.NOTE, SaidKind.STEER, SaidKind.MESSAGE]
    (message,) = told(*(Said(kind, "left") for kind in kinds))
    assert message["role"] == "user"
    assert len({block["text"] for block in message["content"]}) == len(kinds)


def test_an_attachment_is_named_with_its_type() -> None:
    (message,) = told(Said(SaidKind.MESSAGE, "see", attachments=(Attachment("a.png", "image/png"),)))
    assert "[attached: a.png, image/png]" in message["content"][0]["text"]


@pytest.mark.parametrize("empty", ["", " ", "\n\t"])
def test_text_of_white_space_only_is_never_sent(empty: str) -> None:
    step = Step(empty, (ToolCall("a", "look", "{}"),), (ToolResult("a", empty),))
    first, second, third, fourth = told(Said(SaidKind.MESSAGE, empty), step, Step(empty), Step("a"), HELLO)[
        :4
    ]
    assert first["content"][0]["text"].strip()
    assert [block["type"] for block in second["content"]] == ["tool_use"]
    assert third["content"][0]["content"].strip()
    assert fourth == {"role": "assistant", "content": [text("a")]}


def test_a_step_that_said_nothing_leaves_no_message() -> None:
    assert told(HELLO, Step(""), HELLO) == [{"role": "user", "content": [text("hello"), text("hello")]}]


def test_steps_that_follow_one_another_are_one_message() -> None:
    step = Step("b", (ToolCall("a", "look", "{}"),), (ToolResult("a", "1"),))
    assert [block["type"] for block in told(HELLO, Step("a"), step)[1]["content"]] == [
        "text",
        "text",
        "tool_use",
    ]


@pytest.mark.parametrize("items", [(), (HELLO, Step("a"))])
def test_a_request_always_ends_with_the_user(items: tuple[Item, ...]) -> None:
    """Newer models refuse to go on with an answer that is there already."""
    last = told(*items)[-1]
    assert last["role"] == "user"
    assert last["content"][0]["text"].strip()


@pytest.mark.parametrize(
    ("came", "goes"),
    [
        pytest.param('{"x": 1}', '{"x": 1}', id="an object stays as it is"),
        pytest.param(
            '{"b":1e99,"a": 123456789012345678901}', '{"b":1e99,"a": 123456789012345678901}', id="exact"
        ),
        pytest.param('{"x": ', "{}", id="half an object"),
        pytest.param("[1]", "{}", id="a list"),
        pytest.param("look at x", "{}", id="no JSON"),
        pytest.param("", "{}", id="nothing"),
        pytest.param('{"x": "\ud800"}', "{}", id="half a character"),
        pytest.param('{"x":' * 100_000, "{}", id="deeper than can be read"),
    ],
)
def test_arguments_that_are_no_object_are_sent_as_an_empty_one(came: str, goes: str) -> None:
    step = Step("", (ToolCall("a", "look", came),), (ToolResult("a", "no"),))
    assert b'"input":' + goes.encode() + b"}" in body(Request("", (HELLO, step)), "m", 100)


@pytest.mark.parametrize(
    ("id_", "name", "id_goes", "name_goes"),
    [
        pytest.param("toolu_01-x", "look", "toolu_01-x", "look", id="as they are"),
        pytest.param("functions.look:0", "my.look é", "toolu_", "my_look__", id="characters"),
        pytest.param("", "", "toolu_", "_", id="empty"),
        pytest.param("\ud800", "x" * 99, "toolu_", "x" * 64, id="half a character, and too long"),
    ],
)
def test_ids_and_names_of_other_providers_are_sent_in_a_form_that_is_taken(
    id_: str, name: str, id_goes: str, name_goes: str
) -> None:
    step = Step("", (ToolCall(id_, name, "{}"),), (ToolResult(id_, "1"),))
    _, asked, answered = told(HELLO, step)
    call, result = asked["content"][0], answered["content"][0]
    assert call["name"] == name_goes
    assert call["id"].startswith(id_goes)
    assert result["tool_use_id"] == call["id"]


def test_half_a_character_does_not_spoil_the_request() -> None:
    (message,) = told(Said(SaidKind.MESSAGE, "a\ud83db"), Said(SaidKind.MESSAGE, "\ud83d\ude00"))
    assert message["content"] == [text("a\ufffdb"), text("😀")]


# ---- thinking


def test_thinking_blocks_come_first_and_unchanged() -> None:
    step = Step("a", LOOK.calls, LOOK.results, keep("m", [Thought(THOUGHT)]))
    assert [block["type"] for block in told(HELLO, step)[1]["content"]] == [
        "thinking",
        "text",
        "tool_use",
        "tool_use",
    ]
    assert told(HELLO, step)[1]["content"][0] == THOUGHT


def test_each_thinking_block_stands_where_it_stood() -> None:
    hidden = {"type": "redacted_thinking", "data": "xyz"}
    thoughts = [Thought(THOUGHT), Thought(hidden), Thought(THOUGHT, 4), Thought(hidden, 8, 1)]
    step = Step("one two!", LOOK.calls, LOOK.results, keep("m", thoughts))
    assert told(HELLO, step)[1]["content"] == [
        THOUGHT,
        hidden,
        text("one "),
        THOUGHT,
        text("two!"),
        {"type": "tool_use", "id": "a", "name": "look", "input": {"x": 1}},
        hidden,
        {"type": "tool_use", "id": "b", "name": "wait", "input": {}},
    ]


def test_a_thinking_block_is_never_the_last_of_a_message() -> None:
    """The call behind it was dropped by an interrupt, or nothing came of the thought."""
    dropped = Step(
        "", LOOK.calls[:1], LOOK.results[:1], keep("m", [Thought(THOUGHT), Thought(THOUGHT, 0, 1)])
    )
    thoughts = told(HELLO, dropped, Step("", opaque=keep("m", [Thought(THOUGHT)])), HELLO)
    assert [one["role"] for one in thoughts] == ["user", "assistant", "user"]
    assert [block["type"] for block in thoughts[1]["content"]] == ["thinking", "tool_use"]


@pytest.mark.parametrize(
    "opaque",
    [
        pytest.param(keep("other", [Thought(THOUGHT)]), id="another model"),
        pytest.param({"openai": {"x": 1}}, id="another provider"),
        pytest.param({"anthropic": [1]}, id="another form"),
        pytest.param(None, id="none"),
    ],
)
def test_only_the_model_that_thought_sees_its_thoughts(opaque: dict[str, Any] | None) -> None:
    assert told(HELLO, Step("a", opaque=opaque))[1]["content"] == [text("a")]


BUDGET = {"type": "enabled", "budget_tokens": 50}
ADAPTIVE = {"type": "adaptive"}
THOUGHTFUL = Step("", LOOK.calls, LOOK.results, keep("m", [Thought(THOUGHT)]))


@pytest.mark.parametrize(
    ("thinking", "items", "asked"),
    [
        pytest.param(None, (HELLO,), False, id="off"),
        pytest.param(BUDGET, (HELLO,), True, id="a budget"),
        pytest.param(BUDGET, (HELLO, THOUGHTFUL), True, id="a budget, after a step with a thought"),
        pytest.param(BUDGET, (HELLO, LOOK), False, id="a budget, after a step without a thought"),
        pytest.param(BUDGET, (HELLO, LOOK, Step("a"), HELLO), True, id="a budget, in the next turn"),
        pytest.param(ADAPTIVE, (HELLO, LOOK), True, id="adaptive"),
    ],
)
def test_thinking_is_asked_for_where_the_api_allows_it(
    thinking: dict[str, Any] | None, items: tuple[Item, ...], asked: bool
) -> None:
    assert sent(Request("", items), thinking).get("thinking") == (thinking if asked else None)


# ---- caching


def marks(request: Request) -> list[str]:
    """Where the marks stand: tools, system, and the texts of marked blocks."""
    read = sent(request)
    places = [name for name in ("tools", "system") for one in read.get(name, []) if "cache_control" in one]
    blocks = [block for one in read["messages"] for block in one["content"] if "cache_control" in block]
    return places + [block.get("text") or block["content"] for block in blocks]


def test_the_ends_of_tools_system_prompt_and_the_last_two_messages_of_the_user_are_marked() -> None:
    older, newer = Said(SaidKind.MESSAGE, "older"), Said(SaidKind.MESSAGE, "newer")
    assert marks(Request("s", (HELLO, Step("a"), older, Step("b"), newer), TOOLS)) == [
        "tools",
        "system",
        "older",
        "newer",
    ]
    assert marks(Request("", (HELLO, older, LOOK))) == ["older", "no"]


def test_the_last_mark_of_a_call_is_the_last_but_one_of_the_next() -> None:
    """So the next call finds what this one stored."""
    items: tuple[Item, ...] = (HELLO,)
    for more in ((LOOK,), (Step("a"), Said(SaidKind.MESSAGE, "next"))):
        now, then = marks(Request("s", items, TOOLS)), marks(Request("s", (*items, *more), TOOLS))
        assert then[-2] == now[-1]
        items = (*items, *more)


# ---- any history

_TEXTS = st.one_of(st.text(max_size=6), st.sampled_from(["", " ", "a"]))
_SAID = st.builds(Said, st.sampled_from(SaidKind), _TEXTS, _TEXTS)
_ARGUMENTS = st.one_of(_TEXTS, st.dictionaries(_TEXTS, st.integers(), max_size=2).map(json.dumps))


@st.composite
def _steps(draw: st.DrawFn) -> Step:
    calls = tuple(
        ToolCall(f"{draw(st.sampled_from(['', 'a.b:']))}{draw(st.uuids())}", draw(_TEXTS), draw(_ARGUMENTS))
        for _ in range(draw(st.integers(0, 3)))
    )
    places = st.tuples(st.integers(0, 6), st.integers(0, 3))
    thoughts = [Thought(THOUGHT, *place) for place in sorted(draw(st.lists(places, max_size=2)))]
    opaque = draw(st.sampled_from([None, keep("m", thoughts), keep("other", thoughts)]))
    results = tuple(ToolResult(call.id, draw(_TEXTS), draw(st.booleans())) for call in calls)
    return Step(draw(_TEXTS), calls, results, opaque)


_ITEMS = st.lists(st.one_of(_SAID, _SAID, _steps()), max_size=6)


@given(_SAID, _ITEMS)
def test_whatever_happened_the_messages_are_valid(first: Said, rest: list[Item]) -> None:
    """I6: roles alternate, each call has its one result at the head of the next message, nothing is empty."""
    items = (first, *rest)
    check(items)
    read = json.loads(body(Request("s", items, TOOLS), "m", 100))
    roles = [one["role"] for one in read["messages"]]
    assert roles == [("user", "assistant")[index % 2] for index in range(len(roles))]
    assert roles[-1] == "user"
    waiting: list[str] = []
    calls = 0
    for one in read["messages"]:
        kinds = [block["type"] for block in one["content"]]
        results = [block["tool_use_id"] for block in one["content"] if block["type"] == "tool_result"]
        assert results == waiting
        assert kinds[: len(results)] == ["tool_result"] * len(results)
        assert kinds
        assert kinds[-1] != "thinking"
        waiting = [block["id"] for block in one["content"] if block["type"] == "tool_use"]
        calls += len(waiting)
        for block in one["content"]:
            assert str(block.get("text", block.get("content", "x"))).strip()
            assert isinstance(block.get("input", {}), dict)
    assert not waiting
    assert calls == sum(len(item.calls) for item in items if isinstance(item, Step))
    assert body(Request("s", items, TOOLS), "m", 100).count(b'"cache_control"') <= 4


@given(_SAID, _ITEMS, _SAID, _ITEMS)
def test_what_was_sent_before_is_sent_again_byte_by_byte_but_for_the_marks(
    first: Said, past: list[Item], now: Said, more: list[Item]
) -> None:
    """The cache of the provider lives from it."""
    before, after = [first, *past, now], [first, *past, now, *more]
    head = len("]}]")  # a block or a message may follow
    sent_before, sent_after = (
        json.dumps(unmarked(json.loads(body(Request("", tuple(items)), "m", 100))["messages"]))
        for items in (before, after)
    )
    assert sent_after.startswith(sent_before[:-head])
    assert body(Request("s", tuple(before), TOOLS), "m", 100) == body(
        Request("s", tuple(before), TOOLS), "m", 100
    )


def test_making_a_request_leaves_the_history_as_it_was() -> None:
    items = (HELLO, THOUGHTFUL, HELLO)
    assert body(Request("", items), "m", 100) == body(Request("", items), "m", 100)
    assert THOUGHTFUL.opaque == keep("m", [Thought(dict(THOUGHT))])
    assert messages(items, "m") == messages(items, "m")


def test_pictures_stand_before_the_text_about_them() -> None:
    png = Attachment("a.png", "image/png", 3, "1")
    (message,) = messages([Said(SaidKind.MESSAGE, "look", attachments=(png,))], "m", {png: "QUJD"})
    picture, words = message["content"]
    assert picture == {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"},
    }
    assert words["text"].startswith("look\n[attached: ")
