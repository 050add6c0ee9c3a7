"""The contract of all adapters, in front of the fake Slack (P5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_core.adapter import Adapter
from hermes_core.messages import Address
from hermes_core.testing.adapter_contract import AdapterContract
from hermes_core.testing.driver import Driver, Impossible, Post
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_core.testing.platforms.slack_rules import buttons_of
from hermes_slack.adapter import SlackAdapter
from hermes_slack.signs import WORKING

from .alone import HERE, app_of
from .receiver import Receiver

PEOPLE = {"ann": "UANN", "ben": "UBOB", "robot": "UBOT"}
PATIENCE = 0.2  # seconds after which this Slack delivers again what was not acknowledged


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def read(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


class SlackDriver:
    """What people do in a direct chat with the agent, and in its threads."""

    without: frozenset[str] = frozenset()

    def __init__(self, slack: FakeSlack, receiver: Receiver | None = None) -> None:
        self.slack = slack
        self.receiver = receiver

    async def impatient(self) -> None:
        """Slack's retries."""
        while True:
            await asyncio.sleep(PATIENCE)
            now = asyncio.get_running_loop().time()
            for one in self.slack.unacked():
                if now - one.sent > PATIENCE:
                    await self.slack.redeliver(one)

    def open(self, folder: Path) -> Adapter:
        if self.receiver is None:
            return SlackAdapter(app_of(self.slack), folder)
        secret = self.slack.signing_secret
        adapter = SlackAdapter(app_of(self.slack, app_token="", signing_secret=secret), folder)
        self.receiver.adapter = adapter
        return adapter

    async def shut(self, how: str) -> None:
        if how == "down":
            self.slack.refuse("auth.test", status=503)
        elif how == "token":
            self.slack.refuse("auth.test", "invalid_auth")

    def person(self, name: str) -> str:
        return PEOPLE[name]

    def home(self) -> Address:
        return HERE

    def thread(self) -> Address:
        return Address("slack", "U0AGENT", "D1", self.slack.world.quiet("D1"))

    async def say(
        self,
        text: str,
        address: Address | None = None,
        author: str = "ann",
        *,
        reply_to: str | None = None,
        files: tuple[tuple[str, bytes], ...] = (),
    ) -> str:
        if reply_to is not None:
            raise Impossible("Slack has threads, and no replies beside them.")
        where = address or HERE
        more: dict[str, object] = {}
        if author == "robot":
            more = {"bot_id": "B1", "subtype": "bot_message"}
        if files:
            shown = [self.slack.world.files.add(name, content) for name, content in files]
            more = {"files": shown, "subtype": "file_share"}
        return self.slack.world.say(where.channel, PEOPLE[author], escaped(text), where.thread, **more)

    async def edit(self, id: str, text: str, address: Address | None = None) -> None:
        self.slack.world.edit((address or HERE).channel, id, escaped(text))

    async def delete(self, id: str, address: Address | None = None) -> None:
        self.slack.world.remove((address or HERE).channel, id)

    async def press(self, post: Post, label: str, address: Address | None = None) -> None:
        await self.slack.press((address or HERE).channel, "UANN", post.id, label)

    async def repeat(self, id: str, address: Address | None = None) -> None:
        for one in self.slack.envelopes:
            if one.body["payload"].get("event", {}).get("ts") == id:
                await self.slack.redeliver(one)
                return

    async def trouble(self, kind: str, address: Address | None = None) -> None:
        match kind:
            case "limited":
                self.slack.refuse("chat.postMessage", "ratelimited", retry_after=1)
            case "refused":
                self.slack.refuse("chat.postMessage", "is_archived")
            case _:
                self.slack.cut("chat.postMessage", kind.removeprefix("cut "))

    async def seen(self, address: Address | None = None) -> list[Post]:
        where = address or HERE
        return [
            Post(
                ts,
                read(str(one["text"])),
                files=tuple(
                    (str(file["title"]), self.slack.world.files.stored[file["id"]].content or b"")
                    for file in one.get("files", ())
                ),
                buttons=tuple(buttons_of(one)),
            )
            for ts, one in sorted(self.slack.world.channel(where.channel).messages.items())
            if one.get("bot_id") == "B0AGENT" and one.get("thread_ts") == where.thread
        ]

    def _reactions(self, address: Address | None) -> list[str]:
        messages = self.slack.world.channel((address or HERE).channel).messages
        return [name for one in messages.values() for name in one.get("reactions", ())]

    async def receipts(self, address: Address | None = None) -> list[str]:
        return [name for name in self._reactions(address) if name != WORKING]

    async def status(self, address: Address | None = None) -> bool:
        statuses = self.slack.world.channel((address or HERE).channel).statuses
        return WORKING in self._reactions(address) or bool(statuses and statuses[-1][1])

    async def registered(self) -> list[str]:
        raise Impossible("Slash commands stand in the manifest.")


class TestSlack(AdapterContract):
    @pytest.fixture
    async def driver(self, slack: FakeSlack) -> AsyncIterator[Driver]:
        driver = SlackDriver(slack)
        retries = asyncio.create_task(driver.impatient())
        yield driver
        retries.cancel()


class TestSlackOverHttp(AdapterContract):
    """The same, delivered by signed requests."""

    @pytest.fixture
    async def driver(self, slack: FakeSlack) -> AsyncIterator[Driver]:
        async with Receiver() as receiver:
            slack.push = receiver.url
            driver = SlackDriver(slack, receiver)
            retries = asyncio.create_task(driver.impatient())
            yield driver
            retries.cancel()
