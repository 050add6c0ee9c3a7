"""What is on the fake Slack: channels, messages, reactions; and what a call to its Web API does to it.

`World.call` answers as Slack does, with Slack's error codes. It does no I/O: events that follow from a
call are handed to `emit`.
"""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from hermes_core.testing.platforms.slack_files import Files
from hermes_core.testing.platforms.slack_rules import BOT, Refusal, blocks_of, metadata, text_of
from hermes_core.testing.platforms.slack_streams import Streams

__all__ = ["Channel", "World"]

POST_LIMIT: Final = 40_000
UPDATE_LIMIT: Final = 4_000


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
        self.files = Files(self._share)
        self.streams = Streams(self._message, self._own_of)
        self._more = {**self.files.methods, **self.streams.methods}

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

    def quiet(self, channel: str, user: str = "UANN") -> str:
        """A message of long ago, of which nobody is told; gives its time stamp."""
        ts = self.ts()
        self.channel(channel).messages[ts] = {"type": "message", "user": user, "text": "long ago", "ts": ts}
        return ts

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
        if method in self._more:
            return self._more[method](arguments)
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
        text = text_of(arguments, POST_LIMIT)
        blocks, data = blocks_of(arguments), metadata(arguments)
        more = {name: one for name, one in (("blocks", blocks), ("metadata", data)) if one}
        message = self._message(arguments, text, more)
        return {"channel": arguments["channel"], "ts": message["ts"], "message": copy.deepcopy(message)}

    def _share(self, arguments: Mapping[str, Any], file: dict[str, Any]) -> str:
        where = {"channel": arguments["channel_id"], "thread_ts": arguments.get("thread_ts")}
        text = str(arguments.get("initial_comment") or "")
        return str(self._message(where, text, {"files": [file], "subtype": "file_share"})["ts"])

    def _message(
        self, arguments: Mapping[str, Any], text: str, more: Mapping[str, Any] = MappingProxyType({})
    ) -> dict[str, Any]:
        """The agent writes."""
        place = self._place(arguments)
        message: dict[str, Any] = {
            "type": "message",
            "user": BOT["user_id"],
            "bot_id": BOT["bot_id"],
            "app_id": BOT["app_id"],
            "text": text,
            "ts": self.ts(),
            **more,
        }
        thread = arguments.get("thread_ts")
        if thread:
            message["thread_ts"] = str(thread)
            parent = place.messages.get(str(thread))
            if parent is not None:
                parent.setdefault("thread_ts", thread)
        place.messages[message["ts"]] = message
        self._emit({**message, "channel": place.id, "channel_type": place.kind, "event_ts": message["ts"]})
        return message

    def _own_of(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return self._own(self._place(arguments), arguments.get("ts"), "cant_update_message")

    def _update(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        place = self._place(arguments)
        message = self._own(place, arguments.get("ts"), "cant_update_message")
        text, blocks = text_of(arguments, UPDATE_LIMIT), blocks_of(arguments)
        if message.get("streaming"):
            raise Refusal("streaming_state_conflict")
        before = copy.deepcopy(message)
        message["text"] = text
        if blocks is not None:
            message["blocks"] = blocks
        data = metadata(arguments)
        if data is not None:
            message["metadata"] = data
        self._changed(place.id, message, before)
        return {"channel": place.id, "ts": message["ts"], "text": text}

    def _delete(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        place = self._place(arguments)
        message = self._own(place, arguments.get("ts"), "cant_delete_message")
        if message.get("streaming"):
            raise Refusal("cant_delete_message")
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

    def _unreact(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        message = self._place(arguments).messages.get(str(arguments.get("timestamp")))
        if message is None:
            raise Refusal("message_not_found")
        if arguments.get("name") not in message.get("reactions", ()):
            raise Refusal("no_reaction")
        message["reactions"].remove(arguments["name"])
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
    "reactions.remove": World._unreact,
    "users.info": World._user,
}
