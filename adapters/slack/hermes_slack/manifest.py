"""Manifest: the app as Slack is told about it once: scopes, events, slash commands, and how it is reached."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from hermes_core.adapter import KnownCommand
from hermes_slack.limits import RESERVED_SLASH, SLASH_COMMANDS

__all__ = ["Manifest", "manifest"]

_APP: Final = Path(__file__).with_name("manifest.json")  # over Socket Mode, without any command
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
    content = msgspec.json.decode(_APP.read_bytes(), type=dict[str, Any])
    shown, features, settings = (content[key] for key in ("display_information", "features", "settings"))
    shown["name"] = name[:_NAME]
    shown["description"] = (description or shown["description"])[:_DESCRIPTION]
    features["bot_user"]["display_name"] = name
    features["slash_commands"] = slash
    settings["socket_mode_enabled"] = not url
    if url:
        settings["event_subscriptions"]["request_url"] = settings["interactivity"]["request_url"] = url
    return Manifest(content, tuple(left_out))


def _slash(command: str, help_: str, usage: str, url: str) -> dict[str, Any]:
    """One command as Slack is told of it; what is not given is left out."""
    text = {"description": (help_ or command)[:_SLASH_HELP], "usage_hint": usage[:_USAGE], "url": url}
    return {"command": command, "should_escape": True} | {key: one for key, one in text.items() if one}
