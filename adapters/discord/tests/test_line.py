"""The connection: resume, loss, refusals, and what becomes of a post whose answer is lost."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from yarl import URL

from hermes_core.adapter import KnownCommand
from hermes_core.errors import ConfigError, leaves, reason
from hermes_core.messages import Address, Outgoing
from hermes_core.testing.driver import RecordingGateway
from hermes_core.testing.model import Hold
from hermes_core.testing.platforms.discord import FakeDiscord
from hermes_core.writing import Draft, Journal
from hermes_discord.adapter import DiscordAdapter
from hermes_discord.line import dates

from .bench import Bench, until


async def test_case_5_what_came_during_a_break_comes_with_the_resume_and_once(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    discord.gateway.duplicates = 3
    async with Bench(tmp_path, discord) as bench:
        await discord.say(chat, "ann", "one")
        await bench.heard(chat)
        await discord.gateway.hang_up(4000)
        await discord.say(chat, "ann", "two")
        assert await bench.heard(chat, 2) == ["you said: one", "you said: two"]
        await discord.say(chat, "ann", "three")
        assert (await bench.heard(chat, 3))[2] == "you said: three"
        assert len(discord.gateway.resumed) == 1
        assert len(bench.model.requests) == 3


@pytest.mark.parametrize("how", ["ask_to_reconnect", "cut"])
async def test_the_session_goes_on_after(how: str, tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        await discord.say(chat, "ann", "one")
        await bench.heard(chat)
        if how == "cut":
            discord.gateway.cut()
        else:
            await discord.gateway.ask_to_reconnect()
        await until(lambda: discord.gateway.resumed)
        await discord.say(chat, "ann", "two")
        assert (await bench.heard(chat, 2))[1] == "you said: two"
        assert len(discord.gateway.identified) == 1


async def test_a_new_session_reads_what_the_old_one_missed_d8(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        await discord.say(chat, "ann", "one")
        await bench.heard(chat)
        discord.gateway.forget()
        await discord.say(chat, "ann", "two")
        await discord.gateway.hang_up()
        assert (await bench.heard(chat, 2))[1] == "you said: two"
        assert len(discord.gateway.identified) == 2


async def test_case_43_a_silent_connection_is_noticed_and_made_anew(discord: FakeDiscord) -> None:
    adapter = _adapter(discord, slash=False, heartbeat_timeout=0.5)
    run = asyncio.create_task(adapter.run(RecordingGateway()))
    await until(lambda: discord.gateway.connected)
    discord.gateway.fall_silent()
    await until(lambda: discord.gateway.resumed)
    assert not run.done()
    run.cancel()
    await asyncio.wait({run}, timeout=1.0)
    assert run.done()


async def test_case_43_each_heartbeat_that_is_acknowledged_is_a_sign_of_life(discord: FakeDiscord) -> None:
    discord.gateway.interval = 0.2
    gateway = RecordingGateway()
    run = asyncio.create_task(_adapter(discord, slash=False).run(gateway))
    await until(lambda: gateway.alive_calls >= 2)
    assert discord.gateway.beats >= 2
    discord.gateway.fall_silent()
    heard = gateway.alive_calls
    beats = discord.gateway.beats
    await until(lambda: discord.gateway.beats >= beats + 10)  # what it sends nobody answers
    assert gateway.alive_calls <= heard + 1
    run.cancel()
    await asyncio.wait({run}, timeout=1.0)


async def test_many_answers_at_once_share_a_hundred_connections(discord: FakeDiscord) -> None:
    adapter, gateway = _adapter(discord, slash=False, requests=1e6), RecordingGateway()
    run = asyncio.create_task(adapter.run(gateway))
    await until(lambda: gateway.ready_calls)
    places = [Address("discord", discord.me["id"], discord.direct(f"p{one}")) for one in range(250)]
    sent = await asyncio.gather(
        *(adapter.send(Outgoing(f"{one}#notice", one, "Hello there.")) for one in places)
    )
    port = URL(discord.base_url).port
    ours = [one for one in psutil.Process().net_connections("tcp") if getattr(one.raddr, "port", 0) == port]
    assert len({one.ids for one in sent}) == 250
    assert 10 < len(ours) <= 100
    run.cancel()
    await asyncio.wait({run}, timeout=1.0)


async def test_the_clock_of_the_platform_is_looked_at_now_and_then_and_not_at_each_call(
    discord: FakeDiscord,
) -> None:
    seen: list[str | None] = []
    adapter, address = _adapter(discord, slash=False), Address("discord", "1", discord.direct())
    run = asyncio.create_task(adapter.run(Dated(seen)))
    await until(lambda: discord.gateway.connected)
    for number in range(3):
        await adapter.send(Outgoing(f"{number}", address, "Hello there."))
    assert len(seen) == 1
    assert seen[0] is not None
    run.cancel()
    await asyncio.wait({run}, timeout=1.0)
    async with aiohttp.ClientSession(trace_configs=[dates(seen.append, 0.01)]) as session:
        async with asyncio.timeout(10.0):
            while len(seen) < 3:
                async with session.get(discord.base_url):
                    await asyncio.sleep(0)


class Dated(RecordingGateway):
    """Keeps what the platform's clock says."""

    def __init__(self, seen: list[str | None]) -> None:
        super().__init__()
        self._seen = seen

    def dated(self, header: str | None) -> None:
        self._seen.append(header)


class Asked(RecordingGateway):
    """Knows one command, and is asked for the list of all when plugins have changed only."""

    def commands(self) -> tuple[KnownCommand, ...]:
        raise AssertionError("a message must not cost more the more commands there are")

    def knows(self, command: str) -> bool:
        return command == "status"


async def test_a_command_in_a_group_is_known_without_a_look_at_all_the_others(discord: FakeDiscord) -> None:
    gateway, room = Asked(), discord.room()
    run = asyncio.create_task(_adapter(discord, slash=False).run(gateway))
    await until(lambda: discord.gateway.connected)
    for text in ("/nothing here", "/status now", "only talk"):
        await discord.say(room, "ann", text)
    await discord.say(room, "ann", f"{discord.mention} last")
    await until(lambda: len(gateway.messages) == 2)
    assert [one.text for one in gateway.messages] == ["/status now", "last"]
    run.cancel()
    await asyncio.wait({run}, timeout=1.0)


async def test_a_gateway_that_stays_away_is_tried_until_it_is_back(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        await discord.say(chat, "ann", "one")
        await bench.heard(chat)
        discord.gateway.refuse_connections = 2
        await discord.gateway.hang_up(4000)
        await discord.say(chat, "ann", "two")
        assert await bench.heard(chat, 2, 20.0) == ["you said: one", "you said: two"]
        assert discord.gateway.refuse_connections == 0


async def test_a_platform_that_is_down_at_the_login_is_tried_again(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    discord.fail("GET", "/users/@me", 503, {"message": "503: Service Unavailable", "code": 0})
    async with Bench(tmp_path, discord) as bench:
        await discord.say(chat, "ann", "there you are")
        assert await bench.heard(chat) == ["you said: there you are"]


async def test_when_the_first_call_reaches_nobody_it_is_said_why(discord: FakeDiscord) -> None:
    adapter = DiscordAdapter(discord.token, base_url="http://127.0.0.1:9/api")
    with pytest.raises(ExceptionGroup) as raised:
        await adapter.run(RecordingGateway())
    said = r"HermesError: Discord cannot be reached\. \(ClientConnectorError: .*127\.0\.0\.1:9 "
    assert re.match(said, reason(raised.value))


async def test_when_only_the_gateway_is_down_it_is_said_why(discord: FakeDiscord) -> None:
    discord.gateway.refuse_connections = 1
    with pytest.raises(ExceptionGroup) as raised:
        await _adapter(discord).run(RecordingGateway())
    said = reason(raised.value)
    assert said.startswith("HermesError: Discord's gateway cannot be reached. (WSServerHandshakeError: 503")


async def _refused(run: Awaitable[None]) -> str:
    """What is said where trying again is of no use, as the runtime finds it."""
    with pytest.raises(ExceptionGroup) as raised:
        await run
    return next(str(one) for one in leaves(raised.value) if isinstance(one, ConfigError))


async def test_a_missing_intent_is_said_plainly(discord: FakeDiscord) -> None:
    discord.gateway.allowed = 0
    adapter = _adapter(discord)
    assert "Message Content Intent" in await _refused(adapter.run(RecordingGateway()))


async def test_without_the_intent_mentions_are_read_all_the_same(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    discord.gateway.allowed = 0
    room = discord.room()
    async with Bench(tmp_path, discord, settings={"message_content": False}) as bench:
        await discord.say(room, "ann", f"{discord.mention} hello")
        assert await bench.heard(room) == ["you said: hello"]


async def test_a_refused_token_is_said_plainly(discord: FakeDiscord) -> None:
    adapter = _adapter(discord, token="another")
    assert "token" in await _refused(adapter.run(RecordingGateway()))


@pytest.mark.parametrize(("code", "words"), [(4004, "token"), (4011, "more servers than one connection")])
async def test_what_only_the_gateway_refuses_is_said_plainly(
    code: int, words: str, discord: FakeDiscord
) -> None:
    adapter = _adapter(discord)
    run = asyncio.create_task(adapter.run(RecordingGateway()))
    await until(lambda: discord.gateway.connected)
    await discord.gateway.hang_up(code)
    assert words in await _refused(run)


class Falling(RecordingGateway):
    """Fails when what waits for it is ended."""

    async def settled(self, address: Address) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("it fell over while it was cleared away")


async def test_why_the_connection_ended_is_said_whatever_fails_while_the_rest_is_ended(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    address, gateway = Address("discord", discord.me["id"], discord.direct()), Falling()
    Journal(tmp_path / "drafts.jsonl").note(Draft(str(address), "k", ids=("1",), text="It was"))
    adapter = _adapter(discord, notebook=tmp_path / "notebook.json")
    run = asyncio.create_task(adapter.run(gateway))
    await until(lambda: gateway.ready_calls)
    await discord.gateway.hang_up(4004)
    assert "token" in await _refused(run)


async def test_a_gateway_that_is_down_at_first_is_tried_again_by_the_runtime(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    discord.gateway.refuse_connections = 1
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        await discord.say(chat, "ann", "there you are")
        assert await bench.heard(chat) == ["you said: there you are"]


async def test_stopping_takes_less_than_a_second_also_when_the_gateway_is_deaf(discord: FakeDiscord) -> None:
    adapter = _adapter(discord)
    run = asyncio.create_task(adapter.run(RecordingGateway()))
    await until(lambda: discord.gateway.connected)
    discord.gateway.fall_silent()
    run.cancel()
    done, _ = await asyncio.wait({run}, timeout=1.0)
    assert done
    assert run.cancelled()


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_reply_whose_post_was_cut_arrives_once_d5(
    cut: str, tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        discord.fail("POST", "/messages", cut=cut)
        await discord.say(chat, "ann", "hello")
        assert await bench.heard(chat) == ["you said: hello"]
        await until(lambda: bench.runtime.services.outbox.empty(bench.address(chat)))
        assert discord.texts(chat) == ["you said: hello"]
        assert [one.status for one in discord.calls("POST", "/messages")] == [0, 200] or cut == "after"
        nonces = {one.body["nonce"] for one in discord.calls("POST", "/messages")}
        assert len(nonces) == 1


async def test_d5_a_post_that_was_cut_is_made_again_where_the_agent_may_not_read_what_was_said(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        discord.fail("POST", "/messages", cut="before")
        discord.fail("GET", "/messages", 403, {"message": "Missing Access", "code": 50001})
        await discord.say(chat, "ann", "hello")
        assert await bench.heard(chat) == ["you said: hello"]
        assert [one.status for one in discord.calls("GET", "/messages")] == [403]


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_a_refused_post_is_made_again(status: int, tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        if status == 429:
            discord.limit("POST", "/messages", 0.3)
        else:
            discord.fail("POST", "/messages", status, {"message": f"{status}: trouble", "code": 0})
        await discord.say(chat, "ann", "hello")
        assert await bench.heard(chat) == ["you said: hello"]


async def test_a_pause_that_its_front_door_asks_for_is_kept_and_no_ban(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        discord.fail("POST", "/messages", 429, "error code: 1015", headers={"Retry-After": "1"})
        began = asyncio.get_running_loop().time()
        await discord.say(chat, "ann", "hello")
        assert await bench.heard(chat) == ["you said: hello"]
        assert asyncio.get_running_loop().time() - began >= 1.0
        assert [one.status for one in discord.calls("POST", "/messages")] == [429, 200]


async def test_a_person_who_takes_no_messages_does_not_hold_the_others(
    tmp_path: Path, discord: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    closed, open_ = discord.direct("ann"), discord.direct("bob")
    discord.closed_to[closed] = (403, 50007)
    async with Bench(tmp_path, discord) as bench:
        await discord.say(closed, "ann", "hello")
        await discord.say(open_, "bob", "hello")
        assert await bench.heard(open_) == ["you said: hello"]
        await until(lambda: bench.runtime.services.outbox.empty(bench.address(closed)))
        assert discord.texts(closed) == []
    assert "403 50007 Cannot send messages to this user" in caplog.text


async def test_case_34_a_long_pause_parks_one_channel_only(tmp_path: Path, discord: FakeDiscord) -> None:
    parked, free = discord.direct("ann"), discord.direct("bob")
    async with Bench(tmp_path, discord) as bench:
        discord.limit("POST", f"{parked}/messages", 120.0)
        await discord.say(parked, "ann", "hello")
        await until(lambda: discord.calls("POST", f"{parked}/messages"))
        await discord.say(free, "bob", "hello")
        assert await bench.heard(free) == ["you said: hello"]
        assert len(discord.calls("POST", f"{parked}/messages")) == 1


async def test_a_draft_that_was_deleted_is_posted_anew(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    hold = Hold()
    async with Bench(tmp_path, discord, [["The beginning of something long", hold, " and its end"]]):
        await discord.say(chat, "ann", "go on")
        await until(lambda: discord.texts(chat))
        await discord.delete(chat, discord.mine(chat)[0]["id"])
        hold.release()
        await until(lambda: discord.texts(chat) == ["The beginning of something long and its end"])


def _adapter(discord: FakeDiscord, token: str = "", **more: Any) -> DiscordAdapter:
    return DiscordAdapter(
        token or discord.token, base_url=discord.base_url, gateway_url=discord.gateway_url, **more
    )
