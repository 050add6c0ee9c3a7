"""What Slack refuses, with its own words: texts, metadata, blocks; and the payloads that it sends."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

__all__ = [
    "BOT",
    "Refusal",
    "blocks_of",
    "buttons_of",
    "form",
    "metadata",
    "press_payload",
    "slash_payload",
    "text_of",
]

BOT: Final = {
    "user_id": "U0AGENT",
    "bot_id": "B0AGENT",
    "user": "hermes",
    "team_id": "T0TEAM",
    "app_id": "A0APP",
}


class Refusal(Exception):
    """Slack's `{"ok": false, "error": …}`."""

    def __init__(self, error: str, **more: Any) -> None:
        super().__init__(error)
        self.error = error
        self.more = more


def text_of(arguments: Mapping[str, Any], limit: int) -> str:
    """The text of a message to post or update."""
    text = arguments.get("text")
    if not isinstance(text, str) or not text.strip():
        raise Refusal("no_text")
    if len(text) > limit:
        raise Refusal("msg_too_long")
    return text


def metadata(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The metadata of a message, if it has some."""
    given = arguments.get("metadata")
    if given is None:
        return None
    try:
        found = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        raise Refusal("invalid_metadata_format") from None
    if not isinstance(found, dict) or not found.get("event_type"):
        raise Refusal("invalid_metadata_schema")
    if not isinstance(found.get("event_payload"), dict):
        raise Refusal("invalid_metadata_schema")
    if len(json.dumps(found)) > 16_000:
        raise Refusal("metadata_too_large")
    return found


def blocks_of(arguments: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The blocks of a message; None where none are given, which leaves those that it has."""
    given = arguments.get("blocks")
    if given is None:
        return None
    blocks = json.loads(given) if isinstance(given, str) else given
    if not isinstance(blocks, list) or len(blocks) > 50:
        raise Refusal("invalid_blocks_format")
    ids: list[str] = []
    for block in blocks:
        kind = block.get("type")
        if kind == "section" and 0 < len(block["text"]["text"]) <= 3000:
            continue
        if kind == "actions" and 0 < len(block["elements"]) <= 25 and all(map(_button, block["elements"])):
            ids += (one["action_id"] for one in block["elements"])
            continue
        raise Refusal("invalid_blocks")
    if len(set(ids)) != len(ids):
        raise Refusal("invalid_blocks")
    return blocks


def _button(element: Mapping[str, Any]) -> bool:
    text = element.get("text") or {}
    return (
        element.get("type") == "button"
        and text.get("type") == "plain_text"
        and 0 < len(str(text.get("text") or "")) <= 75
        and 0 < len(str(element.get("action_id") or "")) <= 255
        and len(str(element.get("value") or "")) <= 2000
    )


def buttons_of(message: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The buttons of a message, by their labels."""
    actions = [one for one in message.get("blocks") or () if one["type"] == "actions"]
    return {str(one["text"]["text"]): one for block in actions for one in block["elements"]}


def slash_payload(
    channel: str, user: str, command: str, text: str, trigger: str, respond: str = ""
) -> dict[str, Any]:
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
        "response_url": respond or "https://hooks.example/commands/1",
        "trigger_id": trigger,
    }


def press_payload(
    channel: str, user: str, message: Mapping[str, Any], button: Mapping[str, Any], at: str, trigger: str
) -> dict[str, Any]:
    """What Slack says of a pressed button."""
    thread = {"thread_ts": message["thread_ts"]} if message.get("thread_ts") else {}
    return {
        "type": "block_actions",
        "user": {"id": user, "username": user.lower(), "name": user.lower(), "team_id": BOT["team_id"]},
        "api_app_id": BOT["app_id"],
        "token": "not-used",
        "container": {
            "type": "message",
            "message_ts": message["ts"],
            "channel_id": channel,
            "is_ephemeral": False,
            **thread,
        },
        "trigger_id": trigger,
        "team": {"id": BOT["team_id"], "domain": "example"},
        "channel": {"id": channel, "name": "directmessage" if channel.startswith("D") else "general"},
        "message": dict(message),
        "response_url": "https://hooks.example/actions/1",
        "actions": [{**button, "block_id": "b1", "action_ts": at}],
    }


def form(payload: Mapping[str, Any]) -> bytes:
    """A payload as the body of a form."""
    return urlencode(payload).encode()
