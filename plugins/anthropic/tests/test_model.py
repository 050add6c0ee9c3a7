"""The model against a scripted server: real sockets, real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from hermes_anthropic.model import AnthropicModel
from hermes_anthropic.thoughts import Thought, keep
from hermes_core.errors import ModelError
from hermes_core.messages import Item, Said, SaidKind, Step, ToolCall, ToolResult
from hermes_core.models import Delta, Model, Opaque, Request, Stop, Text, Usage
from hermes_core.testing.model_server import Answer, Cut, ModelServer, blocks, event, fails
from hermes_httpmodel.testing import listening

Open = Callable[..., AnthropicModel]
HELLO = Said(SaidKind.MESSAGE, "hello")
REQUEST = Request("be kind", (HELLO,))
JSON = {"content-type": "application/json"}
QUIET = asyncio.Event
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


# "a" as an answer, cut where it matters.
*MOST, REASON, END = blocks(said("a"))
SAID = tuple(MOST[:-1])  # text has come, its block is open
WELL = Answer(blocks(said("a")))


async def ask(model: Model, request: Request = REQUEST) -> list[Delta]:
    """All that one call gives."""
    return [delta async for delta in model.stream(request)]


async def error_of(model: Model) -> ModelError:
    """The error of a call that fails."""
    with pytest.raises(ModelError) as raised:
        await ask(model)
    assert "sk-secret" not in f"{raised.value} {raised.value.__cause__!r}"
    return raised.value


async def test_a_request_has_the_headers_and_the_address_of_the_api(server: ModelServer, open_: Open) -> None:
    server.script(Answer(blocks(said("Good day"))))
    assert await ask(open_(server.base_url)) == [Text("Good"), Text(" day"), Usage(7, 3, 2), Stop("end")]
    asked = server.requests[0]
    assert asked.path == "/v1/messages"
    assert asked.headers["x-api-key"] == "sk-secret"
    assert asked.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in asked.headers
    assert (asked.body["model"], asked.body["max_tokens"], asked.body["stream"]) == ("some-model", 8192, True)
    assert asked.body["messages"][-1]["content"][0]["text"] == "hello"


async def test_the_address_may_be_given_without_its_version(server: ModelServer, open_: Open) -> None:
    server.script(WELL)
    await ask(open_(server.base_url.removesuffix("/v1") + "/"))
    assert server.requests[0].path == "/v1/messages"


async def test_text_is_given_as_it_arrives(server: ModelServer, open_: Open) -> None:
    go_on = asyncio.Event()
    server.script(Answer((*SAID, go_on, MOST[-1], REASON, END)))
    async with contextlib.aclosing(open_(server.base_url).stream(REQUEST)) as stream:
        assert await anext(stream) == Text("a")
        go_on.set()
        assert [delta async for delta in stream] == [Usage(7, 3, 2), Stop("end")]


async def test_a_thought_goes_back_unchanged_with_the_results_of_its_calls(
    server: ModelServer, open_: Open
) -> None:
    use = {"type": "tool_use", "id": "x", "name": "look", "input": '{"at": "the sea"}'}
    server.script(Answer(blocks(THOUGHT, said("So."), use, stop="tool_use")), WELL)
    model = open_(server.base_url)
    call = ToolCall("x", "look", '{"at": "the sea"}')
    deltas = await ask(model)
    assert deltas[2:] == [call, Opaque(keep("some-model", [Thought(THOUGHT)])), Usage(7, 3, 2), Stop("tools")]
    opaque = next(delta.data for delta in deltas if isinstance(delta, Opaque))
    items: tuple[Item, ...] = (HELLO, Step("So.", (call,), (ToolResult("x", "blue"),), opaque))
    assert (await ask(model, Request("be kind", items)))[-1] == Stop("end")
    thought, text, used = server.requests[1].body["messages"][1]["content"]
    assert (thought, text, used["input"]) == (THOUGHT, said("So."), {"at": "the sea"})
    assert server.requests[1].body["messages"][2]["content"][0]["tool_use_id"] == "x"


async def test_an_answer_is_whole_even_if_the_connection_is_cut_after_its_end(
    server: ModelServer, open_: Open
) -> None:
    server.script(Answer((*MOST, REASON, Cut())))
    assert (await ask(open_(server.base_url)))[-1] == Stop("end")


async def test_a_server_that_keeps_the_connection_open_after_its_answer_holds_nothing_up(
    server: ModelServer, open_: Open
) -> None:
    server.script(Answer((*MOST, REASON, asyncio.Event())))
    async with asyncio.timeout(4):
        assert (await ask(open_(server.base_url, timeout=60.0)))[-1] == Stop("end")


async def test_a_server_that_does_not_stream_is_understood(server: ModelServer, open_: Open) -> None:
    body = b'{"type": "message", "content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"}'
    server.script(Answer((body,), headers=JSON))
    assert await ask(open_(server.base_url)) == [Text("a"), Stop("end")]


# ---- faults

OVERLOADED = {"type": "overloaded_error", "message": "Overloaded"}


@pytest.mark.parametrize(
    ("answer", "text", "retryable", "retry_after"),
    [
        pytest.param(fails(400), "refused the request", False, None, id="400"),
        pytest.param(
            fails(400, "prompt is too long: 9 tokens > 8 maximum"), "too long", False, None, id="long"
        ),
        pytest.param(fails(400, "Your credit balance is too low"), "no credit", False, None, id="no credit"),
        pytest.param(fails(401), "API key", False, None, id="401"),
        pytest.param(fails(404), "does not know this model", False, None, id="404"),
        pytest.param(fails(413), "too long", False, None, id="413"),
        pytest.param(fails(429, retry_after="7"), "wait 7 s", True, 7.0, id="429"),
        pytest.param(fails(500), "fault of its own", True, None, id="500"),
        pytest.param(fails(503, retry_after="1"), "fault of its own", True, 1.0, id="503"),
        pytest.param(fails(529, code="overloaded_error"), "too much to do", True, None, id="529"),
        pytest.param(Answer((*SAID, Cut())), "broke off", True, None, id="cut in the middle"),
        pytest.param(Answer((Cut(),)), "broke off", True, None, id="cut before the first event"),
        pytest.param(Answer(SAID), "broke off", True, None, id="ended without an end"),
        pytest.param(Answer((*SAID, b"data: {oh\n\n")), "no JSON", True, None, id="malformed"),
        pytest.param(
            Answer((*SAID, event("error", error=OVERLOADED))), "too much to do", True, None, id="overloaded"
        ),
        pytest.param(Answer((b"{oh",), headers=JSON), "no JSON", True, None, id="malformed without a stream"),
        pytest.param(
            Answer((b"<html>",), headers={"content-type": "text/html"}),
            "before /v1/messages",
            False,
            None,
            id="a web page",
        ),
    ],
)
async def test_what_a_server_does_wrong_is_said_plainly(
    server: ModelServer, open_: Open, answer: Answer, text: str, retryable: bool, retry_after: float | None
) -> None:
    server.script(answer, WELL)
    model = open_(server.base_url)
    error = await error_of(model)
    assert text in str(error)
    assert (error.retryable, error.retry_after) == (retryable, retry_after)
    assert "127.0.0.1" not in str(error)
    assert (await ask(model))[-1] == Stop("end"), "the next call is not harmed"


async def test_the_cause_of_a_refusal_names_address_and_model_but_no_key(
    server: ModelServer, open_: Open
) -> None:
    """X2, also where the server repeats the key."""
    server.script(fails(404, "no such thing for sk-secret"))
    cause = str((await error_of(open_(server.base_url))).__cause__)
    assert f"{server.base_url}/messages for model 'some-model'" in cause
    assert "no such thing" in cause


# ---- interrupts (I2)


@pytest.mark.parametrize(
    ("answer", "first"),
    [
        pytest.param(lambda: Answer(before=QUIET()), None, id="waiting for the headers"),
        pytest.param(lambda: Answer((QUIET(),)), None, id="silent before the first event"),
        pytest.param(lambda: Answer((event("ping"), QUIET())), None, id="silent after a ping"),
        pytest.param(lambda: Answer((*SAID, QUIET())), Text("a"), id="silent in the middle"),
        pytest.param(lambda: Answer(iter(lambda: SAID[-1], b"")), Text("a"), id="streaming"),
        pytest.param(
            lambda: Answer((*blocks(THOUGHT, stop=None)[:-2], QUIET())), None, id="in the middle of a thought"
        ),
        pytest.param(lambda: Answer((b"{", QUIET()), 529), None, id="in the body of an error"),
        pytest.param(
            lambda: Answer((b"{", QUIET()), headers=JSON), None, id="in an answer that is not streamed"
        ),
        pytest.param(lambda: Answer((*MOST, REASON, QUIET())), Text("a"), id="waiting for message_stop"),
    ],
)
async def test_cancelling_closes_the_connection_at_once_in_every_state(
    server: ModelServer, open_: Open, answer: Callable[[], Answer], first: Delta | None
) -> None:
    """I2: the server sees it within 50 ms; the bound here is for a machine that is busy."""
    server.script(answer(), WELL)
    model = open_(server.base_url)
    seen = asyncio.Event()

    async def turn() -> None:
        async for delta in model.stream(REQUEST):
            assert delta == first
            seen.set()

    task = asyncio.create_task(turn())
    asked = await server.asked()
    if first is not None:
        await asyncio.wait_for(seen.wait(), 5)
    for _ in range(50):  # into the state itself: both ends live in this event loop
        await asyncio.sleep(0)
    now = asyncio.get_running_loop().time()
    task.cancel()
    await asyncio.wait({task}, timeout=1)
    assert task.cancelled()
    await asyncio.wait_for(asked.gone.wait(), 1)
    assert asked.left is not None
    assert asked.left - now < 0.5
    assert (await ask(model))[-1] == Stop("end"), "the next call has a client of its own"
    assert server.connections == 2


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_cancelling_while_it_connects_closes_the_connection_at_once(open_: Open, scheme: str) -> None:
    """I2 with a server that takes the connection, and then is silent: no headers, no TLS handshake."""
    silent, left = asyncio.Event(), asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        silent.set()
        while await reader.read(65536):
            pass
        left.set()
        writer.close()

    async with listening(mute) as port:
        task = asyncio.create_task(ask(open_(f"{scheme}://127.0.0.1:{port}")))
        await asyncio.wait_for(silent.wait(), 5)
        task.cancel()
        await asyncio.wait({task}, timeout=1)
        assert task.cancelled()
        await asyncio.wait_for(left.wait(), 1)


async def test_closing_the_stream_early_closes_the_connection(server: ModelServer, open_: Open) -> None:
    server.script(Answer((*SAID, QUIET())))
    async with contextlib.aclosing(open_(server.base_url).stream(REQUEST)) as stream:
        assert await anext(stream) == Text("a")
    await asyncio.wait_for(server.requests[0].gone.wait(), 1)
    assert not server.requests[0].answered
