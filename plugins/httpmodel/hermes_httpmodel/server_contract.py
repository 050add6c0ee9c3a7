"""ServerContract: what a model must do with whatever its server does, over real sockets and real HTTP, as tests.

    class TestServer(ServerContract):
        where = "/chat/completions"
        said = (chunk("a"),)
        ...

Needs the fixtures of `hermes_httpmodel.fixtures`. Nothing in the package imports this.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import pytest

from hermes_core.errors import ModelError
from hermes_core.messages import Said, SaidKind
from hermes_core.models import Delta, Model, Request, Stop, Text
from hermes_core.testing.model_server import Answer, Cut, ModelServer, fails
from hermes_httpmodel.testing import listening

__all__ = ["JSON", "QUIET", "REQUEST", "Fault", "Open", "ServerContract", "State", "ask", "error_of"]

Open: TypeAlias = "Callable[..., Model]"
Fault: TypeAlias = "tuple[Answer, str, bool, float | None]"
"""An answer, a part of what is said of it, whether it may be tried again, and after how many seconds."""

State: TypeAlias = "tuple[Callable[[], Answer], Delta | None]"
"""An answer that stops somewhere, and what comes out of it before, again and again; None: nothing does."""

REQUEST: Final = Request("be kind", (Said(SaidKind.MESSAGE, "hello"),))
JSON: Final = {"content-type": "application/json"}
QUIET: Final = asyncio.Event
"""Makes a place in an answer at which the server falls silent."""

PAGE: Final = Answer((b"<html>",), headers={"content-type": "text/html"})


async def ask(model: Model, request: Request = REQUEST) -> list[Delta]:
    """All that one call gives."""
    return [delta async for delta in model.stream(request)]


async def error_of(model: Model) -> ModelError:
    """The error of a call that fails."""
    with pytest.raises(ModelError) as raised:
        await ask(model)
    assert "sk-secret" not in f"{raised.value} {raised.value.__cause__!r}"
    return raised.value


class ServerContract:
    """Set the class variables; `faults` and `states` are the server's own, beside those that all have.

    `where`: the place of the call behind the base URL. `said` are the pieces of a stream that show the text "a";
    `done` those that say, behind these, that the answer is whole; `end` what then still belongs to the stream.
    `finished`: what comes out of `done` and `end`. `whole`: the same answer where it is not streamed. `page`: what
    is said of a web page.
    """

    where: ClassVar[str]
    said: ClassVar[tuple[bytes, ...]]
    done: ClassVar[tuple[bytes, ...]]
    end: ClassVar[tuple[bytes, ...]]
    finished: ClassVar[tuple[Delta, ...]]
    whole: ClassVar[bytes]
    page: ClassVar[str]
    faults: ClassVar[Mapping[str, Fault]] = {}
    states: ClassVar[Mapping[str, State]] = {}

    def well(self) -> Answer:
        """The answer "a"."""
        return Answer((*self.said, *self.done, *self.end))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Every fault and every state is a case of its own."""
        cases: dict[str, Sequence[Any]] = {}
        if "retryable" in metafunc.fixturenames:
            cases = {**dict(self._faults()), **self.faults}
            metafunc.parametrize(("answer", "text", "retryable", "retry_after"), cases.values(), ids=cases)
        elif "first" in metafunc.fixturenames:
            cases = {**dict(self._states()), **self.states}
            metafunc.parametrize(("answer", "first"), cases.values(), ids=cases)

    def _faults(self) -> Iterator[tuple[str, Fault]]:
        yield "401", (fails(401), "API key", False, None)
        yield "404", (fails(404), "does not know this model", False, None)
        yield "429", (fails(429, retry_after="7"), "wait 7 s", True, 7.0)
        yield "500", (fails(500), "fault of its own", True, None)
        yield "503", (fails(503, retry_after="1"), "fault of its own", True, 1.0)
        yield "302", (fails(302, location="/x"), "another address", False, None)
        yield "a long error", (Answer((b"x" * 200_000,), 500), "fault of its own", True, None)
        yield "a cut error", (Answer((b"x", Cut()), 500), "fault of its own", True, None)
        yield "cut in the middle", (Answer((*self.said, Cut())), "broke off", True, None)
        yield "cut before the first piece", (Answer((Cut(),)), "broke off", True, None)
        yield "ended without an end", (Answer(self.said), "broke off", True, None)
        yield "malformed", (Answer((b"data: {oh\n\n",)), "no JSON", True, None)
        yield "malformed in the middle", (Answer((*self.said, b"data: {oh\n\n")), "no JSON", True, None)
        yield "malformed without a stream", (Answer((b"{oh",), headers=JSON), "no JSON", True, None)
        yield "a web page", (PAGE, self.page, False, None)
        gzip = Answer((b"no gzip",), headers={"content-encoding": "gzip"})
        yield "gzip", (gzip, "compression", True, None)

    def _states(self) -> Iterator[tuple[str, State]]:
        text = Text("a")
        yield "waiting for the headers", (lambda: Answer(before=QUIET()), None)
        yield "silent before the first piece", (lambda: Answer((QUIET(),)), None)
        yield "silent in the middle", (lambda: Answer((*self.said, QUIET())), text)
        yield "streaming", (lambda: Answer(iter(lambda: self.said[-1], b"")), text)
        yield "in the body of an error", (lambda: Answer((b"{", QUIET()), 500), None)
        yield "in an answer that is not streamed", (lambda: Answer((b"{", QUIET()), headers=JSON), None)
        yield "waiting for the very end", (lambda: Answer((*self.said, *self.done, QUIET())), text)

    # ---- answers

    async def test_text_is_given_as_it_arrives(self, server: ModelServer, open_: Open) -> None:
        go_on = asyncio.Event()
        server.script(Answer((*self.said, go_on, *self.done, *self.end)))
        async with contextlib.aclosing(open_(server.base_url).stream(REQUEST)) as stream:
            assert await anext(stream) == Text("a")
            go_on.set()
            assert [delta async for delta in stream] == list(self.finished)

    async def test_an_answer_is_whole_even_if_the_connection_is_cut_after_its_end(
        self, server: ModelServer, open_: Open
    ) -> None:
        server.script(Answer((*self.said, *self.done, Cut())))
        deltas = await ask(open_(server.base_url))
        assert (deltas[0], deltas[-1]) == (Text("a"), Stop("end"))

    async def test_a_server_that_keeps_the_connection_open_after_its_answer_holds_nothing_up(
        self, server: ModelServer, open_: Open
    ) -> None:
        server.script(Answer((*self.said, *self.done, asyncio.Event())))
        async with asyncio.timeout(4):
            deltas = await ask(open_(server.base_url, timeout=60.0))
        assert (deltas[0], deltas[-1]) == (Text("a"), Stop("end"))

    async def test_a_server_that_does_not_stream_is_understood(
        self, server: ModelServer, open_: Open
    ) -> None:
        server.script(Answer((self.whole,), headers=JSON))
        assert await ask(open_(server.base_url)) == [Text("a"), Stop("end")]

    # ---- faults

    async def test_what_a_server_does_wrong_is_said_plainly(
        self,
        server: ModelServer,
        open_: Open,
        answer: Answer,
        text: str,
        retryable: bool,
        retry_after: float | None,
    ) -> None:
        server.script(answer, self.well())
        model = open_(server.base_url)
        error = await error_of(model)
        assert text in str(error)
        assert (error.retryable, error.retry_after) == (retryable, retry_after)
        assert "127.0.0.1" not in str(error)
        assert (await ask(model))[-1] == Stop("end"), "the next call is not harmed"

    async def test_the_cause_of_a_refusal_names_address_and_model_but_no_key(
        self, server: ModelServer, open_: Open
    ) -> None:
        """X2, also where the server repeats the key and the address holds a password."""
        server.script(fails(404, "no such thing for sk-secret"))
        model = open_(server.base_url.replace("http://", "http://user:word@"))
        cause = str((await error_of(model)).__cause__)
        assert f"{server.base_url}{self.where} for model 'some-model'" in cause
        assert "no such thing" in cause
        assert "word" not in cause

    # ---- interrupts (I2)

    async def test_cancelling_closes_the_connection_at_once_in_every_state(
        self, server: ModelServer, open_: Open, answer: Callable[[], Answer], first: Delta | None
    ) -> None:
        """I2: the server sees it within 50 ms; the bound here is for a machine that is busy."""
        server.script(answer(), self.well())
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
    async def test_cancelling_while_it_connects_closes_the_connection_at_once(
        self, open_: Open, scheme: str
    ) -> None:
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

    async def test_closing_the_stream_early_closes_the_connection(
        self, server: ModelServer, open_: Open
    ) -> None:
        server.script(Answer((*self.said, QUIET())))
        async with contextlib.aclosing(open_(server.base_url).stream(REQUEST)) as stream:
            assert await anext(stream) == Text("a")
        await asyncio.wait_for(server.requests[0].gone.wait(), 1)
        assert not server.requests[0].answered
