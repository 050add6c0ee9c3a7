"""From Slack's events and slash commands to our values. Pure; knows no client library and no clock."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hermes_core.messages import Address, Attachment, Author, Message

__all__ = [
    "CHOICE",
    "PLATFORM",
    "Change",
    "Incoming",
    "Me",
    "Removal",
    "delivered",
    "event",
    "is_ts",
    "plain_text",
    "press",
    "slash",
]

PLATFORM: Final = "slack"
CHOICE: Final = "hermes_choice_"  # what the ids of our buttons begin with

# What a person can write; everything else (joins, topics, bots, pins …) is no message to the agent.
_WRITTEN: Final = (None, "file_share", "me_message", "thread_broadcast")
_MARK: Final = re.compile(r"<([^<>\n]+)>")


class Me(msgspec.Struct, frozen=True):
    """The agent's own account: its user id and name, its workspace, which people `called` so, and its slash command."""

    user: str
    name: str = "hermes"
    team: str = ""
    called: str = ""

    @property
    def slash(self) -> str:
        """The one slash command that takes every other as its first word."""
        return self.name


class Incoming(msgspec.Struct, frozen=True):
    """A message. `addressed`: in a direct chat, mentions the agent, or answers a message of the agent.

    One that is not `addressed` is for the agent only where it takes part in that thread already (X4).
    `team` is the workspace of who wrote it; `stands`: it stands in the history of its channel; `respond` is where
    its author alone can be answered, for half an hour.
    """

    message: Message
    addressed: bool
    team: str = ""
    stands: bool = True
    respond: str = ""


class Change(msgspec.Struct, frozen=True):
    """A person edited message `id` (D9)."""

    address: Address
    id: str
    text: str


class Removal(msgspec.Struct, frozen=True):
    """A person deleted message `id` (D9)."""

    address: Address
    id: str


def delivered(payload: Mapping[str, Any], me: Me) -> Incoming | Change | Removal | None:
    """What Slack delivers, of whatever kind: an event, a slash command, the press of a button; None for the rest."""
    if payload.get("type") == "event_callback":
        return event(payload, me)
    if "command" in payload:
        return slash(payload, me)
    if payload.get("type") == "block_actions":
        return press(payload, me)
    return None


def event(payload: Mapping[str, Any], me: Me) -> Incoming | Change | Removal | None:
    """What an `event_callback` says; None for all that is nothing to the agent: bots, its own, notices."""
    inner = _mapping(payload.get("event"))
    kind, subtype = inner.get("type"), inner.get("subtype")
    if kind == "app_mention" or (kind == "message" and subtype in _WRITTEN):
        about = inner
    elif kind == "message" and subtype == "message_changed":
        about = _mapping(inner.get("message"))
    elif kind == "message" and subtype == "message_deleted":
        about = {**_mapping(inner.get("previous_message")), "ts": inner.get("deleted_ts")}
    else:
        return None
    channel, ts = str(inner.get("channel") or ""), str(about.get("ts") or "")
    if not (channel and ts):
        return None
    place = inner.get("channel_type")
    direct = place in ("im", "app_home") if place else channel.startswith("D")
    # E10: all that stands at the top of a direct chat is one conversation; elsewhere each thread is one
    thread = about.get("thread_ts")
    address = Address(PLATFORM, me.user, channel, str(thread) if thread else None if direct else ts)
    # a tombstone is the first message of a thread that has answers
    if subtype == "message_deleted" or about.get("subtype") == "tombstone":
        return Removal(address, ts)
    author = _author(about, me)
    if author is None:
        return None
    if about is inner:
        message = Message(ts, address, author, "", group=not direct, sent=_seconds(ts))
        return _written(inner, me, message, str(payload.get("team_id") or me.team))
    # This also comes for the agent's own edits, and for links that are shown in full: neither is an edit.
    text = str(about.get("text") or "")
    if text == _mapping(inner.get("previous_message")).get("text"):
        return None
    return Change(address, ts, plain_text(text, me).strip())


def _written(inner: Mapping[str, Any], me: Me, message: Message, team: str) -> Incoming:
    """The message with its text and its files."""
    raw = str(inner.get("text") or "")
    text, files = plain_text(raw, me).strip(), _attachments(inner)
    if not text and not files:
        text = f"@{me.name}" if raw.strip() else ""  # nothing but the mention: that is said
    addressed = not message.group or f"<@{me.user}" in raw or inner.get("parent_user_id") == me.user
    message = msgspec.structs.replace(message, text=text, attachments=files)
    return Incoming(message, addressed, str(inner.get("user_team") or inner.get("team") or team))


def slash(payload: Mapping[str, Any], me: Me) -> Incoming | None:
    """A slash command: `/agent stop`, `/agent-status` and `/stop` are text commands without the prefix.

    Slack gives it no time stamp; its `trigger_id` is the id. It stands in no thread.
    """
    channel, user, id_ = (str(payload.get(key) or "") for key in ("channel_id", "user_id", "trigger_id"))
    if not (channel and user and id_):
        return None
    name = str(payload.get("command") or "").removeprefix("/")
    text = plain_text(str(payload.get("text") or ""), me).strip()
    if name == me.slash:
        words = text.removeprefix("/")
        text = f"/{words}" if words else "/help"
    else:
        text = f"/{name.removeprefix(me.slash + '-')} {text}".rstrip()
    author = Author(user, str(payload.get("user_name") or ""))
    direct = channel.startswith("D")
    message = Message(id_, Address(PLATFORM, me.user, channel), author, text, group=not direct)
    respond = str(payload.get("response_url") or "")
    return Incoming(message, True, str(payload.get("team_id") or me.team), stands=False, respond=respond)


def press(payload: Mapping[str, Any], me: Me) -> Incoming | None:
    """One of our buttons was pressed: what it stands for, said by who pressed it, where the button is."""
    user, channel, container = (_mapping(payload.get(key)) for key in ("user", "channel", "container"))
    message = _mapping(payload.get("message"))
    actions = payload.get("actions")
    action = _mapping(actions[0] if isinstance(actions, list) and actions else None)
    person, place = str(user.get("id") or ""), str(channel.get("id") or container.get("channel_id") or "")
    said, at = str(action.get("value") or ""), str(action.get("action_ts") or "")
    if not (person and place and said and at and str(action.get("action_id")).startswith(CHOICE)):
        return None
    ts = str(container.get("message_ts") or message.get("ts") or "")
    thread = str(container.get("thread_ts") or message.get("thread_ts") or "")
    return Incoming(
        Message(
            f"press:{ts}:{at}",
            Address(PLATFORM, me.user, place, thread if thread not in ("", ts) else None),
            Author(person, str(user.get("username") or user.get("name") or "")),
            said,
            group=not place.startswith("D"),
            sent=_seconds(at),
        ),
        True,
        str(user.get("team_id") or me.team),
        stands=False,
    )


def is_ts(id_: str) -> bool:
    """Whether this is the id of a message, and not of a command or a press."""
    seconds, dot, digits = id_.partition(".")
    return bool(dot) and seconds.isdecimal() and digits.isdecimal()


def plain_text(text: str, me: Me) -> str:
    """Slack's text as a person reads it: links, channels and names without their marks, entities decoded.

    A mention of the agent at the beginning is left out, so that a command after it is one.
    """
    text = re.sub(rf"\A\s*<@{re.escape(me.user)}(?:\|[^>]*)?>[\s,:]*", "", text)
    text = _MARK.sub(lambda match: _mark(match[1], me), text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _mark(inside: str, me: Me) -> str:
    target, bar, label = inside.partition("|")
    if target.startswith("@"):
        return f"@{me.name if target[1:] == me.user else label or target[1:]}"
    if target.startswith("#"):
        return f"#{label or target[1:]}"
    if target.startswith("!"):
        word = target[1:].partition("^")[0]
        return label or f"@{word}"
    if not bar or label == target or target in (f"http://{label}", f"https://{label}", f"mailto:{label}"):
        return target.removeprefix("mailto:")
    return f"{label} ({target})"


def _author(inner: Mapping[str, Any], me: Me) -> Author | None:
    """Who wrote it; None for bots and for the agent itself (X4)."""
    user = inner.get("user")
    if not isinstance(user, str) or not user or user == me.user or inner.get("bot_id"):
        return None
    profile = _mapping(inner.get("user_profile"))
    return Author(user, str(profile.get("display_name") or profile.get("real_name") or ""))


def _attachments(inner: Mapping[str, Any]) -> tuple[Attachment, ...]:
    files = inner.get("files")
    return tuple(
        Attachment(
            str(one.get("name") or one.get("title") or one.get("id") or "file"),
            str(one.get("mimetype") or "application/octet-stream"),
            one["size"] if isinstance(one.get("size"), int) else None,
            str(one.get("url_private_download") or one.get("url_private") or one.get("id") or ""),
        )
        for one in (files if isinstance(files, list) else ())
        if isinstance(one, Mapping)
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _seconds(ts: str) -> float | None:
    try:
        return float(ts)
    except ValueError:
        return None
