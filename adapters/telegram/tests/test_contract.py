"""The contract of all adapters, on the strict Telegram."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from hermes_core.adapter import Adapter
from hermes_core.config import Secrets
from hermes_core.messages import Address
from hermes_core.testing.adapter_contract import AdapterContract
from hermes_core.testing.driver import Driver, Impossible, Post, opened
from hermes_core.testing.platforms.telegram import Fault, Refusal, TelegramServer, flood
from hermes_telegram.plugin import TelegramPlugin
from hermes_telegram.settings import Settings

ANN: Final = 7
FORUM: Final = -200
TROUBLES: Final = {
    "limited": Fault(flood(1)),
    "cut before": Fault(cut="before"),
    "cut after": Fault(cut="after"),
    "refused": Fault(Refusal(403, "Forbidden: bot was blocked by the user")),
}


class TelegramDriver:
    """Ann's private chat with the bot, and a forum in which she makes topics."""

    without: frozenset[str] = frozenset()

    def __init__(self, telegram: TelegramServer) -> None:
        self._telegram = telegram
        self._token = telegram.token
        self._topics = itertools.count(5)
        telegram.chat(ANN)
        telegram.chat(FORUM, forum=True)

    def open(self, folder: Path) -> Adapter:
        settings = Settings(
            base_url=self._telegram.base_url,
            paced=False,
            quotes="always",
            secrets=Secrets({"TELEGRAM_BOT_TOKEN": self._telegram.token}),
        )
        return opened(TelegramPlugin(settings), folder)

    async def shut(self, how: str) -> None:
        self._telegram.token = "42:another" if how == "token" else self._token
        if how == "down":
            await self._telegram.close()
        elif not how:
            await self._telegram.start()

    def person(self, name: str) -> str:
        return {"ann": "7", "ben": "8"}[name]

    def home(self) -> Address:
        return Address("telegram", str(self._telegram.id), str(ANN))

    def thread(self) -> Address:
        topic = next(self._topics)
        self._telegram.chat(FORUM).topics.add(topic)
        return Address("telegram", str(self._telegram.id), str(FORUM), str(topic))

    async def say(
        self,
        text: str,
        address: Address | None = None,
        author: str = "ann",
        *,
        reply_to: str | None = None,
        files: tuple[tuple[str, bytes], ...] = (),
    ) -> str:
        if author == "robot":
            raise Impossible("no other bot is in a private chat")
        more: dict[str, Any] = {}
        chat = int((address or self.home()).channel)
        if address is not None and address.thread is not None:
            text = f"@{self._telegram.username} {text}"
            more |= {"message_thread_id": int(address.thread), "is_topic_message": True}
        if reply_to is not None:
            more["reply_to_message"] = self._telegram.chat(chat).messages[int(reply_to)]
        user = int(self.person(author))
        if not files:
            return str(self._telegram.say(text, chat, user, **more)["message_id"])
        said = []
        for n, (name, content) in enumerate(files):
            self._telegram.store(f"from-{name}", content)
            document = {"file_id": f"from-{name}", "file_unique_id": name, "file_size": len(content)}
            media_type = "text/plain" if name.endswith(".txt") else "application/octet-stream"
            more["document"] = {**document, "file_name": name, "mime_type": media_type}
            caption: dict[str, Any] = {"caption": text} if n == 0 else {}
            said.append(self._telegram.say("", chat, user, media_group_id="1", **caption, **more))
        return str(said[0]["message_id"])

    async def edit(self, id: str, text: str, address: Address | None = None) -> None:
        self._telegram.edit(self._message(id), text)

    async def delete(self, id: str, address: Address | None = None) -> None:
        raise Impossible("a bot is not told")

    async def press(self, post: Post, label: str, address: Address | None = None) -> None:
        self._telegram.press(self._message(post.id), label)

    async def repeat(self, id: str, address: Address | None = None) -> None:
        self._telegram.repeat(self._message(id))

    async def trouble(self, kind: str, address: Address | None = None) -> None:
        self._telegram.fail("sendMessage", TROUBLES[kind])

    async def seen(self, address: Address | None = None) -> list[Post]:
        place = address or self.home()
        thread = None if place.thread is None else int(place.thread)
        return [self._post(one) for one in self._telegram.sent(int(place.channel), thread)]

    def _post(self, message: dict[str, Any]) -> Post:
        answered = message.get("reply_to_message")
        rows = message.get("reply_markup", {}).get("inline_keyboard", ())
        return Post(
            str(message["message_id"]),
            message.get("text", message.get("caption", "")),
            str(answered["message_id"]) if answered else None,
            tuple(self._telegram.files_of(message)),
            tuple(button["text"] for row in rows for button in row),
        )

    async def receipts(self, address: Address | None = None) -> list[str]:
        return list(self._telegram.chat(int((address or self.home()).channel)).reactions.values())

    async def status(self, address: Address | None = None) -> bool:
        return self._telegram.typing(int((address or self.home()).channel))

    async def registered(self) -> list[str]:
        return [one["command"] for one in self._telegram.commands]

    def _message(self, id: str) -> dict[str, Any]:
        return self._telegram.chat(ANN).messages[int(id)]


class TestTelegram(AdapterContract):
    """Polling; the webhook differs in nothing but the way in, and has tests of its own."""

    @pytest.fixture
    async def driver(self) -> AsyncIterator[Driver]:
        async with TelegramServer() as telegram:
            yield TelegramDriver(telegram)
