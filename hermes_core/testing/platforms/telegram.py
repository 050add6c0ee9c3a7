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
import json
import time
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Self

from hermes_core.testing.platforms import telegram_media as media
from hermes_core.testing.platforms import telegram_wire as wire
from hermes_core.testing.platforms.telegram_rules import (
    GENERAL,
    Call,
    Chat,
    Fault,
    Limits,
    Refusal,
    Window,
    check_commands,
    check_keyboard,
    check_text,
    decoded,
    flood,
    in_utf16,
)

__all__ = ["Call", "Chat", "Fault", "Limits", "Refusal", "TelegramServer", "flood"]

ANN: Final = 7  # the person who writes where nobody else is named; also the id of her private chat
TYPING: Final = 5.0
_PACED: Final = frozenset(
    {"sendMessage", "sendPhoto", "sendDocument", "editMessageText", "deleteMessage", "sendChatAction"}
)
_REACTIONS: Final = frozenset("👍👎🔥🎉🤔👌👀⚡🫡✍")


class TelegramServer:
    """See the head of this module. `privacy`: in groups only what is meant for the bot is delivered.

    `folder`: it is one's own server, begun with `--local`, and keeps files there.
    """

    def __init__(
        self,
        token: str = "42:test-token",  # noqa: S107 - of a server that this is
        username: str = "hermes_bot",
        *,
        limits: Limits | None = None,
        privacy: bool = True,
        folder: Path | None = None,
    ) -> None:
        self.token = token
        self.username = username
        self.folder = folder
        self.max_upload = media.MAX_UPLOAD
        self.id = int(token.split(":")[0])
        self.calls: list[Call] = []
        self.chats: dict[int, Chat] = {}
        self.commands: list[dict[str, str]] = []
        self.files: dict[str, bytes] = {}
        self.presses: dict[str, str | None] = {}  # by query: what was answered; None while the client waits
        self.webhook = ""
        self.offset = 0  # updates below it are confirmed
        self._secret = ""
        self._allowed: list[str] = []
        self._last: dict[str, Any] = {}
        self._push_error: tuple[int, str] | None = None
        self._limits = limits
        self._privacy = privacy
        self._listener = wire.Listener(self._answer)
        self._updates: deque[dict[str, Any]] = deque()
        self._update_ids = itertools.count(1000)
        self._faults: dict[str, deque[Fault]] = defaultdict(deque)
        self._windows: dict[tuple[int, str], Window] = {}
        self._changed = asyncio.Condition()
        self._poller: asyncio.Event | None = None
        self._tasks: set[asyncio.Task[None]] = set()

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

    # ---- inside: delivery

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

    def _deliver(self, kind: str, message: dict[str, Any]) -> None:
        if self._allowed and kind not in self._allowed:
            return
        self._last = {"update_id": next(self._update_ids), kind: message}
        self._updates.append(self._last)
        self._spawn(self._push() if self.webhook else self._notify())

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _push(self) -> None:
        """To the webhook, in order; what is not taken is brought again."""
        while self._updates and self.webhook:
            update = self._updates[0]
            try:
                status = await wire.post(
                    self.webhook, update, {"X-Telegram-Bot-Api-Secret-Token": self._secret}
                )
            except OSError:
                status = 0
            if status != 200:
                why = f"Wrong response from the webhook: {status}" if status else "Connection refused"
                self._push_error = (int(time.time()), why)
            if status == 200 and self._updates and self._updates[0] is update:
                self._updates.popleft()
                self.offset = update["update_id"] + 1
                await self._notify()
            elif status != 200:
                await asyncio.sleep(0.05)

    # ---- inside: calls

    async def _answer(self, request: wire.Incoming) -> wire.Answer:
        parts = request.path.strip("/").split("/")
        if parts[:1] == ["file"] and parts[1:2] == [f"bot{self.token}"]:
            return self._file("/".join(parts[2:]))
        method = parts[1] if len(parts) > 1 else ""
        parameters = decoded(request.parameters)
        parameters.update(request.files)
        at, outcome = asyncio.get_running_loop().time(), "ok"
        fault = self._faults[method].popleft() if self._faults[method] else Fault()
        try:
            if parts[0] != f"bot{self.token}":
                raise Refusal(401, "Unauthorized")
            if fault.cut == "silent":
                await request.gone.wait()
            if fault.cut in ("before", "silent"):
                raise wire.Hung
            if fault.refusal is not None:
                raise fault.refusal
            handler = getattr(self, f"_on_{method.lower()}", None)
            if handler is None:
                raise Refusal(404, "Not Found")
            if method in _PACED:
                self._pace(int(parameters.get("chat_id", 0)), at)
            result = await handler(parameters, request.gone)
            if fault.cut == "after":
                raise wire.Hung
        except Refusal as refusal:
            outcome = refusal.description
            body: dict[str, Any] = {"ok": False, "error_code": refusal.code, "description": outcome}
            if refusal.parameters:
                body["parameters"] = refusal.parameters
            return wire.Answer(refusal.code, json.dumps(body).encode())
        except wire.Hung:
            outcome = "cut"
            raise
        finally:
            self.calls.append(Call(method, parameters, at, outcome))
            await self._notify()
        return wire.Answer(200, json.dumps({"ok": True, "result": result}).encode())

    def _file(self, path: str) -> wire.Answer:
        content = self.files.get(path)
        if content is None:
            return wire.Answer(404, b"{}")
        fault = self._faults["file"].popleft() if self._faults["file"] else Fault()
        return wire.Answer(200, content, {}, len(content) // 2 if fault.cut else None)

    def _pace(self, chat: int, now: float) -> None:
        limits = self._limits
        if limits is None:
            return
        counted = [((chat, "second"), limits.chat, 1.0), ((0, "all"), limits.everywhere, 1.0)]
        if chat < 0:
            counted.append(((chat, "minute"), limits.group, 60.0))
        for key, count, seconds in counted:
            if not self._windows.setdefault(key, Window(count, seconds)).take(now):
                raise flood(limits.retry_after)

    def _place(self, parameters: dict[str, Any], *, general: bool = False) -> Chat:
        """The chat and topic that a call is for; `general`: the id of the General topic may be named."""
        chat = self.chats.get(parameters.get("chat_id", 0))
        if chat is None:
            raise Refusal(400, "Bad Request: chat not found")
        if chat.migrated is not None:
            text = "Bad Request: group chat was upgraded to a supergroup chat"
            raise Refusal(400, text, migrate_to_chat_id=chat.migrated)
        if chat.blocked:
            gone = "blocked by the user" if chat.kind == "private" else f"kicked from the {chat.kind} chat"
            raise Refusal(403, f"Forbidden: bot was {gone}")
        thread = parameters.get("message_thread_id")
        if thread is not None and thread not in chat.topics and not (general and thread == GENERAL):
            raise Refusal(400, "Bad Request: message thread not found")
        return chat

    def _post(self, parameters: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
        chat = self._place(parameters)
        reply = parameters.get("reply_parameters") or {}
        if reply and reply["message_id"] not in chat.messages:
            if not reply.get("allow_sending_without_reply"):
                raise Refusal(400, "Bad Request: message to be replied not found")
            reply = {}
        message = {
            "message_id": chat.take_id(),
            "from": {"id": self.id, "is_bot": True, "first_name": "Hermes", "username": self.username},
            "chat": chat.as_json,
            "date": int(time.time()),
            **content,
        }
        keyboard = check_keyboard(parameters.get("reply_markup"))
        if keyboard is not None:
            message["reply_markup"] = keyboard
        if reply:
            answered = chat.messages[reply["message_id"]]
            message["reply_to_message"] = {k: v for k, v in answered.items() if k != "reply_to_message"}
        if "message_thread_id" in parameters:
            message |= {"message_thread_id": parameters["message_thread_id"], "is_topic_message": True}
        chat.messages[message["message_id"]] = message
        return message

    def _own(self, parameters: dict[str, Any], what: str) -> tuple[Chat, dict[str, Any]]:
        chat = self._place(parameters)
        message = chat.messages.get(parameters["message_id"])
        if message is None:
            raise Refusal(400, f"Bad Request: message to {what} not found")
        if message["from"]["id"] != self.id:
            raise Refusal(400, f"Bad Request: message can't be {what}ed")
        return chat, message

    async def _on_getme(self, parameters: dict[str, Any], gone: asyncio.Event) -> Any:
        return {
            "id": self.id,
            "is_bot": True,
            "first_name": "Hermes",
            "username": self.username,
            "can_join_groups": True,
            "can_read_all_group_messages": not self._privacy,
            "supports_inline_queries": False,
        }

    async def _on_getupdates(self, parameters: dict[str, Any], gone: asyncio.Event) -> Any:
        if self.webhook:
            raise Refusal(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the "
                "webhook first",
            )
        self._allowed = parameters.get("allowed_updates") or self._allowed
        if self._poller is not None:
            self._poller.set()
        replaced = self._poller = asyncio.Event()
        self.offset = max(self.offset, int(parameters.get("offset", 0)))
        while self._updates and self._updates[0]["update_id"] < self.offset:
            self._updates.popleft()
        try:
            if not self._updates and parameters.get("timeout"):
                await self._more(float(parameters["timeout"]), replaced, gone)
            if replaced.is_set():
                raise Refusal(
                    409,
                    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is "
                    "running",
                )
            return list(self._updates)[: int(parameters.get("limit", 100))]
        finally:
            if self._poller is replaced:
                self._poller = None

    async def _more(self, timeout: float, *ends: asyncio.Event) -> None:
        waits = [asyncio.create_task(one.wait()) for one in ends]
        waits.append(asyncio.create_task(self._arrived()))  # type: ignore[arg-type]
        try:
            await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _arrived(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._updates))

    async def _on_sendmessage(self, parameters: dict[str, Any], gone: asyncio.Event) -> Any:
        self._place(parameters)
        text, entities = check_text(parameters.get("text"), parameters.get("entities"))
        return self._post(parameters, {"text": text, "entities": entities})

    async def _on_sendphoto(self, parameters: dict[str, Any], gone: asyncio.Event) -> Any:
        return self._send_file("photo", parameters)

    async def _on_senddocument(self, parameters: dict[str, Any], gone: asyncio.Event) -> Any:
        return self._send_file("document", parameters)

    def _send_file(self, kind: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._place(parameters)
        file_id = f"sent-{next(self._update_ids)}"
        message = self._post(parameters, media.content(kind, parameters, file_id, self.max_upload))
        self.store(file_id, parameters[kind].content)
        return message

    async def _on_answercallbackquery(self, parameters: dict[str, Any], gone: asyncio.Event) -> Any:
        query = parameters["callback_query_id"]
        if self.presses.get(query, "") is not None:
            raise Refusal(
                400, "Bad Request: query is too old and response timeout expired or query ID is invalid"
            )
        self.presses[query] = parameters.get("text", "")
        return True

    async def _on_editmessagetext(self, parameters: dict[str, Any], gone: asyncio.Event) -> Any:
        _, message = self._own(parameters, "edit")
        if "text" not in message:
            raise Refusal(400, "Bad Request: there is no text in the message to edit")
        text, entities = check_text(parameters.get("text"), parameters.get("entities"))
        keyboard = check_keyboard(parameters.get("reply_markup"))
        shown = (message["text"], message["entities"], message.pop("reply_markup", None))
        if keyboard is not None:
            message["reply_markup"] = keyboard
        if (text, entities, keyboard) == shown:
            raise Refusal(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup are exactly "
                "the same as a current content and reply markup of the message",
            )
        message |= {"text": text, "entities": entities, "edit_date": int(time.time())}
        return message

    async def _on_deletemessage(self, parameters: dict[str, Any], gone: asyncio.Event) -> Any:
        chat, message = self._own(parameters, "delete")
        del chat.messages[message["message_id"]]
        return True

    async def _on_sendchataction(self, parameters: dict[str, Any], gone: asyncio.Event) -> Any:
        self._place(parameters, general=True)
        return True

    async def _on_setmessagereaction(self, parameters: dict[str, Any], gone: asyncio.Event) -> Any:
        chat = self._place(parameters)
        if parameters["message_id"] not in chat.messages:
            raise Refusal(400, "Bad Request: message to react not found")
        emojis = [one["emoji"] for one in parameters.get("reaction", ())]
        if len(emojis) > 1:
            raise Refusal(400, "Bad Request: REACTIONS_TOO_MANY")
        if not set(emojis) <= _REACTIONS:
            raise Refusal(400, "Bad Request: REACTION_INVALID")
        chat.reactions[parameters["message_id"]] = "".join(emojis)
        return True

    async def _on_setmycommands(self, parameters: dict[str, Any], gone: asyncio.Event) -> Any:
        check_commands(parameters["commands"])
        self.commands = parameters["commands"]
        return True

    async def _on_setwebhook(self, parameters: dict[str, Any], gone: asyncio.Event) -> Any:
        self.webhook, self._secret = parameters["url"], parameters.get("secret_token", "")
        self._allowed = parameters.get("allowed_updates") or self._allowed
        if self._poller is not None:
            self._poller.set()
        self._spawn(self._push())
        return True

    async def _on_deletewebhook(self, parameters: dict[str, Any], gone: asyncio.Event) -> Any:
        self.webhook = ""
        return True

    async def _on_getwebhookinfo(self, parameters: dict[str, Any], gone: asyncio.Event) -> Any:
        info: dict[str, Any] = {
            "url": self.webhook,
            "has_custom_certificate": False,
            "pending_update_count": len(self._updates),
        }
        if self._push_error is not None:
            info["last_error_date"], info["last_error_message"] = self._push_error
        return info

    async def _on_getfile(self, parameters: dict[str, Any], gone: asyncio.Event) -> Any:
        path = f"documents/{parameters['file_id']}"
        if path not in self.files:
            raise Refusal(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
        size = len(self.files[path])
        if self.folder is not None:  # begun with --local: it gives a path on its disk
            kept = self.folder / path.replace("/", "-")
            if self.folder.exists():  # else it is another machine's disk
                await asyncio.to_thread(kept.write_bytes, self.files[path])
            path = str(kept)
        elif size > media.MAX_DOWNLOAD:
            raise Refusal(400, "Bad Request: file is too big")
        return {"file_id": parameters["file_id"], "file_unique_id": "u", "file_size": size, "file_path": path}

    def store(self, file_id: str, content: bytes) -> None:
        """Keep a file, for `getFile` and the download."""
        self.files[f"documents/{file_id}"] = content
