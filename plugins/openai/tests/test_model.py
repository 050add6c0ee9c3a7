"""The model against a scripted server: real sockets, real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from hermes_core.errors import ModelError
from hermes_core.messages import Said, SaidKind, ToolCall
from hermes_core.models import Delta, Model, Request, Stop, Text, Usage
from hermes_core.testing.model_server import DONE, Answer, Cut, ModelServer, asks, chunk, fails, says
from hermes_openai.model import OpenAIModel

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


@contextlib.asynccontextmanager
async def listening(serve: Callable[..., Awaitable[None]]) -> AsyncIterator[int]:
    """A server that is no model server at all; gives its port."""
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@contextlib.contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set environment variables for a while."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


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


async def test_the_connection_is_kept_for_the_next_call(server: ModelServer, open_: Open) -> None:
    model = open_(server.base_url)
    for _ in range(3):
        await ask(model)
    assert (len(server.requests), server.connections) == (3, 1)


async def test_more_calls_at_once_than_any_pool_holds_do_not_wait_for_each_other(open_: Open) -> None:
    """T: different conversations never wait for each other."""
    go_on = asyncio.Event()
    async with ModelServer(lambda body: Answer((go_on, chunk("a"), DONE))) as server:
        model = open_(server.base_url, timeout=30.0)
        calls = [asyncio.create_task(ask(model)) for _ in range(120)]
        await server.asked(120, within=30.0)
        go_on.set()
        assert await asyncio.gather(*calls) == [[Text("a"), Stop("end")]] * 120


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


async def test_a_silent_server_is_given_up_after_the_time_without_a_byte(
    server: ModelServer, open_: Open
) -> None:
    server.script(Answer((chunk("a"), asyncio.Event())))
    error = await error_of(open_(server.base_url, timeout=1.0))
    assert "nothing for 1 s" in str(error)
    assert error.retryable


async def test_a_slow_server_that_sends_signs_of_life_is_not_given_up(
    server: ModelServer, open_: Open
) -> None:
    """The comments take longer than `timeout` together, none of the gaps does."""
    beats = [asyncio.Event() for _ in range(8)]
    parts = [part for beat in beats for part in (beat, b": alive\n\n")]
    server.script(Answer((*parts, chunk("a"), DONE)))
    call = asyncio.create_task(ask(open_(server.base_url, timeout=1.0)))
    for beat in beats:
        beat.set()
        await asyncio.sleep(0.15)  # it is about time that passes
    assert await call == [Text("a"), Stop("end")]


async def test_a_server_that_is_not_there_cannot_be_reached(open_: Open) -> None:
    async with ModelServer() as gone:
        base_url = gone.base_url
    error = await error_of(open_(base_url))
    assert "cannot be reached" in str(error)
    assert error.retryable


async def test_a_name_that_does_not_exist_is_said_to_be_unknown(open_: Open) -> None:
    error = await error_of(open_("http://model.invalid/v1"))
    assert "under its name" in str(error)
    assert error.retryable


async def test_a_server_without_tls_is_no_secure_one(open_: Open) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with listening(plain) as port:
        error = await error_of(open_(f"https://127.0.0.1:{port}/v1"))
    assert "secure connection" in str(error)
    assert error.retryable


async def test_a_server_that_drops_every_connection_gave_no_answer(open_: Open) -> None:
    async def drop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async with listening(drop) as port:
        error = await error_of(open_(f"http://127.0.0.1:{port}/v1"))
    assert "without an answer" in str(error)
    assert error.retryable


# ---- TLS and proxies


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a certificate for 127.0.0.1 that signs itself, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    options = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=test",
    ]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", "req", "-x509", *options, *names], check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_bytes(cert.read_bytes() + key.read_bytes())
    return both


@pytest.fixture
async def secure(certificate: Path) -> AsyncIterator[ModelServer]:
    """A scripted server that speaks TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    async with ModelServer(tls=context) as started:
        yield started


async def test_https_works_with_a_certificate_that_is_trusted(
    secure: ModelServer, open_: Open, certificate: Path
) -> None:
    with environment(SSL_CERT_FILE=str(certificate)):
        model = open_(secure.base_url)
        assert (await ask(model))[-1] == Stop("end")
    assert (await ask(model))[-1] == Stop("end")
    assert secure.connections == 1


async def test_https_fails_with_a_certificate_that_nobody_trusts(secure: ModelServer, open_: Open) -> None:
    assert "secure connection" in str(await error_of(open_(secure.base_url)))


async def test_a_proxy_of_the_environment_is_used(server: ModelServer, open_: Open) -> None:
    with environment(HTTP_PROXY=f"http://127.0.0.1:{server.port}", NO_PROXY="", no_proxy=""):
        model = open_("http://model.invalid/v1")
        assert (await ask(model))[-1] == Stop("end")
    assert server.requests[0].path == "http://model.invalid/v1/chat/completions"


async def test_a_proxy_that_refuses_is_named_as_the_culprit(server: ModelServer, open_: Open) -> None:
    with environment(HTTPS_PROXY=f"http://127.0.0.1:{server.port}", NO_PROXY="", no_proxy=""):
        error = await error_of(open_("https://model.invalid/v1"))
    assert "proxy" in str(error)
    assert error.retryable


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


@pytest.mark.parametrize(
    ("scheme", "proxy", "said"),
    [
        pytest.param("http", False, b"", id="no headers"),
        pytest.param("https", False, b"", id="no TLS handshake"),
        pytest.param("https", True, b"", id="no answer of a proxy"),
        pytest.param("https", True, b"HTTP/1.1 200 OK\r\n\r\n", id="no TLS handshake behind a proxy"),
    ],
)
async def test_cancelling_while_it_connects_closes_the_connection_at_once(
    open_: Open, scheme: str, proxy: bool, said: bytes
) -> None:
    """I2 with a server that takes the connection, and then is silent."""
    silent, left = asyncio.Event(), asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        if said:
            writer.write(said)
            await reader.read(65536)
        silent.set()
        while await reader.read(65536):
            pass
        left.set()
        writer.close()

    async with listening(mute) as port:
        variables = (
            {"HTTPS_PROXY": f"http://127.0.0.1:{port}", "NO_PROXY": "", "no_proxy": ""} if proxy else {}
        )
        host = "model.invalid" if proxy else f"127.0.0.1:{port}"
        with environment(**variables):
            task = asyncio.create_task(ask(open_(f"{scheme}://{host}/v1")))
            await asyncio.wait_for(silent.wait(), 5)
        task.cancel()
        await asyncio.wait({task}, timeout=1)
        assert task.cancelled()
        await asyncio.wait_for(left.wait(), 1)


async def test_cancelling_at_any_moment_leaves_a_model_that_works(server: ModelServer, open_: Open) -> None:
    """After any number of steps of the event loop: importing, connecting, sending, reading, closing."""
    model = open_(server.base_url)
    for steps in range(60):
        task = asyncio.create_task(ask(model))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=1)
        assert task.done()
        assert (await ask(model))[-1] == Stop("end")


async def test_an_interrupt_does_not_harm_the_calls_of_other_conversations(
    server: ModelServer, open_: Open
) -> None:
    go_on = asyncio.Event()
    server.script(Answer((chunk("a"), go_on, chunk("b"), DONE)), Answer((chunk("a"), QUIET())))
    model = open_(server.base_url)
    other = asyncio.create_task(ask(model))
    await server.asked(1)
    task = asyncio.create_task(ask(model))
    asked = await server.asked(2)
    task.cancel()
    await asyncio.wait_for(asked.gone.wait(), 1)
    assert (await ask(model))[-1] == Stop("end")
    go_on.set()
    assert await other == [Text("a"), Text("b"), Stop("end")]


async def test_closing_the_stream_early_closes_the_connection(server: ModelServer, open_: Open) -> None:
    server.script(Answer((chunk("a"), QUIET())))
    async with contextlib.aclosing(open_(server.base_url).stream(REQUEST)) as stream:
        assert await anext(stream) == Text("a")
    await asyncio.wait_for(server.requests[0].gone.wait(), 1)
    assert not server.requests[0].answered


async def test_closing_the_model_twice_is_the_same_as_once(server: ModelServer, open_: Open) -> None:
    model = open_(server.base_url)
    await ask(model)
    await model.aclose()
    await model.aclose()
    assert (await ask(model))[-1] == Stop("end")


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
