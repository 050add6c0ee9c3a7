"""The way to Telegram: refused, broken, polled twice, or the other way round by a webhook."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_core.errors import ConfigError, reason
from hermes_core.messages import Address
from hermes_core.route import Problem, Request
from hermes_core.testing.driver import RecordingGateway
from hermes_core.testing.model import Hold
from hermes_core.testing.platforms.telegram import Fault, Refusal, TelegramServer, flood
from hermes_core.writing import Draft, Journal
from hermes_telegram.adapter import TelegramAdapter
from hermes_telegram.client import make_bot
from hermes_telegram.polling import Polling
from hermes_telegram.settings import PATH, Settings, Webhook
from hermes_telegram.webhook import hook, watch


async def test_a_token_that_is_refused_ends_the_start_and_is_not_repeated_anywhere(
    open_house: Any, telegram: TelegramServer, caplog: pytest.LogCaptureFixture
) -> None:
    telegram.fail("getMe", Fault(Refusal(401, "Unauthorized")))
    house = open_house()
    async with house:
        with pytest.raises(ConfigError, match="refuses the bot's token"):
            await house.task
    assert telegram.token not in caplog.text


class Falling(RecordingGateway):
    """Fails at the first poll that came back, and once more when what waits for it is ended."""

    async def settled(self, address: Address) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("it fell over while it was cleared away")

    def alive(self) -> None:
        raise LookupError("why it ended")


async def test_why_the_connection_ended_is_said_whatever_fails_while_the_rest_is_ended(
    telegram: TelegramServer, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / f"{telegram.token.partition(':')[0]}.drafts")
    journal.note(Draft(str(Address("telegram", "42", "1")), "k", ids=("1",), text="It was"))
    settings = Settings(base_url=telegram.base_url)
    adapter = TelegramAdapter(telegram.token, settings, tmp_path)
    with pytest.raises(ExceptionGroup) as raised:
        await adapter.run(Falling())
    said = reason(raised.value)
    assert "LookupError: why it ended" in said
    assert "RuntimeError: it fell over" in said


async def test_polling_ends_a_webhook_that_was_set_before(open_house: Any, telegram: TelegramServer) -> None:
    telegram.webhook = "http://127.0.0.1:9/old"
    async with open_house() as house:
        await house.up()
        telegram.say("hi")
        await telegram.shown("you said: hi")
        await house.settled()
    assert telegram.webhook == ""


async def test_when_telegram_is_gone_for_a_while_nothing_is_lost_and_the_draft_gets_its_end(
    open_house: Any, telegram: TelegramServer, tmp_path: Path
) -> None:
    hold = Hold()
    async with open_house([["Late", hold, " reply."]], own={"busy": "queue"}) as house:
        await house.up()
        telegram.say("before")
        await telegram.shown("Late")
        noted = tmp_path / "telegram" / "42.drafts"
        async with asyncio.timeout(5):
            while not (noted.exists() and b'"ids":["' in noted.read_bytes()):  # until it knows the message
                await asyncio.sleep(0.01)
        await telegram.close()
        hold.release()
        telegram.say("meanwhile")
        await telegram.start()
        await telegram.shown("you said: meanwhile", within=20)
        await house.settled()
    assert telegram.texts() == ["Late reply.", "you said: meanwhile"]


async def test_case_5_a_poll_that_is_cut_after_it_was_answered_brings_the_message_again_and_it_is_answered_once(
    open_house: Any, telegram: TelegramServer
) -> None:
    telegram.fail("getUpdates", Fault(), Fault(cut="after"))
    async with open_house() as house:
        await house.up()
        telegram.say("hi")
        await telegram.shown("you said: hi", within=15)
        await house.settled()
    assert telegram.texts() == ["you said: hi"]


async def test_polls_that_telegram_told_to_wait_make_no_later_pause_longer(
    open_house: Any, telegram: TelegramServer
) -> None:
    telegram.fail("getUpdates", *[Fault(flood(0))] * 6, Fault(Refusal(502, "Bad Gateway")))
    async with open_house() as house:
        telegram.say("hi")
        await telegram.shown(
            "you said: hi", within=15
        )  # six failures in a row would be a pause of half a minute
        await house.settled()
    assert telegram.texts() == ["you said: hi"]


async def test_an_update_that_nobody_can_read_does_not_make_it_deaf(
    open_house: Any, telegram: TelegramServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_house() as house:
        await house.up()
        telegram.say("x", photo="not a list of sizes")
        telegram.say("y", entities=[{"type": "pre", "offset": -5, "length": 9000}])
        telegram.say("still there?")
        await telegram.until(lambda: any("still there?" in one for one in telegram.texts()))
        await house.settled()
        await telegram.until(lambda: telegram.offset == 1003)
    assert "could not be read" in caplog.text


async def test_x3_the_webhook_takes_only_what_bears_the_secret_and_says_200_after_the_commit(
    open_house: Any, telegram: TelegramServer, caplog: pytest.LogCaptureFixture
) -> None:
    public = {"http": {"public_url": "https://bot.example"}}
    async with open_house(own={"mode": "webhook"}, **public) as house:
        await house.up()
        (route,) = house.plugin.hermes_routes(None)
        secret = Webhook.of("https://bot.example", telegram.token).secret
        (call,) = telegram.called("setWebhook")
        assert call.parameters["url"] == f"https://bot.example{PATH}"
        assert call.parameters["secret_token"] == secret
        message = {
            "message_id": 1,
            "date": int(time.time()),
            "text": "by webhook",
            "from": {"id": 7, "is_bot": False, "first_name": "Ann"},
            "chat": {"id": 7, "type": "private", "first_name": "Ann"},
        }
        body = json.dumps({"update_id": 1, "message": message}).encode()

        def request(given: str) -> Request:
            headers = {"x-telegram-bot-api-secret-token": (given,)}
            return Request("POST", PATH, {}, {}, headers, body, "")

        with pytest.raises(Problem) as refused:
            await route.answer(request("wrong"))
        assert refused.value.status == 401
        with pytest.raises(Problem) as unread:  # X3: the secret comes before any look at the body
            await route.answer(msgspec.structs.replace(request("wrong"), body=b"{no JSON"))
        assert unread.value.status == 401
        with pytest.raises(Problem) as unreadable:
            await route.answer(msgspec.structs.replace(request(secret), body=b"{no JSON"))
        assert unreadable.value.status == 400
        for odd in (b"[]", b"{}", b"7", b'{"update_id": "7"}'):  # JSON, and no update
            with pytest.raises(Problem) as none:
                await route.answer(msgspec.structs.replace(request(secret), body=odd))
            assert none.value.status == 400
        assert telegram.texts() == []
        for _ in range(2):  # Telegram brings it again where our answer was lost
            assert (await route.answer(request(secret))).status == 200
        await telegram.shown("you said: by webhook")
        await house.settled()
    assert telegram.texts() == ["you said: by webhook"]
    assert secret not in caplog.text


async def test_a_webhook_without_a_public_address_is_refused_at_the_start(open_house: Any) -> None:
    house = open_house(own={"mode": "webhook"})
    with pytest.raises(ConfigError, match="public_url"):
        async with house:
            pass


async def test_a_stop_is_quick_though_a_long_poll_is_under_way(
    open_house: Any, telegram: TelegramServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_house() as house:
        await house.up()
        house.runtime.stop()
        await house.task
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


async def test_case_43_a_poll_that_is_never_answered_counts_as_lost_and_is_said(
    telegram: TelegramServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A connection that nobody cut and on which nothing comes: a router forgot it."""
    heard: list[int] = []
    connects: list[int] = []
    alive: list[int] = []

    async def take(updates: Sequence[Any]) -> int | None:
        heard.extend(one.update_id for one in updates)
        return None

    bot, polls = make_bot(telegram.token, telegram.base_url, silence=0.3)
    telegram.fail("getUpdates", Fault(), Fault(cut="silent"))
    async with bot:
        polling = Polling(
            bot, polls, take, lambda: connects.append(1), lambda: alive.append(len(connects)), timeout=1
        )
        task = asyncio.create_task(polling.run())
        await telegram.until(lambda: any(one.outcome == "cut" for one in telegram.calls))
        telegram.say("are you there?")
        await telegram.until(lambda: telegram.offset > 1000)
        task.cancel()
        await asyncio.wait({task})
    assert heard == [1000]
    assert len(connects) == 2
    assert alive[:2] == [0, 1], "each poll that came back is a sign of life, the silent one is none"
    assert "no messages arrive: Timed out" in caplog.text
    assert "messages arrive again" in caplog.text


async def test_case_41_two_programs_that_poll_in_turns_are_told_of_once_and_so_is_the_end_of_it(
    telegram: TelegramServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def take(updates: Sequence[Any]) -> int | None:
        heard.extend(one.update_id for one in updates)
        return None

    heard: list[int] = []
    other = Fault(Refusal(409, "Conflict: terminated by other getUpdates request"))
    telegram.fail("getUpdates", Fault(), other, Fault(), other, Fault(), other)
    bot, polls = make_bot(telegram.token, telegram.base_url)
    async with bot:
        polling = Polling(bot, polls, take, lambda: None, lambda: None, timeout=1, alone=3.0)
        task = asyncio.create_task(polling.run())
        telegram.say("is one of you there?")
        await telegram.until(
            lambda: any("messages arrive again" in one.getMessage() for one in caplog.records), within=30
        )
        task.cancel()
        await asyncio.wait({task})
    assert heard == [1000]
    assert not telegram.failing("getUpdates")
    said = [one.getMessage() for one in caplog.records if one.name == "hermes.telegram"]
    assert len(said) == 2, said
    assert "(409)" in said[0]
    assert said[1] == "messages arrive again: no other program polls"


async def test_case_43_a_webhook_that_another_program_took_away_is_set_again_and_said(
    telegram: TelegramServer, caplog: pytest.LogCaptureFixture
) -> None:
    bot, _ = make_bot(telegram.token, telegram.base_url)
    wanted = Webhook.of("http://127.0.0.1:9", telegram.token)
    async with bot:
        await hook(bot, wanted)
        alive: list[int] = []
        task = asyncio.create_task(watch(bot, wanted, lambda: alive.append(1), every=0.02))
        await telegram.until(lambda: len(alive) > 1)
        telegram.webhook = ""  # somebody called deleteWebhook
        await telegram.until(lambda: telegram.webhook == wanted.url)
        telegram.say("nobody listens on port 9")
        await telegram.until(lambda: "Telegram cannot bring messages to the webhook" in caplog.text)
        told = caplog.text.count("cannot bring")
        looks = len(telegram.called("getWebhookInfo"))
        await telegram.until(lambda: len(telegram.called("getWebhookInfo")) > looks + 3)
        task.cancel()
        await asyncio.wait({task})
    assert "took the webhook away" in caplog.text
    assert caplog.text.count("cannot bring") <= told + 1  # said once for each time that Telegram failed
    assert wanted.secret not in caplog.text


async def test_a_webhook_set_by_another_program_while_we_poll_is_taken_away_and_said(
    open_house: Any, telegram: TelegramServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_house() as house:
        await house.up()
        await telegram.until(lambda: len(telegram.called("getUpdates")) >= 1)
        telegram.webhook = "http://127.0.0.1:9/other"
        telegram.say("wake the poll")
        await telegram.until(lambda: telegram.webhook == "", within=20)
        await telegram.until(lambda: any("wake the poll" in one for one in telegram.texts()), within=20)
        await house.settled()
    assert "a webhook was set for this bot, by another program" in caplog.text
