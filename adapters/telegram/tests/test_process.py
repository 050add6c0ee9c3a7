"""`hermes run` as a real process, against the strict Telegram; and the adapter against a Telegram by others."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from hermes_core.http import serve
from hermes_core.testing.platforms.telegram import TelegramServer
from hermes_core.testing.platforms.telegram_wire import Answer, Incoming, Listener, post
from hermes_core.writing import Draft, Journal
from hermes_telegram.settings import PATH, Webhook

TOKEN = "42:test-token"
CONFIG = """
[runtime]
data_dir = "{folder}/data"
[access]
owners = ["telegram:7"]
[adapters.telegram]
enabled = true
token_env = "THE_TOKEN"
base_url = "{url}"
busy = "queue"
"""

# Telegram's part of mockpost alone: the whole of it opens ports for mail and files.
MOCKPOST = """
import contextlib, sys, uvicorn
from fastapi import FastAPI
from mockpost import apps, db
from mockpost.routers import api_messages, telegram

@contextlib.asynccontextmanager
async def lifespan(app):
    await db.init_db()
    await apps.upsert_app("hermes", {"telegram_token": "42:test-token"})
    yield
    await db.close_db()

app = FastAPI(lifespan=lifespan)
app.include_router(telegram.router)
app.include_router(api_messages.router)
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
"""


class Hermes:
    """One process; `err` is where its log goes."""

    def __init__(self, telegram: TelegramServer, folder: Path) -> None:
        self.file = folder / "hermes.toml"
        self.file.write_text(CONFIG.format(folder=folder, url=telegram.base_url))
        self.err = folder / "err"
        own = {name: value for name, value in os.environ.items() if not name.startswith("HERMES")}
        self._environ = {**own, "THE_TOKEN": telegram.token}
        self.process: asyncio.subprocess.Process

    async def start(self) -> None:
        with self.err.open("ab") as err:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "hermes_core", "run", "--config", str(self.file),
                env=self._environ, stdin=asyncio.subprocess.DEVNULL, stdout=err, stderr=err,
            )  # fmt: skip

    def _drafts(self) -> list[Draft]:
        return Journal(self.file.parent / "data" / "telegram" / "42.drafts").drafts()

    def unfinished(self) -> bool:
        """Whether a text is noted that is still written."""
        return any(one.text for one in self._drafts())

    async def noted(self) -> None:
        """Wait until the program has noted the message in which it writes."""
        async with asyncio.timeout(10):
            while not any(one.ids for one in self._drafts()):
                await asyncio.sleep(0.01)

    async def end(self, number: int) -> int:
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(15):
            return await self.process.wait()


@pytest.fixture
async def hermes(telegram: TelegramServer, tmp_path: Path) -> AsyncIterator[Hermes]:
    made = Hermes(telegram, tmp_path)
    await made.start()
    yield made
    await made.end(signal.SIGKILL)


async def test_it_says_when_it_is_ready_answers_and_ends_in_order_without_telling_its_token(
    hermes: Hermes, telegram: TelegramServer
) -> None:
    telegram.say("/status")
    await telegram.until(lambda: bool(telegram.texts()), within=30)
    assert await hermes.end(signal.SIGTERM) == 0
    log = hermes.err.read_text()
    assert "ready: telegram" in log
    assert telegram.token.split(":")[1] not in log


async def test_what_a_killed_program_had_taken_is_answered_once_by_the_next(
    hermes: Hermes, telegram: TelegramServer
) -> None:
    telegram.say("first")
    await telegram.until(lambda: telegram.offset > 1000, within=30)  # it is committed
    assert await hermes.end(signal.SIGKILL) == -signal.SIGKILL
    telegram.say("/status")
    await hermes.start()
    await telegram.until(lambda: len(telegram.texts()) >= 2, within=30)
    assert await hermes.end(signal.SIGTERM) == 0
    once = [one.removeprefix("↻ (may be a repeat)\n\n") for one in telegram.texts()]
    assert len(once) == len(set(once))


async def test_r3_a_reply_that_kill_9_cut_off_gets_its_end_in_the_same_message(
    hermes: Hermes, telegram: TelegramServer
) -> None:
    telegram.say("count to 60")
    await telegram.until(lambda: bool(telegram.texts()), within=30)
    await hermes.noted()
    assert await hermes.end(signal.SIGKILL) == -signal.SIGKILL
    (cut,) = telegram.sent()
    begun = cut["text"]
    await hermes.start()
    await telegram.until(lambda: "60. Done." in telegram.texts()[0], within=60)
    await telegram.until(lambda: not hermes.unfinished(), within=30)
    assert await hermes.end(signal.SIGTERM) == 0
    (whole,) = telegram.sent()
    assert whole["message_id"] == cut["message_id"]
    assert whole["text"].startswith(begun[:20])
    assert "interrupted" not in whole["text"]


async def test_r3_a_reply_that_kill_9_cut_off_and_that_is_then_stopped_gets_its_mark(
    hermes: Hermes, telegram: TelegramServer
) -> None:
    telegram.say("tell me a long story")
    await telegram.until(lambda: bool(telegram.texts()), within=30)
    await hermes.noted()
    assert await hermes.end(signal.SIGKILL) == -signal.SIGKILL
    (cut,) = telegram.sent()
    telegram.say("/stop")
    await hermes.start()
    await telegram.until(lambda: telegram.texts()[0].endswith("✂ interrupted"), within=60)
    await telegram.until(lambda: len(telegram.texts()) == 2, within=30)
    assert await hermes.end(signal.SIGTERM) == 0
    assert telegram.sent()[0]["message_id"] == cut["message_id"]
    assert telegram.texts()[1].startswith("Stopped")


async def test_updates_come_through_the_webhook_of_the_shared_server_and_none_is_lost_or_repeated(
    open_house: Any, telegram: TelegramServer, unused_tcp_port: int
) -> None:
    public = {"port": unused_tcp_port, "public_url": f"http://127.0.0.1:{unused_tcp_port}"}
    telegram.say("before it is set")
    async with open_house(own={"mode": "webhook", "busy": "followup"}, doors=(serve,), http=public) as house:
        await telegram.shown("you said: before it is set")
        message = telegram.say("later")
        await telegram.shown("you said: later")
        telegram.repeat(message)
        telegram.say("last")
        await telegram.shown("you said: last")
        await house.settled()
    assert telegram.texts() == [f"you said: {one}" for one in ("before it is set", "later", "last")]


@pytest.fixture
async def mockpost(tmp_path: Path, unused_tcp_port: int) -> AsyncIterator[httpx.AsyncClient]:
    """A running mockpost, as a client on its root."""
    environ = {**os.environ, "MOCKPOST_DB_PATH": str(tmp_path / "mockpost.db")}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", MOCKPOST, str(unused_tcp_port), env=environ
    )
    headers = {"X-MockPost-App": "hermes"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{unused_tcp_port}", headers=headers) as client:
        try:
            async with asyncio.timeout(30):
                while True:
                    try:
                        await client.get("/api/messages")
                        break
                    except httpx.ConnectError:
                        await asyncio.sleep(0.05)
            yield client
        finally:
            process.terminate()
            await process.wait()


async def test_it_serves_the_telegram_of_mockpost(
    open_house: Any, mockpost: httpx.AsyncClient, unused_tcp_port_factory: Callable[[], int]
) -> None:
    port = unused_tcp_port_factory()
    secret = Webhook.of("x", TOKEN).secret

    async def forward(request: Incoming) -> Answer:
        """What mockpost leaves out: the secret of the webhook."""
        update = {name: json.loads(value) for name, value in request.parameters.items()}
        headers = {"X-Telegram-Bot-Api-Secret-Token": secret}
        return Answer(await post(f"http://127.0.0.1:{port}{PATH}", update, headers), b"{}")

    relay = await Listener(forward).start()
    root = str(mockpost.base_url).rstrip("/")
    own = {"mode": "webhook", "base_url": f"{root}/telegram"}
    http = {"port": port, "public_url": relay.root}
    async with open_house(["**Well** met."], own=own, doors=(serve,), http=http) as house:
        await house.up()
        await mockpost.post("/telegram/client/sendMessage", json={"chat_id": 5, "text": "hello"})
        sent: list[str] = []
        async with asyncio.timeout(20):
            while not sent:
                kept = (await mockpost.get("/api/messages", params={"channel": "telegram"})).json()
                sent = [one["body"] for one in kept if one["direction"] == "outbound"]
    await relay.close()
    assert sent == ["Well met."]
    assert house.asked() == [["hello"]]
