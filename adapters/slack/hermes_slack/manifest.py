"""Manifest: the app as Slack is told about it once: scopes, events, slash commands, and how it is reached."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from hermes_core.adapter import KnownCommand
from hermes_slack.limits import RESERVED_SLASH, SLASH_COMMANDS

__all__ = ["Manifest", "manifest"]

_SCOPES: Final = (
    "app_mentions:read",
    "assistant:write",
    "channels:history",
    "chat:write",
    "commands",
    "files:read",
    "files:write",
    "groups:history",
    "im:history",
    "mpim:history",
    "reactions:write",
    "users:read",
)
_EVENTS: Final = ("app_mention", "message.channels", "message.groups", "message.im", "message.mpim")
_NAME: Final = 35  # characters of an app's name
_DESCRIPTION: Final = 140
_SLASH_NAME: Final = 32  # with the slash
_SLASH_HELP: Final = 100
_USAGE: Final = 100


class Manifest(msgspec.Struct, frozen=True):
    """`content` is what Slack takes as JSON; `left_out` are the commands that have no slash of their own.

    Those can still be typed as `/hermes NAME`, after a mention, and in direct chats.
    """

    content: dict[str, Any]
    left_out: tuple[str, ...]


def manifest(
    commands: Iterable[KnownCommand] = (),
    *,
    name: str = "hermes",
    public_url: str = "",
    description: str = "",
) -> Manifest:
    """The app `name`, with the first 24 `commands` beside `/name`. With a `public_url` it is reached over HTTP.

    Commands whose names Slack keeps for itself get the prefix `name-`.
    """
    url = f"{public_url.rstrip('/')}/slack/events" if public_url else ""
    slash = [_slash(f"/{name}", "Any command: stop, status, help …", "COMMAND TEXT", url)]
    left_out = []
    for one in commands:
        own = f"/{name}-{one.name}" if one.name in RESERVED_SLASH else f"/{one.name}"
        if len(slash) < SLASH_COMMANDS and len(own) <= _SLASH_NAME:
            slash.append(_slash(own, one.help, one.usage.partition(" ")[2], url))
        else:
            left_out.append(one.name)
    settings: dict[str, Any] = {
        "event_subscriptions": {"bot_events": list(_EVENTS)},
        "interactivity": {"is_enabled": True},
        "org_deploy_enabled": False,
        "socket_mode_enabled": not url,
        "token_rotation_enabled": False,
    }
    if url:
        settings["event_subscriptions"]["request_url"] = url
        settings["interactivity"]["request_url"] = url
    content = {
        "display_information": {
            "name": name[:_NAME],
            "description": (description or "An agent that answers in direct chats and threads.")[
                :_DESCRIPTION
            ],
        },
        "features": {
            "app_home": {"messages_tab_enabled": True, "messages_tab_read_only_enabled": False},
            "bot_user": {"display_name": name, "always_online": True},
            "slash_commands": slash,
        },
        "oauth_config": {"scopes": {"bot": list(_SCOPES)}},
        "settings": settings,
    }
    return Manifest(content, tuple(left_out))


def _slash(command: str, help_: str, usage: str, url: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "command": command,
        "description": (help_ or command)[:_SLASH_HELP],
        "should_escape": True,
    }
    if usage:
        entry["usage_hint"] = usage[:_USAGE]
    if url:
        entry["url"] = url
    return entry
