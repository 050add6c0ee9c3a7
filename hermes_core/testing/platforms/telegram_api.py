"""BotAPI: the calls of the Telegram fake: what each does to the chats, and what it refuses; and how updates leave."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hermes_core.testing.platforms import telegram_media as media
from hermes_core.testing.platforms import telegram_wire as wire
from hermes_core.testing.platforms.telegram_rules import (
    GENERAL,
    Call,
    Chat,
    Fault,
    Limits,
    Refusal,
    check_commands,
    check_keyboard,
    check_text,
    decoded,
    flood,
)
from hermes_core.testing.platforms.window import Window

__all__ = ["ANN", "BotAPI"]

ANN: Final = 7  # the person who writes where nobody else is named; also the id of her private chat
_PACED: Final = frozenset(
    {"sendMessage", "sendPhoto", "sendDocument", "editMessageText", "editMessageCaption"}
    | {"deleteMessage", "sendChatAction"}
)
Checked = Callable[[], tuple[str, list[dict[str, Any]]]]
_REACTIONS: Final = frozenset("👍👎🔥🎉🤔👌👀⚡🫡✍")


class BotAPI:
    """The server's side of the fake; `TelegramServer` is the people's."""

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
            if self._windows.setdefault(key, Window(count, seconds)).take(now):
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
        return self._edit(
            parameters, "text", lambda: check_text(parameters.get("text"), parameters.get("entities"))
        )

    async def _on_editmessagecaption(self, parameters: dict[str, Any], gone: asyncio.Event) -> Any:
        return self._edit(parameters, "caption", lambda: media.checked_caption(parameters))

    def _edit(self, parameters: dict[str, Any], what: str, checked: Checked) -> Any:
        _, message = self._own(parameters, "edit")
        if ("text" in message) != (what == "text"):
            raise Refusal(400, f"Bad Request: there is no {what} in the message to edit")
        text, marks = checked()
        entities = "entities" if what == "text" else "caption_entities"
        keyboard = check_keyboard(parameters.get("reply_markup"))
        shown = (message.get(what, ""), message.get(entities, []), message.pop("reply_markup", None))
        if keyboard is not None:
            message["reply_markup"] = keyboard
        if (text, marks, keyboard) == shown:
            raise Refusal(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup are exactly "
                "the same as a current content and reply markup of the message",
            )
        message |= {what: text, entities: marks, "edit_date": int(time.time())}
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
