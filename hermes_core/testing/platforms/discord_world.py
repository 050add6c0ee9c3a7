"""What the fake Discord holds: people, channels, messages and interactions, and its error texts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web

__all__ = ["LONGEST", "Interaction", "Refusal", "World", "answer", "invalid", "person"]

LONGEST: Final = 2000  # characters of a message
LONGEST_NONCE: Final = 25
EPOCH: Final = 1420070400000  # milliseconds; where snowflakes begin
GUILD_TEXT, DIRECT, PUBLIC_THREAD = 0, 1, 11
DEFAULT, REPLY = 0, 19

_MESSAGES: Final = {
    0: "401: Unauthorized",
    10003: "Unknown Channel",
    10008: "Unknown Message",
    10015: "Unknown Webhook",
    10062: "Unknown interaction",
    30032: "Maximum number of application commands reached (100).",
    30034: "Max number of daily application command creates has been reached (200)",
    40005: "Request entity too large",
    40060: "Interaction has already been acknowledged.",
    50001: "Missing Access",
    50005: "Cannot edit a message authored by another user",
    50006: "Cannot send an empty message",
    50007: "Cannot send messages to this user",
    50013: "Missing Permissions",
    50027: "Invalid Webhook Token",
    50035: "Invalid Form Body",
    50083: "Thread is archived",
}


class Refusal(Exception):
    """An answer of the platform that is no success: status, its own code, and more for the body."""

    def __init__(self, status: int, code: int, errors: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{status} {code} {_MESSAGES[code]}")
        self.status = status
        self.body: dict[str, Any] = {"message": _MESSAGES[code], "code": code}
        if errors:
            self.body["errors"] = errors

    def response(self) -> web.Response:
        """The refusal as the platform words it."""
        return answer(self.body, self.status)


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON body with the platform's bare content type: clients compare it to the letter."""
    named = {"Content-Type": "application/json", **(headers or {})}
    return web.Response(body=json.dumps(body).encode(), status=status, headers=named)


def invalid(where: str, code: str, message: str) -> Refusal:
    """A 400 with 50035 and the reason at one field."""
    return Refusal(400, 50035, {where: {"_errors": [{"code": code, "message": message}]}})


def person(id: str, name: str, *, bot: bool = False) -> dict[str, Any]:
    """A user object."""
    return {
        "id": id,
        "username": name.lower(),
        "global_name": name,
        "discriminator": "0",
        "avatar": None,
        "bot": bot,
        "public_flags": 0,
    }


@dataclass(eq=False)
class Interaction:
    """A slash command or a press of a button under way: how it was answered, and what people see of it."""

    id: str
    token: str
    channel: str
    created: float
    answered: int | None = None  # the type of the first answer
    took: float | None = None  # seconds until then
    original: str | None = None
    removed: bool = False
    pressed: str | None = None  # the message whose button it was
    aside: str | None = None  # an answer that only this person sees


@dataclass(eq=False)
class World:
    """Channels and messages. Ids are snowflakes that always grow."""

    me: dict[str, Any]
    guild: str
    channels: dict[str, dict[str, Any]] = field(default_factory=dict)
    people: dict[str, dict[str, Any]] = field(default_factory=dict)
    messages: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    interactions: dict[str, Interaction] = field(default_factory=dict)
    nonces: dict[str, str] = field(default_factory=dict)  # in MESSAGE_CREATE and the answer only
    last: int = 0

    def snowflake(self, ago: float = 0.0) -> str:
        """A new id, of `ago` seconds before now."""
        wanted = (int((time.time() - ago) * 1000) - EPOCH) << 22
        if ago:
            return str(wanted + len(self.messages) + self.last % 997)
        self.last = max(self.last + 1, wanted)
        return str(self.last)

    def channel(self, kind: int, name: str = "", **more: Any) -> str:
        """A new channel of this kind; gives its id."""
        id_ = self.snowflake()
        place = {"id": id_, "type": kind, "last_message_id": None, "flags": 0, **more}
        if kind != DIRECT:
            place |= {"guild_id": self.guild, "name": name, "nsfw": False}
        if kind == GUILD_TEXT:
            place |= {"position": 0, "permission_overwrites": [], "parent_id": None, "topic": None}
        self.channels[id_] = place
        self.messages[id_] = {}
        return id_

    def found(self, channel: str) -> dict[str, Any]:
        """The channel with this id, or the platform's refusal."""
        if channel not in self.channels:
            raise Refusal(404, 10003)
        return self.channels[channel]

    def message(self, channel: str, id: str) -> dict[str, Any]:
        """The message with this id, or the platform's refusal."""
        self.found(channel)
        if id not in self.messages[channel]:
            raise Refusal(404, 10008)
        return self.messages[channel][id]

    def write(self, channel: str, author: Mapping[str, Any], text: str, **more: Any) -> dict[str, Any]:
        """Keep a new message; `ago` seconds old, `reply_to` another one."""
        place = self.found(channel)
        ago = more.pop("ago", 0.0)
        id_ = self.snowflake(ago)
        message: dict[str, Any] = {
            "id": id_,
            "channel_id": channel,
            "author": dict(author),
            "content": text.strip(),
            "timestamp": datetime.fromtimestamp(time.time() - ago, UTC).isoformat(),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": False,
            "mentions": list(self._mentioned(text)),
            "mention_roles": [],
            "attachments": [],
            "embeds": [],
            "components": [],
            "pinned": False,
            "type": DEFAULT,
            "flags": 0,
            **more.pop("fields", {}),
        }
        reply_to = more.pop("reply_to", None)
        if reply_to is not None:
            quoted = self.messages[channel].get(reply_to)
            message["type"] = REPLY
            message["message_reference"] = {"type": 0, "channel_id": channel, "message_id": reply_to}
            message["referenced_message"] = quoted
        self.messages[channel][id_] = message
        place["last_message_id"] = id_
        return message

    def _mentioned(self, text: str) -> Iterator[dict[str, Any]]:
        for one in (self.me, *self.people.values()):
            if f"<@{one['id']}>" in text or f"<@!{one['id']}>" in text:
                yield one

    def announced(self, message: Mapping[str, Any], nonce: str | None = None) -> dict[str, Any]:
        """The message as MESSAGE_CREATE and MESSAGE_UPDATE carry it."""
        event = dict(message)
        if self.channels[message["channel_id"]]["type"] != DIRECT:
            event["guild_id"] = self.guild
            event["member"] = {"roles": [], "joined_at": "2024-01-01T00:00:00+00:00", "flags": 0}
            event["member"] |= {"deaf": False, "mute": False, "nick": None}
        if nonce is not None:
            event["nonce"] = nonce
        return event

    def guild_object(self) -> dict[str, Any]:
        """GUILD_CREATE."""
        places = [one for one in self.channels.values() if one["type"] != DIRECT]
        return {
            "id": self.guild,
            "name": "Guild",
            "owner_id": "1",
            "roles": [
                {
                    "id": self.guild,
                    "name": "@everyone",
                    "permissions": "2147483647",
                    "position": 0,
                    "color": 0,
                    "hoist": False,
                    "managed": False,
                    "mentionable": False,
                    "flags": 0,
                }
            ],
            "emojis": [],
            "features": [],
            "channels": [one for one in places if one["type"] != PUBLIC_THREAD],
            "threads": [one for one in places if one["type"] == PUBLIC_THREAD],
            "members": [],
            "member_count": 2,
            "joined_at": "2024-01-01T00:00:00+00:00",
            "unavailable": False,
            "large": False,
            "verification_level": 0,
            "default_message_notifications": 0,
            "explicit_content_filter": 0,
            "mfa_level": 0,
            "premium_tier": 0,
            "nsfw_level": 0,
            "preferred_locale": "en-US",
            "afk_timeout": 300,
            "system_channel_flags": 0,
            "voice_states": [],
            "presences": [],
            "stage_instances": [],
            "stickers": [],
            "guild_scheduled_events": [],
            "soundboard_sounds": [],
        }
