"""The demo model: the same request gets the same answer, and each plain request shows its feature."""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.config import Config, ModelSettings
from hermes_core.errors import ToolError
from hermes_core.history import check
from hermes_core.messages import Attachment, Item, Said, SaidKind, Step, ToolCall, ToolResult
from hermes_core.models import Delta, Request, Stop, Text, ToolSpec, Usage
from hermes_core.tools import Kind, Program
from hermes_demo.answer import answer
from hermes_demo.model import DemoModel
from hermes_demo.plugin import DemoPlugin, DemoSettings
from hermes_demo.requests import asked
from hermes_demo.tools import demo_clock, demo_sleep

OWN = ("demo_clock", "demo_sleep")
ALL = (*OWN, "run_command", "start_command")


def said(text: str, kind: SaidKind = SaidKind.MESSAGE) -> Said:
    return Said(kind, text)


def request(*items: Item, tools: tuple[str, ...] = OWN) -> Request:
    return Request("", items, tuple(ToolSpec(name, "", {}) for name in tools))


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, Text))


def calls_of(deltas: list[Delta]) -> list[ToolCall]:
    return [delta for delta in deltas if isinstance(delta, ToolCall)]


def told(*items: Item, tools: tuple[str, ...] = OWN) -> str:
    """The text of the answer."""
    return text_of(answer(request(*items, tools=tools)))


def called(*items: Item, tools: tuple[str, ...] = OWN) -> list[tuple[str, str]]:
    """Names and arguments of the calls of the answer."""
    return [(call.name, call.arguments) for call in calls_of(answer(request(*items, tools=tools)))]


def done(*calls: tuple[str, str, str]) -> Step:
    """A finished step: name, arguments and result of each call."""
    made = tuple(ToolCall(f"demo_{n}", name, arguments) for n, (name, arguments, _) in enumerate(calls, 1))
    return Step("One moment.", made, tuple(ToolResult(f"demo_{n}", one[2]) for n, one in enumerate(calls, 1)))


# ---- talk


def test_it_says_that_it_is_a_stand_in_and_how_to_set_a_real_model() -> None:
    text = told(said("hello"))
    for part in (
        "demo model, a stand-in",
        "“hello”",
        "hermes.toml",
        "[model]",
        "provider",
        "base_url",
        "`/help`",
    ):
        assert part in text


def test_it_remembers_how_many_messages_there_were_and_the_first() -> None:
    text = told(said("I am Ann"), Step("Hello"), said("and?"), Step("Yes"), said("so"))
    assert "You have written 3 messages here; the first was “I am Ann”" in text
    assert "[model]" not in text


@pytest.mark.parametrize(
    ("text", "answered"),
    [
        pytest.param("what did I say first?", "The first that you said here was: “one”", id="first"),
        pytest.param("What did we write before?", "Before this you said: “two”", id="before"),
        pytest.param("count to 3", "1, 2, 3. Done.", id="count"),
        pytest.param("please count up to 1", "1. Done.", id="count to one"),
        pytest.param("help", "`what time is it?`", id="help"),
        pytest.param("count to 2\nwhat did I say first", "1, 2. Done.\n\nThe first", id="two lines"),
        pytest.param("run ls", "plugin `shell`", id="run without shell"),
        pytest.param("start ls", "`start_command` is not offered", id="start without jobs"),
    ],
)
def test_plain_requests_are_answered(text: str, answered: str) -> None:
    assert answered in told(said("one"), Step("ok"), said("two"), Step("ok"), said(text))


def test_it_does_not_pretend_to_remember_what_was_never_said() -> None:
    assert "nothing here before" in told(said("what did I say before?"))


def test_a_huge_count_has_an_end() -> None:
    assert told(said("count to 999999999")).endswith("1000. Done.")


def test_a_long_story_is_long_and_has_every_kind_of_markdown() -> None:
    text = told(said("tell me a long story"))
    assert len(text.split()) > 250
    for mark in ("# ", "## ", "1. ", "- ", "|---|", "```python", "**", "*", "> "):
        assert mark in text


def test_an_attachment_is_noticed() -> None:
    item = Said(SaidKind.MESSAGE, "look", attachments=(Attachment("a.png", "image/png"),))
    assert "a.png (image/png)" in told(item)


# ---- tools


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        pytest.param("what time is it?", [("demo_clock", "{}")], id="time"),
        pytest.param("What's the time", [("demo_clock", "{}")], id="the time"),
        pytest.param("sleep 2", [("demo_sleep", '{"seconds":2.0}')], id="sleep"),
        pytest.param("wait for 1.5 seconds", [("demo_sleep", '{"seconds":1.5}')], id="wait"),
        pytest.param("sleep 99999", [("demo_sleep", '{"seconds":600.0}')], id="not for ever"),
        pytest.param("time and sleep 2", [("demo_clock", "{}"), ("demo_sleep", '{"seconds":2.0}')], id="two at once"),
        pytest.param("sleep 1\ntime\nsleep 1", [("demo_sleep", '{"seconds":1.0}'), ("demo_clock", "{}")], id="lines"),
        pytest.param("run ls -l | wc", [("run_command", '{"command":"ls -l | wc"}')], id="run"),
        pytest.param("Please run sleep 5", [("run_command", '{"command":"sleep 5"}')], id="run and nothing else"),
        pytest.param("start make", [("start_command", '{"command":"make","idempotency_key":"demo-1"}')], id="start"),
        pytest.param("once upon a time I ran", [], id="just talk"),
    ],
)  # fmt: skip
def test_tools_are_called_where_they_are_asked_for(text: str, calls: list[tuple[str, str]]) -> None:
    assert called(said(text), tools=ALL) == calls


def test_a_tool_that_is_not_offered_is_not_called() -> None:
    assert called(said("what time is it"), tools=()) == []
    assert "`demo_clock` is not offered" in told(said("what time is it"), tools=())


def test_the_stop_says_whether_tools_are_to_run() -> None:
    assert answer(request(said("time")))[-1] == Stop("tools")
    assert answer(request(said("hello")))[-1] == Stop("end")


def test_results_are_told_and_end_the_turn() -> None:
    step = done(("demo_clock", "{}", "noon"), ("demo_sleep", '{"seconds":2.0}', "(no output)"))
    text = told(said("time and sleep 2"), step)
    assert "**noon**" in text
    assert "waited" in text
    assert called(said("time and sleep 2"), step) == []


def test_what_was_asked_beside_the_tools_is_answered_after_them() -> None:
    step = done(("demo_clock", "{}", "noon"))
    assert told(said("what time is it and count to 3"), step).endswith("1, 2, 3. Done.")


def test_output_is_shown_in_a_fence_that_it_cannot_break() -> None:
    text = told(said("run x"), done(("run_command", "{}", "a\n```\nb")))
    assert "````\na\n```\nb\n````" in text


def test_a_tool_that_failed_is_said_to_have_failed() -> None:
    step = Step("", (ToolCall("a", "run_command", "{}"),), (ToolResult("a", "exit code 1", error=True),))
    assert "did not work" in told(said("run x"), step)


def test_call_ids_are_new_in_the_history() -> None:
    first = done(("demo_clock", "{}", "noon"))
    (call,) = calls_of(answer(request(said("time"), first, Step("It is noon"), said("time"))))
    assert call.id == "demo_2"


# ---- what is no message


@pytest.mark.parametrize(
    ("kind", "answered"),
    [
        (SaidKind.STEER, "You steered me: “shorter”."),
        (SaidKind.NOTE, "Your note for this point has come: “shorter”."),
        (SaidKind.EVENT, "I was told of an event: “shorter”."),
        (SaidKind.INJECTION, "I was given some context: “shorter”."),
    ],
)
def test_what_is_no_message_is_reacted_to_by_its_kind(kind: SaidKind, answered: str) -> None:
    assert told(said("hello"), Step("Hello."), said("shorter", kind)) == answered


def test_a_steer_between_tools_is_followed_after_their_results() -> None:
    step = done(("demo_clock", "{}", "noon"))
    text = told(said("time"), step, said("count to 2", SaidKind.STEER))
    assert re.search("noon.*You steered me: “count to 2”.*1, 2. Done.", text, re.DOTALL)


def test_a_note_stands_before_the_answer_to_the_message_it_came_with() -> None:
    text = told(said("be kind", SaidKind.NOTE), said("hello"))
    assert text.startswith("Your note for this point has come: “be kind”.")
    assert "You said: “hello”" in text


def test_an_interrupted_request_is_named_and_not_carried_out_again() -> None:
    text = told(said("count to 1000"), said("hello"))
    assert "did not answer: “count to 1000”." in text
    assert "999" not in text
    assert "You said: “hello”" in text


def test_tools_of_an_interrupted_turn_are_not_told_again() -> None:
    step = done(("demo_sleep", '{"seconds":60.0}', "interrupted"))
    assert "waited" not in told(said("sleep 60"), step, said("count to 2"))


# ---- as a model


_ITEMS = st.lists(
    st.builds(
        Said,
        st.sampled_from(SaidKind),
        st.one_of(
            st.text(max_size=30),
            st.sampled_from(["time and sleep 1", "run x", "count to 3", "start y", "help"]),
        ),
    ),
    max_size=4,
)


@given(_ITEMS, st.sampled_from([(), OWN, ALL]))
def test_any_turn_is_deterministic_valid_and_ends(items: list[Said], tools: tuple[str, ...]) -> None:
    history: list[Item] = list(items)
    for _ in range(3):
        deltas = answer(request(*history, tools=tools))
        assert deltas == answer(request(*history, tools=tools))
        calls = calls_of(deltas)
        assert {call.name for call in calls} <= set(tools)
        assert isinstance(deltas[-2], Usage)
        assert deltas[-2].output == len(text_of(deltas).split())
        history.append(
            Step(text_of(deltas), tuple(calls), tuple(ToolResult(call.id, "ok") for call in calls))
        )
        check([said("x"), *history])
        if not calls:
            return
    raise AssertionError("the turn does not end")


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    assert {one.kind for one in asked(text)} <= {*ALL, "count", "story", "help", "first", "before"}


async def test_the_model_streams_the_answer_word_by_word() -> None:
    one = request(said("hello there"))
    assert [delta async for delta in DemoModel(0).stream(one)] == answer(one)
    assert sum(isinstance(delta, Text) for delta in answer(one)) == len(told(said("hello there")).split())


async def test_a_cancelled_stream_ends_at_once() -> None:
    model = DemoModel(10)
    task = asyncio.create_task(anext(model.stream(request(said("hello")))))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=1)
    assert task.cancelled()
    await model.aclose()


# ---- the plugin


def test_the_plugin_offers_the_model_and_its_tools() -> None:
    plugin = DemoPlugin(DemoSettings())
    (factory,) = plugin.hermes_models()
    assert factory.provider == "demo"
    assert isinstance(factory.open(ModelSettings()), DemoModel)
    assert [one.name for one in plugin.hermes_tools()] == ["demo_clock", "demo_sleep"]
    plugin.hermes_configured(Config(model=ModelSettings(provider="openai")))
    assert list(plugin.hermes_tools()) == []


async def test_the_clock_tells_the_time() -> None:
    assert demo_clock.kind is Kind.ASYNC
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", await demo_clock.function())


async def test_sleep_is_a_real_process() -> None:
    assert demo_sleep.kind is Kind.PROCESS
    program = demo_sleep.function(**demo_sleep.check('{"seconds": 0.01}'))
    assert isinstance(program, Program)
    process = await asyncio.create_subprocess_exec(*program.argv)
    assert await process.wait() == 0


@pytest.mark.parametrize("seconds", ["-1", "601", '"long"'])
def test_sleep_refuses_what_is_no_sensible_time(seconds: str) -> None:
    with pytest.raises(ToolError):
        demo_sleep.check(f'{{"seconds": {seconds}}}')
