"""The connection against a scripted server: real sockets, real HTTP, TLS and proxies."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from hermes_core.models import Stop, Text
from hermes_core.testing.model_server import DONE, Answer, ModelServer, chunk
from hermes_httpmodel.model import HttpModel
from hermes_httpmodel.server_contract import QUIET, REQUEST, ask, error_of
from hermes_httpmodel.testing import environment, listening

Open = Callable[..., HttpModel]


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
    assert "127.0.0.1" not in str(error)
    assert "http://127.0.0.1:" in str(error.__cause__), "the log names the address"
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


async def test_after_an_interrupt_the_next_call_uses_a_client_of_its_own(
    server: ModelServer, open_: Open
) -> None:
    """I2: not even a connection that is idle is used again."""
    go_on = asyncio.Event()
    server.script(Answer((go_on, chunk("a"), DONE)), Answer((QUIET(),)))
    model = open_(server.base_url)
    other = asyncio.create_task(ask(model))
    await server.asked(1)
    task = asyncio.create_task(ask(model))
    await server.asked(2)
    go_on.set()
    await other
    task.cancel()
    await asyncio.wait({task}, timeout=1)
    assert (await ask(model))[-1] == Stop("end")
    assert server.connections == 3


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
