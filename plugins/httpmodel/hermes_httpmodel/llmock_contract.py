"""LlmockContract: what a model must do with llmock, a server that somebody else wrote to break clients, as tests.

    class TestLlmock(LlmockContract):
        place = "/v1"                            # where its API begins there
        busy = {503: "fault of its own"}         # what is said of statuses that servers use differently

Needs the fixtures of `hermes_httpmodel.fixtures`. Nothing in the package imports this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import pytest

from hermes_core.errors import ModelError
from hermes_core.messages import Item, Said, SaidKind, Step, ToolCall, ToolResult
from hermes_core.models import Delta, Model, Request, Stop, Text, ToolSpec, Usage
from hermes_httpmodel.testing import Llmock

__all__ = ["LlmockContract"]

Open = Callable[..., Model]
HELLO: Final = Said(SaidKind.MESSAGE, "What is the weather in Paris?")
WEATHER: Final = ToolSpec(
    "get_weather",
    "The weather in a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


async def ask(model: Model, *items: Item, tools: tuple[ToolSpec, ...] = ()) -> list[Delta]:
    """All that one call gives."""
    return [delta async for delta in model.stream(Request("Be brief.", items or (HELLO,), tools))]


class LlmockContract:
    """Set `place` and `busy`."""

    place: ClassVar[str]
    busy: ClassVar[Mapping[int, str]]

    async def test_a_scripted_answer_comes_whole(self, mock: Llmock, open_: Open) -> None:
        mock.queue({"type": "reply", "text": "It is sunny, with a *light* breeze."})
        *texts, usage, stop = await ask(open_(f"{mock.root}{self.place}"))
        assert (
            "".join(one.text for one in texts if isinstance(one, Text))
            == "It is sunny, with a *light* breeze."
        )
        assert isinstance(usage, Usage)
        assert usage.input > 0
        assert usage.output > 0
        assert stop == Stop("end")

    async def test_a_tool_is_called_and_its_result_answered(self, mock: Llmock, open_: Open) -> None:
        model = open_(f"{mock.root}{self.place}")
        deltas = await ask(model, tools=(WEATHER,))
        calls = tuple(delta for delta in deltas if isinstance(delta, ToolCall))
        assert [call.name for call in calls] == ["get_weather"]
        assert '"city"' in calls[0].arguments
        assert deltas[-1] == Stop("tools")
        step = Step("", calls, (ToolResult(calls[0].id, "sunny"),))
        deltas = await ask(model, HELLO, step, tools=(WEATHER,))
        assert deltas[-1] == Stop("end")
        assert any(isinstance(delta, Text) for delta in deltas)

    async def test_two_calls_at_once_come_in_their_order(self, mock: Llmock, open_: Open) -> None:
        asked = [{"name": "get_weather", "arguments": {"city": city}} for city in ("Paris", "Rome")]
        mock.queue({"type": "reply", "tool_calls": asked})
        calls = [
            one
            for one in await ask(open_(f"{mock.root}{self.place}"), tools=(WEATHER,))
            if isinstance(one, ToolCall)
        ]
        assert ["Paris" in calls[0].arguments, "Rome" in calls[1].arguments] == [True, True]
        assert len({call.id for call in calls}) == 2

    @pytest.mark.parametrize(
        ("fault", "text", "retryable"),
        [
            pytest.param({"type": "fail", "status": 400}, "refused the request", False, id="400"),
            pytest.param(
                {"type": "fail", "status": 400, "code": "context_length_exceeded"},
                "too long",
                False,
                id="too long",
            ),
            pytest.param({"type": "fail", "status": 401}, "API key", False, id="401"),
            pytest.param({"type": "fail", "status": 403}, "API key", False, id="403"),
            pytest.param({"type": "fail", "status": 404}, "does not know this model", False, id="404"),
            pytest.param({"type": "fail", "status": 429}, "too much to do", True, id="429"),
            pytest.param({"type": "fail", "status": 500}, "fault of its own", True, id="500"),
            pytest.param({"type": "fail", "status": 502}, "fault of its own", True, id="502"),
            pytest.param(
                {"type": "stream_fault", "kind": "disconnect", "after_chunks": 2}, "broke off", True, id="cut"
            ),
            pytest.param(
                {"type": "stream_fault", "kind": "disconnect", "after_chunks": 0}, "", True, id="cut at once"
            ),
            pytest.param(
                {"type": "stream_fault", "kind": "truncate", "after_chunks": 2}, "broke off", True, id="short"
            ),
            pytest.param(
                {"type": "stream_fault", "kind": "malformed", "after_chunks": 2},
                "no JSON",
                True,
                id="malformed",
            ),
            pytest.param(
                {"type": "stream_fault", "kind": "stall", "after_chunks": 2, "stall_seconds": 5.0},
                "nothing for 1 s",
                True,
                id="stalled",
            ),
        ],
    )
    async def test_its_faults_are_said_plainly(
        self, mock: Llmock, open_: Open, fault: dict[str, Any], text: str, retryable: bool
    ) -> None:
        mock.queue(fault)
        model = open_(f"{mock.root}{self.place}", timeout=1.0)
        with pytest.raises(ModelError) as raised:
            await ask(model)
        assert text in str(raised.value)
        assert raised.value.retryable is retryable

    async def test_the_wait_that_it_asks_for_is_handed_on(self, mock: Llmock, open_: Open) -> None:
        mock.queue({"type": "fail", "status": 429, "retry_after": 2})
        with pytest.raises(ModelError) as raised:
            await ask(open_(f"{mock.root}{self.place}"))
        assert raised.value.retry_after == 2.0

    async def test_a_call_cut_in_a_tool_call_gives_no_tool_call(self, mock: Llmock, open_: Open) -> None:
        mock.queue(
            {"type": "reply", "tool_calls": [{"name": "get_weather", "arguments": {"city": "a" * 100}}]},
            {"type": "stream_fault", "kind": "disconnect", "after_chunks": 4},
        )
        stream = open_(f"{mock.root}{self.place}").stream(Request("", (HELLO,), (WEATHER,)))
        with pytest.raises(ModelError, match="broke off"):
            await anext(stream)

    async def test_arguments_that_are_no_json_are_handed_on_for_the_tool_to_refuse(
        self, mock: Llmock, open_: Open
    ) -> None:
        mock.queue({"type": "tool_fault", "kind": "malformed_arguments"})
        deltas = await ask(open_(f"{mock.root}{self.place}"), tools=(WEATHER,))
        assert [type(delta) for delta in deltas] == [ToolCall, Usage, Stop]

    async def test_what_it_has_too_much_to_do_with_is_said_plainly(self, mock: Llmock, open_: Open) -> None:
        for status, text in self.busy.items():
            mock.queue({"type": "fail", "status": status})
            with pytest.raises(ModelError) as raised:
                await ask(open_(f"{mock.root}{self.place}"))
            assert text in str(raised.value)
            assert raised.value.retryable
