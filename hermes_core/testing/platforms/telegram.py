"""TelegramServer: the Bot API on loopback, as strict as the platform is.

It answers real HTTP requests of a real client library, keeps chats as people would see them, and delivers
what `say`, `edit` and `repeat` bring: by long polling with offsets, or to the webhook that was set. It
refuses what Telegram refuses, with Telegram's error texts: text over 4096 code points, entities outside of
the text (offsets in UTF-16), an edit that changes nothing, a topic that is not there, `message_thread_id`
of the General topic, a second poller, too many commands, too many calls (`limits`).

    async with TelegramServer() as telegram:
        telegram.say("hello")                      # in the private chat of user 7
        adapter = ...                              # base_url = telegram.base_url, token = telegram.token
        await telegram.shown("Hello!")             # until some chat shows it
        telegram.fail("sendMessage", Fault(cut="after"))
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Any, Final, Self

from hermes_core.testing.platforms.telegram_api import ANN, BotAPI
from hermes_core.testing.platforms.telegram_rules import (
    Call,
    Chat,
    Fault,
    Limits,
    Refusal,
    flood,
    in_utf16,
)

__all__ = ["Call", "Chat", "Fault", "Limits", "Refusal", "TelegramServer", "flood"]

TYPING: Final = 5.0


class TelegramServer(BotAPI):
    """See the head of this module. `privacy`: in groups only what is meant for the bot is delivered.

    `folder`: it is one's own server, begun with `--local`, and keeps files there.
    """

    async def start(self) -> Self:
        """Listen; after `close` again on the same port, with all that is kept."""
        await self._listener.start()
        return self

    async def close(self) -> None:
        """Drop every connection and stop listening."""
        for task in self._tasks:
            task.cancel()
        await self._listener.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @property
    def base_url(self) -> str:
        """What `[adapters.telegram] base_url` is to be."""
        return self._listener.root

    @property
    def open_connections(self) -> int:
        """How many connections there are now."""
        return self._listener.connections

    # ---- as people

    def chat(self, id: int = ANN, kind: str = "", title: str = "", **more: Any) -> Chat:
        """The chat with this id, made if it is not there: private, or a supergroup where the id is negative."""
        if id not in self.chats:
            kind = kind or ("private" if id > 0 else "supergroup")
            self.chats[id] = Chat(id, kind, title or f"Chat {id}", **more)
        return self.chats[id]

    def say(
        self,
        text: str = "",
        chat: int = ANN,
        user: int = ANN,
        *,
        sender: dict[str, Any] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Write as a person; gives the message. `more` are fields of it (`photo`, `reply_to_message`, …).

        `sender` stands in place of the person: another bot, a channel.

        Entities for commands, and for mentions of the bot, are made as Telegram makes them.
        """
        place = self.chat(chat)
        message: dict[str, Any] = {
            "message_id": place.take_id(),
            "from": sender or {"id": user, "is_bot": False, "first_name": f"User {user}"},
            "chat": place.as_json,
            "date": int(time.time()),
        }
        if text:
            message["text"] = text
            message["entities"] = [*more.pop("entities", ()), *self._found(text)]
        message.update(more)
        place.messages[message["message_id"]] = message
        if place.kind == "private" or not self._privacy or self._meant(message):
            self._deliver("message", message)
        return message

    def edit(self, message: dict[str, Any], text: str) -> None:
        """Edit a message as its writer."""
        edited = {**message, "text": text, "edit_date": int(time.time()), "entities": self._found(text)}
        self.chats[message["chat"]["id"]].messages[message["message_id"]] = edited
        self._deliver("edited_message", edited)

    def repeat(self, message: dict[str, Any]) -> None:
        """Deliver a message a second time, under an update id of its own."""
        self._deliver("message", message)

    def redeliver(self) -> None:
        """Deliver the latest update once more, under an update id of its own."""
        kind, what = next((kind, what) for kind, what in self._last.items() if kind != "update_id")
        self._deliver(kind, what)

    def press(self, message: dict[str, Any], label: str, user: int = ANN, *, old: bool = False) -> str:
        """Press a button as a person; gives the query's id. `old`: Telegram tells no more of the message."""
        buttons = itertools.chain.from_iterable(message["reply_markup"]["inline_keyboard"])
        query = str(next(self._update_ids))
        self.presses[query] = None
        under = {"chat": message["chat"], "message_id": message["message_id"], "date": 0} if old else message
        self._deliver(
            "callback_query",
            {
                "id": query,
                "from": {"id": user, "is_bot": False, "first_name": f"User {user}"},
                "message": under,
                "chat_instance": "1",
                "data": next(one["callback_data"] for one in buttons if one["text"] == label),
            },
        )
        return query

    def migrate(self, chat: int, to: int) -> None:
        """Upgrade a group to the supergroup `to`; the service messages of both are delivered."""
        old, new = self.chat(chat, "group"), self.chat(to, "supergroup", self.chat(chat).title)
        old.migrated = to
        self.say(chat=chat, migrate_to_chat_id=to)
        self.say(chat=to, migrate_from_chat_id=chat)
        assert new.kind == "supergroup"

    def fail(self, method: str, *faults: Fault) -> None:
        """Let the next calls of this method go wrong, in this order; "file" is a download, cut in its middle."""
        self._faults[method].extend(faults)

    def failing(self, method: str) -> bool:
        """Whether the next call of this method goes wrong."""
        return bool(self._faults[method])

    # ---- what there is to see

    def texts(self, chat: int = ANN, thread: int | None = None) -> list[str]:
        """What the bot's messages in this chat show, oldest first; of a file its caption."""
        return [one.get("text", one.get("caption", "")) for one in self.sent(chat, thread)]

    def sent(self, chat: int = ANN, thread: int | None = None) -> list[dict[str, Any]]:
        """The bot's messages in this chat, oldest first."""
        return [
            one
            for one in self.chat(chat).messages.values()
            if one["from"]["id"] == self.id and (thread is None or one.get("message_thread_id") == thread)
        ]

    def sent_files(self, chat: int = ANN) -> list[tuple[str, bytes]]:
        """Name, or "photo", and content of the files that the bot sent to this chat, oldest first."""
        return [file for one in self.sent(chat) for file in self.files_of(one)]

    def files_of(self, message: dict[str, Any]) -> list[tuple[str, bytes]]:
        """Name, or "photo", and content of the file in a message, if there is one."""
        file = message["photo"][-1] if "photo" in message else message.get("document")
        if file is None:
            return []
        return [(file.get("file_name", "photo"), self.files[f"documents/{file['file_id']}"])]

    def typing(self, chat: int = ANN) -> bool:
        """Whether people see the bot type: for 5 s, or until its next message."""
        calls = [one for one in self.calls if one.chat == chat and one.method.startswith("send")]
        now = asyncio.get_running_loop().time()
        return bool(calls) and calls[-1].method == "sendChatAction" and now - calls[-1].at < TYPING

    def called(self, method: str, chat: int | None = None) -> list[Call]:
        """The calls of this method so far."""
        return [one for one in self.calls if one.method == method and chat in (None, one.chat)]

    async def until(self, condition: Callable[[], bool], within: float = 10.0) -> None:
        """Wait until the condition holds; it is looked at after every call. `TimeoutError`."""
        async with asyncio.timeout(within), self._changed:
            await self._changed.wait_for(condition)

    async def shown(self, text: str, chat: int = ANN, within: float = 10.0) -> None:
        """Wait until a message of the bot in this chat shows exactly `text`."""
        await self.until(lambda: text in self.texts(chat), within)

    # ---- inside

    def _found(self, text: str) -> list[dict[str, Any]]:
        found = []
        if text.startswith("/"):
            found.append({"type": "bot_command", "offset": 0, "length": in_utf16(text.split()[0])})
        at = text.lower().find(f"@{self.username}")
        if at >= 0 and not text.startswith("/"):
            length = len(self.username) + 1
            found.append({"type": "mention", "offset": in_utf16(text[:at]), "length": length})
        return found

    def _meant(self, message: dict[str, Any]) -> bool:
        """Whether privacy mode lets it through."""
        reply = message.get("reply_to_message", {}).get("from", {}).get("id")
        service = "text" not in message and "caption" not in message and "photo" not in message
        entities = (*message.get("entities", ()), *message.get("caption_entities", ()))
        return service or reply == self.id or any(e["type"] in ("bot_command", "mention") for e in entities)
