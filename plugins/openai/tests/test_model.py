"""The model against a scripted server: real sockets, real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable

import pytest

from hermes_core.config import ModelSettings
from hermes_core.errors import ModelError
from hermes_core.file import NoFiles
from hermes_core.messages import Attachment, Said, SaidKind, ToolCall
from hermes_core.models import Delta, Model, Request, Stop, Text, Usage
from hermes_core.testing.model_server import DONE, Answer, Cut, ModelServer, asks, chunk, fails, says
from hermes_openai.model import OpenAIModel, open_model

Open = Callable[..., OpenAIModel]
REQUEST = Request("be kind", (Said(SaidKind.MESSAGE, "hello"),))
JSON = {"content-type": "application/json"}


async def ask(model: Model) -> list[Delta]:
    """All that one call gives."""
    return [delta async for delta in model.stream(REQUEST)]


async def error_of(model: Model) -> ModelError:
    """The error of a call that fails."""
    with pytest.raises(ModelError) as raised:
        await ask(model)
    assert "sk-secret" not in f"{raised.value} {raised.value.__cause__!r}"
    return raised.value


async def test_text_usage_and_stop_come_in_order(server: ModelServer, open_: Open) -> None:
    assert await ask(open_(server.base_url)) == [Text("All "), Text("well."), Usage(7, 3, 2), Stop("end")]
    asked = server.requests[0]
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer sk-secret"
    assert asked.body["model"] == "some-model"
    assert asked.body["stream"] is True
    assert asked.body["messages"][-1] == {"role": "user", "content": "hello"}


async def test_text_is_given_as_it_arrives(server: ModelServer, open_: Open) -> None:
    go_on = asyncio.Event()
    server.script(Answer((chunk("a"), go_on, chunk("b"), chunk(finish="stop"), DONE)))
    async with contextlib.aclosing(open_(server.base_url).stream(REQUEST)) as stream:
        assert await anext(stream) == Text("a")
        go_on.set()
        assert [delta async for delta in stream] == [Text("b"), Stop("end")]


async def test_parallel_tool_calls_come_whole(server: ModelServer, open_: Open) -> None:
    server.script(asks(("look", '{"at": "the sea"}'), ("wait", "{}"), text="So."))
    calls = [ToolCall("id-0", "look", '{"at": "the sea"}'), ToolCall("id-1", "wait", "{}")]
    assert await ask(open_(server.base_url)) == [Text("So."), *calls, Usage(7, 3, 2), Stop("tools")]


async def test_an_answer_is_whole_even_if_the_connection_is_cut_after_its_end(
    server: ModelServer, open_: Open
) -> None:
    server.script(Answer((chunk("a", finish="stop"), Cut())))
    assert await ask(open_(server.base_url)) == [Text("a"), Stop("end")]


async def test_a_server_that_keeps_the_connection_open_after_its_answer_holds_nothing_up(
    server: ModelServer, open_: Open
) -> None:
    server.script(Answer((chunk("a", finish="stop"), asyncio.Event())))
    async with asyncio.timeout(4):
        assert await ask(open_(server.base_url, timeout=60.0)) == [Text("a"), Stop("end")]


async def test_a_server_that_does_not_stream_is_understood(server: ModelServer, open_: Open) -> None:
    body = b'{"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}'
    server.script(Answer((body,), headers=JSON))
    assert await ask(open_(server.base_url)) == [Text("a"), Stop("end")]


# ---- faults


@pytest.mark.parametrize(
    ("answer", "text", "retryable", "retry_after"),
    [
        pytest.param(fails(401), "API key", False, None, id="401"),
        pytest.param(fails(404), "does not know this model", False, None, id="404"),
        pytest.param(fails(429, retry_after="7"), "wait 7 s", True, 7.0, id="429"),
        pytest.param(fails(503, retry_after="1"), "fault of its own", True, 1.0, id="503"),
        pytest.param(fails(500), "fault of its own", True, None, id="500"),
        pytest.param(fails(302, location="/x"), "another address", False, None, id="302"),
        pytest.param(Answer((b"x" * 200_000,), 500), "fault of its own", True, None, id="a long error"),
        pytest.param(Answer((b"x", Cut()), 500), "fault of its own", True, None, id="a cut error"),
        pytest.param(Answer((chunk("a"), Cut())), "broke off", True, None, id="cut in the middle"),
        pytest.param(Answer((Cut(),)), "broke off", True, None, id="cut before the first chunk"),
        pytest.param(Answer((chunk("a"),)), "broke off", True, None, id="ended without an end"),
        pytest.param(Answer((b"data: {oh\n\n",)), "no JSON", True, None, id="malformed"),
        pytest.param(
            Answer((b'data: {"error": "boom"}\n\n',)), "reported an error", True, None, id="error inside"
        ),
        pytest.param(Answer((b"{oh",), headers=JSON), "no JSON", True, None, id="malformed without a stream"),
        pytest.param(
            Answer((b"<html>",), headers={"content-type": "text/html"}),
            "web page",
            False,
            None,
            id="a web page",
        ),
        pytest.param(
            Answer((b"no gzip",), headers={"content-encoding": "gzip"}), "compression", True, None, id="gzip"
        ),
    ],
)
async def test_what_a_server_does_wrong_is_said_plainly(
    server: ModelServer, open_: Open, answer: Answer, text: str, retryable: bool, retry_after: float | None
) -> None:
    server.script(answer)
    model = open_(server.base_url)
    error = await error_of(model)
    assert text in str(error)
    assert (error.retryable, error.retry_after) == (retryable, retry_after)
    assert "127.0.0.1" not in str(error)
    assert (await ask(model))[-1] == Stop("end"), "the next call is not harmed"


async def test_the_cause_of_a_refusal_names_address_and_model_but_no_key(
    server: ModelServer, open_: Open
) -> None:
    """X2, also where the server repeats the key and the address holds a password."""
    server.script(fails(404, "no such thing for sk-secret"))
    model = open_(server.base_url.replace("http://", "http://user:word@"))
    cause = str((await error_of(model)).__cause__)
    assert f"{server.base_url}/chat/completions for model 'some-model'" in cause
    assert "no such thing" in cause
    assert "word" not in cause


# ---- interrupts (I2)

QUIET = asyncio.Event


@pytest.mark.parametrize(
    ("answer", "first"),
    [
        pytest.param(lambda: Answer(before=QUIET()), None, id="waiting for the headers"),
        pytest.param(lambda: Answer((QUIET(),)), None, id="silent before the first chunk"),
        pytest.param(lambda: Answer((chunk("a"), QUIET())), Text("a"), id="silent in the middle"),
        pytest.param(lambda: Answer(iter(lambda: chunk("a"), b"")), Text("a"), id="streaming"),
        pytest.param(lambda: Answer((b"{", QUIET()), 500), None, id="in the body of an error"),
        pytest.param(
            lambda: Answer((b"{", QUIET()), headers=JSON), None, id="in an answer that is not streamed"
        ),
        pytest.param(
            lambda: Answer((chunk("a", finish="stop"), QUIET())), Text("a"), id="waiting for the usage"
        ),
    ],
)
async def test_cancelling_closes_the_connection_at_once_in_every_state(
    server: ModelServer, open_: Open, answer: Callable[[], Answer], first: Delta | None
) -> None:
    """I2: the server sees it within 50 ms; the bound here is for a machine that is busy."""
    server.script(answer())
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


# ---- the kit's own server


async def test_the_server_of_the_kit_runs_as_a_program_and_answers_at_once(open_: Open) -> None:
    program = [sys.executable, "-m", "hermes_core.testing.model_server", "--port", "0", "--text", "Here."]
    process = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        port = int(await asyncio.wait_for(process.stdout.readline(), 20))
        deltas = await ask(open_(f"http://127.0.0.1:{port}/v1"))
        assert deltas == [Text("Here."), Usage(7, 3, 2), Stop("end")]
        assert says("Here.") == says("Here.")
    finally:
        process.terminate()
        await process.wait()


async def test_a_picture_is_sent_where_images_is_yes_and_not_to_other_servers_by_default(
    server: ModelServer,
) -> None:
    png = Attachment("a.png", "image/png", 3, "1")

    class Kept(NoFiles):
        async def read(self, attachment: Attachment) -> bytes:
            return b"ABC"

    request = Request("", (Said(SaidKind.MESSAGE, "look", attachments=(png,)),), (), Kept())
    shown = []
    for images in ("yes", "auto", "no"):
        server.script(says("A letter."))
        model = open_model(ModelSettings("openai", "m", server.base_url, images=images))
        _ = [delta async for delta in model.stream(request)]
        await model.aclose()
        shown.append(isinstance(server.requests[-1].body["messages"][0]["content"], list))
    assert shown == [True, False, False]
