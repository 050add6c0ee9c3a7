"""What is on the fake Slack: channels, messages, reactions; and what a call to its Web API does to it.

`World.call` answers as Slack does, with Slack's error codes. It does no I/O: events that follow from a
call are handed to `emit`.
"""

from __future__ import annotations

import copy
import itertools
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

__all__ = ["BOT", "Channel", "Refusal", "World", "form", "slash_payload"]

BOT: Final = {
    "user_id": "U0AGENT",
    "bot_id": "B0AGENT",
    "user": "hermes",
    "team_id": "T0TEAM",
    "app_id": "A0APP",
}

POST_LIMIT: Final = 40_000
UPDATE_LIMIT: Final = 4_000


class Refusal(Exception):
    """Slack's `{"ok": false, "error": …}`."""

    def __init__(self, error: str, **more: Any) -> None:
        super().__init__(error)
        self.error = error
        self.more = more


@dataclass
class Channel:
    """A conversation of Slack's: `kind` is im, channel, group or mpim."""

    id: str
    kind: str = "channel"
    joined: bool = True
    archived: bool = False
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    statuses: list[tuple[str, str]] = field(default_factory=list)

    def thread(self, ts: str) -> list[dict[str, Any]]:
        """The first message of a thread and its answers, oldest first."""
        return [one for key, one in sorted(self.messages.items()) if key == ts or one.get("thread_ts") == ts]


class World:
    """One workspace. `emit` gets the inner event of what happened."""

    def __init__(self, emit: Callable[[dict[str, Any]], None]) -> None:
        self.channels: dict[str, Channel] = {}
        self.people = {"UANN": "Ann", "UBOB": "Bob"}
        self._emit = emit
        self._count = itertools.count(1)
        self._second = int(time.time())

    def channel(self, id: str) -> Channel:
        """The channel with this id; made at the first mention. D… are direct chats."""
        if id not in self.channels:
            self.channels[id] = Channel(id, "im" if id.startswith("D") else "channel")
        return self.channels[id]

    def ts(self) -> str:
        """The next time stamp; never the same twice."""
        return f"{self._second}.{next(self._count):06d}"

    # -- people

    def say(self, channel: str, user: str, text: str, thread: str | None = None, **more: Any) -> str:
        """A person writes; gives the message's time stamp. Mentions come as `message` and as `app_mention`."""
        place = self.channel(channel)
        message = {
            "type": "message",
            "user": user,
            "text": text,
            "ts": self.ts(),
            "team": BOT["team_id"],
            **more,
        }
        if thread is not None:
            message["thread_ts"] = thread
            parent = place.messages.get(thread)
            if parent is not None:
                parent.setdefault("thread_ts", thread)
                message["parent_user_id"] = parent.get("user")
        place.messages[message["ts"]] = message
        event = {**message, "channel": channel, "channel_type": place.kind, "event_ts": message["ts"]}
        if place.joined:
            self._emit(event)
        if f"<@{BOT['user_id']}>" in text and place.kind != "im":
            mention = {
                key: value for key, value in event.items() if key not in ("channel_type", "parent_user_id")
            }
            self._emit({**mention, "type": "app_mention"})
        return str(message["ts"])

    def edit(self, channel: str, ts: str, text: str) -> None:
        """A person edits a message."""
        message = self.channel(channel).messages[ts]
        before = copy.deepcopy(message)
        message.update(text=text, edited={"user": message["user"], "ts": self.ts()})
        self._changed(channel, message, before)

    def unfurl(self, channel: str, ts: str) -> None:
        """Slack shows a link in full: an event like an edit, though nobody edited."""
        message = self.channel(channel).messages[ts]
        before = copy.deepcopy(message)
        message["attachments"] = [{"id": 1, "fallback": "a page"}]
        self._changed(channel, message, before)

    def remove(self, channel: str, ts: str) -> None:
        """A person deletes a message."""
        self._removed(channel, self.channel(channel).messages.pop(ts))

    def _changed(self, channel: str, message: dict[str, Any], before: dict[str, Any]) -> None:
        self._emit(
            {
                "type": "message",
                "subtype": "message_changed",
                "hidden": True,
                "channel": channel,
                "channel_type": self.channel(channel).kind,
                "ts": self.ts(),
                "message": copy.deepcopy(message),
                "previous_message": before,
            }
        )

    def _removed(self, channel: str, message: dict[str, Any]) -> None:
        self._emit(
            {
                "type": "message",
                "subtype": "message_deleted",
                "hidden": True,
                "channel": channel,
                "channel_type": self.channel(channel).kind,
                "ts": self.ts(),
                "deleted_ts": message["ts"],
                "previous_message": message,
            }
        )

    # -- the Web API

    def call(self, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What the method answers, without `ok`; `Refusal` with Slack's code."""
        found = _METHODS.get(method)
        if found is None:
            raise Refusal("unknown_method", req_method=method)
        return found(self, arguments)

    def _place(self, arguments: Mapping[str, Any], key: str = "channel", *, writes: bool = True) -> Channel:
        place = self.channels.get(str(arguments.get(key) or ""))
        if place is None:
            raise Refusal("channel_not_found")
        if not place.joined:
            raise Refusal("not_in_channel")
        if writes and place.archived:
            raise Refusal("is_archived")
        return place

    def _own(self, place: Channel, ts: Any, refusal: str) -> dict[str, Any]:
        message = place.messages.get(str(ts))
        if message is None:
            raise Refusal("message_not_found")
        if message.get("bot_id") != BOT["bot_id"]:
            raise Refusal(refusal)
        return message

    def _auth(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {"url": "https://example.slack.com/", "team": "Example", **BOT, "is_enterprise_install": False}

    def _post(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        place = self._place(arguments)
        text = _text(arguments, POST_LIMIT)
        message: dict[str, Any] = {
            "type": "message",
            "user": BOT["user_id"],
            "bot_id": BOT["bot_id"],
            "app_id": BOT["app_id"],
            "text": text,
            "ts": self.ts(),
        }
        thread = arguments.get("thread_ts")
        if thread:
            message["thread_ts"] = str(thread)
            parent = place.messages.get(str(thread))
            if parent is not None:
                parent.setdefault("thread_ts", thread)
        metadata = _metadata(arguments)
        if metadata is not None:
            message["metadata"] = metadata
        place.messages[message["ts"]] = message
        self._emit({**message, "channel": place.id, "channel_type": place.kind, "event_ts": message["ts"]})
        return {"channel": place.id, "ts": message["ts"], "message": copy.deepcopy(message)}

    def _update(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        place = self._place(arguments)
        message = self._own(place, arguments.get("ts"), "cant_update_message")
        text = _text(arguments, UPDATE_LIMIT)
        before = copy.deepcopy(message)
        message["text"] = text
        metadata = _metadata(arguments)
        if metadata is not None:
            message["metadata"] = metadata
        self._changed(place.id, message, before)
        return {"channel": place.id, "ts": message["ts"], "text": text}

    def _delete(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        place = self._place(arguments)
        message = self._own(place, arguments.get("ts"), "cant_delete_message")
        del place.messages[message["ts"]]
        self._removed(place.id, message)
        return {"channel": place.id, "ts": message["ts"]}

    def _history(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        place = self._place(arguments, writes=False)
        tops = [one for one in place.messages.values() if one.get("thread_ts") in (None, one["ts"])]
        return _page(sorted(tops, key=lambda one: str(one["ts"]), reverse=True), arguments)

    def _replies(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        place = self._place(arguments, writes=False)
        found = place.thread(str(arguments.get("ts") or ""))
        if not found:
            raise Refusal("thread_not_found")
        return _page(found, arguments)

    def _react(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        place = self._place(arguments)
        message = place.messages.get(str(arguments.get("timestamp")))
        if message is None:
            raise Refusal("message_not_found")
        name = str(arguments.get("name") or "")
        if not name or ":" in name:
            raise Refusal("invalid_name")
        names = message.setdefault("reactions", [])
        if name in names:
            raise Refusal("already_reacted")
        names.append(name)
        return {}

    def _user(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        user = str(arguments.get("user") or "")
        if user not in self.people:
            raise Refusal("user_not_found")
        name = self.people[user]
        profile = {"display_name": name, "real_name": f"{name} Example"}
        return {"user": {"id": user, "name": name.lower(), "is_bot": False, "profile": profile}}

    def _status(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        place = self._place(arguments, "channel_id")
        if not arguments.get("thread_ts") or str(arguments["thread_ts"]) not in place.messages:
            raise Refusal("invalid_thread_ts")
        if "status" not in arguments:
            raise Refusal("invalid_arguments")
        place.statuses.append((str(arguments["thread_ts"]), str(arguments["status"])))
        return {}


def slash_payload(channel: str, user: str, command: str, text: str, trigger: str) -> dict[str, Any]:
    """What Slack says of a slash command, over Socket Mode as JSON, over HTTP as a form."""
    return {
        "command": command,
        "text": text,
        "user_id": user,
        "user_name": user.lower(),
        "channel_id": channel,
        "channel_name": "directmessage" if channel.startswith("D") else "general",
        "team_id": BOT["team_id"],
        "api_app_id": BOT["app_id"],
        "response_url": "https://hooks.example/commands/1",
        "trigger_id": trigger,
    }


def form(payload: Mapping[str, Any]) -> bytes:
    """A payload as the body of a form."""
    return urlencode(payload).encode()


def _text(arguments: Mapping[str, Any], limit: int) -> str:
    text = arguments.get("text")
    if not isinstance(text, str) or not text.strip():
        raise Refusal("no_text")
    if len(text) > limit:
        raise Refusal("msg_too_long")
    return text


def _metadata(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    given = arguments.get("metadata")
    if given is None:
        return None
    try:
        metadata = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        raise Refusal("invalid_metadata_format") from None
    if not isinstance(metadata, dict) or not metadata.get("event_type"):
        raise Refusal("invalid_metadata_schema")
    if not isinstance(metadata.get("event_payload"), dict):
        raise Refusal("invalid_metadata_schema")
    if len(json.dumps(metadata)) > 16_000:
        raise Refusal("metadata_too_large")
    return metadata


def _page(messages: list[dict[str, Any]], arguments: Mapping[str, Any]) -> dict[str, Any]:
    oldest, latest = str(arguments.get("oldest") or "0"), str(arguments.get("latest") or "9" * 12)
    ends = (oldest, latest) if str(arguments.get("inclusive") or "0").lower() in ("1", "true") else ()
    within = [
        one for one in messages if float(oldest) < float(one["ts"]) < float(latest) or str(one["ts"]) in ends
    ]
    start = int(str(arguments.get("cursor") or "0"))
    limit = min(int(arguments.get("limit") or 100), 999)
    page = copy.deepcopy(within[start : start + limit])
    if str(arguments.get("include_all_metadata") or "0").lower() not in ("1", "true"):
        for one in page:
            one.pop("metadata", None)
    more = start + limit < len(within)
    cursor = {"response_metadata": {"next_cursor": str(start + limit)}} if more else {}
    return {"messages": page, "has_more": more, **cursor}


_METHODS: Final[dict[str, Callable[[World, Mapping[str, Any]], dict[str, Any]]]] = {
    "assistant.threads.setStatus": World._status,
    "auth.test": World._auth,
    "chat.delete": World._delete,
    "chat.postMessage": World._post,
    "chat.update": World._update,
    "conversations.history": World._history,
    "conversations.replies": World._replies,
    "reactions.add": World._react,
    "users.info": World._user,
}
