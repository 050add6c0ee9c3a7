"""I2 over real HTTP: the model's connection closes at once, in every state and over every kind of way.

The server sees it within 50 ms of the commit (E1); the bounds here are for a machine that is busy, and
`bench/interrupt.py` measures.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from hermes_core.testing.model_server import Answer, ModelServer, chunk

from .real import Relay, accepted, answers, certificate, check_openai, environment, house, said, tls, until

Silence = asyncio.Event
BOUND = 0.5  # seconds

WAYS = ["http", "https", "http by proxy", "https by proxy"]
STATES: dict[str, Callable[[], Answer]] = {
    "waiting for the first byte": lambda: Answer(before=Silence()),
    "silent before the first word": lambda: Answer((Silence(),)),
    "silent in the middle": lambda: Answer((chunk("half an ans"), Silence())),
    "streaming": lambda: Answer(iter(lambda: chunk("a"), b"")),
}


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certificate(tmp_path_factory.mktemp("tls"))


@contextlib.asynccontextmanager
async def on_the_way(way: str, both: Path) -> AsyncIterator[tuple[ModelServer, Relay | None]]:
    """A model server, and the environment in which it is reached this way."""
    async with contextlib.AsyncExitStack() as stack:
        context = tls(both) if way.startswith("https") else None
        server = await stack.enter_async_context(ModelServer(tls=context))
        variables = {"SSL_CERT_FILE": str(both), "NO_PROXY": "*", "no_proxy": "*"}
        relay = None
        if "proxy" in way:
            relay = await stack.enter_async_context(Relay())
            variables.update(relay.variables)
        stack.enter_context(environment(variables))
        yield server, relay


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("state", STATES)
async def test_case_11_the_server_sees_the_connection_close_at_once_and_the_next_call_has_a_fresh_one(
    tmp_path: Path, both: Path, way: str, state: str
) -> None:
    """(I2, I5, I8) Case 11: a connection that was silent when the interrupt came went on for 14 minutes."""
    async with on_the_way(way, both) as (server, relay), house(tmp_path, server.base_url) as bed:
        server.script(STATES[state]())
        await bed.platform.say("old question")
        asked = await server.asked()
        if state in ("silent in the middle", "streaming"):
            await until(bed.platform.drafts)
        _, at = await accepted(bed, "new question")
        await asyncio.wait_for(asked.gone.wait(), 5)
        assert asked.left is not None
        assert asked.left - at < BOUND
        assert not asked.answered

        assert await answers(bed, 1) == ["All well."]
        following = server.requests[1]
        assert following.at - at < BOUND
        assert following.connection != asked.connection
        assert relay is None or relay.connections == 2
        assert said(following)[-1].endswith("new question")
        assert [one["role"] for one in following.body["messages"][1:]].count("assistant") == 0
        assert bed.platform.broken() == ([1] if bed.platform.drafts() != "All well." else [])
        check_openai(server)


@pytest.mark.parametrize(
    ("way", "mute"),
    [
        pytest.param("https", "wire", id="the TLS handshake"),
        pytest.param("https by proxy", "connect", id="the answer of a proxy"),
        pytest.param("https by proxy", "tunnel", id="the TLS handshake behind a proxy"),
        pytest.param("http by proxy", "wire", id="a proxy that says nothing"),
    ],
)
async def test_i2_a_connection_that_is_not_made_yet_is_given_up_at_once(
    tmp_path: Path, both: Path, way: str, mute: str
) -> None:
    """(I2) Whoever takes a connection and says nothing holds nothing up: here it waits for …"""
    async with on_the_way(way, both) as (server, proxy), contextlib.AsyncExitStack() as stack:
        relay, base_url = proxy, server.base_url
        if relay is None:
            relay = await stack.enter_async_context(Relay(server.port))
            base_url = base_url.replace(str(server.port), str(relay.port))
        relay.mute = mute
        bed = await stack.enter_async_context(house(tmp_path, base_url))
        await bed.platform.say("old question")
        await asyncio.wait_for(relay.silent.wait(), 10)
        _, at = await accepted(bed, "new question")
        assert await asyncio.wait_for(relay.left, 5) - at < BOUND
        assert await answers(bed, 1) == ["All well."]
        assert relay.connections == 2
        (asked,) = server.requests
        assert said(asked) == ["old question", "new question"]
        check_openai(server)


async def test_i2_an_interrupt_leaves_the_calls_of_other_conversations_alone(tmp_path: Path) -> None:
    """(I2) The client that is thrown away is theirs as well; they end undisturbed."""
    go_on = Silence()
    async with ModelServer() as server, house(tmp_path, server.base_url) as bed:
        server.script(
            Answer((chunk("slow "), go_on, chunk("but whole", finish="stop"))), Answer((Silence(),))
        )
        await bed.platform.say("work", "other")
        other = await server.asked()
        await bed.platform.say("old question")
        asked = await server.asked(2)
        await bed.platform.say("new question")
        await asyncio.wait_for(asked.gone.wait(), 5)
        go_on.set()
        await bed.platform.settled("other")
        assert bed.platform.texts("other") == ["slow but whole"]
        assert not other.gone.is_set() or other.answered


@pytest.mark.parametrize("words", ["/stop", "/interrupt", "/interrupt urgent", "/new"])
async def test_i2_each_command_that_ends_a_turn_closes_its_connection(tmp_path: Path, words: str) -> None:
    """(I2, I10, T7)"""
    async with ModelServer() as server, house(tmp_path, server.base_url) as bed:
        server.script(Answer((chunk("half"), Silence())))
        await bed.platform.say("work")
        asked = await server.asked()
        await until(bed.platform.drafts)
        _, at = await accepted(bed, words)
        await asyncio.wait_for(asked.gone.wait(), 5)
        assert asked.left is not None
        assert asked.left - at < BOUND
        await bed.platform.settled()
        assert len(server.requests) == (2 if "urgent" in words else 1), "I1: nothing more of that turn starts"
        assert bed.platform.broken() == [1]
