"""What the Bot API refuses, with its own words; and the record of what it was asked."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = [
    "Call",
    "Chat",
    "Fault",
    "Limits",
    "Refusal",
    "check_commands",
    "check_keyboard",
    "check_text",
    "decoded",
    "flood",
    "in_utf16",
]

MAX_TEXT: Final = 4096  # code points, after entities are parsed
MAX_ENTITIES: Final = 100  # the rest is dropped without a word
MAX_COMMANDS: Final = 100
MAX_DATA: Final = 64  # bytes of what a button sends
GENERAL: Final = 1  # the id of the General topic
_COMMAND: Final = re.compile(r"[a-z0-9_]{1,32}")
_STYLES: Final = frozenset(
    {
        "blockquote", "bold", "code", "custom_emoji", "expandable_blockquote", "italic", "pre", "spoiler",
        "strikethrough", "text_link", "text_mention", "underline",
    }
)  # fmt: skip


class Refusal(Exception):
    """An answer with `ok: false`."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters


@dataclass(frozen=True)
class Call:
    """One request that came in; `at` is the event loop's time, `outcome` "ok" or the error's text."""

    method: str
    parameters: dict[str, Any]
    at: float
    outcome: str = "ok"

    @property
    def chat(self) -> int:
        """The chat that it is about; 0 for none."""
        return int(self.parameters.get("chat_id", 0))


@dataclass(frozen=True)
class Fault:
    """What happens to one call in place of what should: a refusal, or a `cut`.

    "before" or "after" it is done; "silent" leaves the connection open, and no answer ever comes.
    """

    refusal: Refusal | None = None
    cut: str = ""


@dataclass(frozen=True)
class Limits:
    """How many calls are taken: in one chat in a second, in a group in a minute, in all chats in a second."""

    chat: int = 3
    group: int = 20
    everywhere: int = 30
    retry_after: int = 1


@dataclass
class Chat:
    """One chat: its messages as they stand, by id, and what the person or group did to the bot."""

    id: int
    kind: str
    title: str = ""
    username: str = ""
    forum: bool = False
    topics: set[int] = field(default_factory=set)
    messages: dict[int, dict[str, Any]] = field(default_factory=dict)
    reactions: dict[int, str] = field(default_factory=dict)
    next_id: int = 1
    blocked: bool = False
    migrated: int | None = None

    @property
    def as_json(self) -> dict[str, Any]:
        """As it stands in messages."""
        shown: dict[str, Any] = {"id": self.id, "type": self.kind}
        if self.kind == "private":
            shown["first_name"] = self.title
        else:
            shown["title"] = self.title
        if self.username:
            shown["username"] = self.username
        if self.forum:
            shown["is_forum"] = True
        return shown

    def take_id(self) -> int:
        """The next message id of this chat."""
        self.next_id += 1
        return self.next_id - 1


def decoded(parameters: Mapping[str, str]) -> dict[str, Any]:
    """Parameters with their JSON read where they hold some; texts stay as they are."""
    texts = {
        "text",
        "caption",
        "emoji",
        "callback_query_id",
        "file_id",
        "url",
        "secret_token",
        "action",
        "parse_mode",
    }
    found: dict[str, Any] = {}
    for name, value in parameters.items():
        try:
            found[name] = value if name in texts else json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


def in_utf16(text: str) -> int:
    """Length in UTF-16 code units."""
    return len(text.encode("utf-16-le")) // 2


def check_keyboard(markup: Any) -> dict[str, Any] | None:
    """The inline keyboard as it is kept; `Refusal` as the platform words it."""
    if not markup:
        return None
    for button in itertools.chain.from_iterable(markup["inline_keyboard"]):
        if not button["text"]:
            raise Refusal(400, "Bad Request: can't parse inline keyboard button: Text buttons are unallowed")
        if not 1 <= len(button["callback_data"].encode()) <= MAX_DATA:
            raise Refusal(400, "Bad Request: BUTTON_DATA_INVALID")
    return dict(markup)


def check_text(text: Any, entities: Any, limit: int = MAX_TEXT) -> tuple[str, list[dict[str, Any]]]:
    """The text and entities as they are kept; `Refusal` as the platform words it."""
    if not isinstance(text, str) or not text.strip():
        raise Refusal(400, "Bad Request: message text is empty")
    if len(text.strip()) > limit:
        raise Refusal(400, "Bad Request: message is too long")
    end = in_utf16(text)
    edges = {0, *itertools.accumulate(map(in_utf16, text))}
    kept = []
    for one in entities or ():
        start, length = int(one["offset"]), int(one["length"])
        if start < 0 or length <= 0 or start + length > end:
            raise Refusal(
                400,
                f"Bad Request: entity beginning at UTF-16 offset {start} ends after the end of the text at "
                f"UTF-16 offset {end}",
            )
        if start not in edges or start + length not in edges:
            raise Refusal(
                400, f"Bad Request: entity begins in a middle of a UTF-16 symbol at UTF-16 offset {start}"
            )
        if one["type"] in _STYLES:
            kept.append(dict(one))
    return _trimmed(text, sorted(kept, key=lambda one: (one["offset"], -one["length"]))[:MAX_ENTITIES])


def _trimmed(text: str, entities: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """White space goes away at the end, and at the beginning as far as no entity begins there."""
    text = text.rstrip()
    first = entities[0]["offset"] if entities else len(text)
    spaces = len(text) - len(text.lstrip(" \n"))
    shift = min(spaces, first)
    end = in_utf16(text)
    for one in entities:
        one["length"] = min(one["length"], end - one["offset"])
        one["offset"] -= shift
    return text[shift:], [one for one in entities if one["length"] > 0]


def check_commands(commands: Any) -> None:
    """`Refusal` for a list of commands that is not taken, as a whole."""
    if len(commands) > MAX_COMMANDS:
        raise Refusal(400, "Bad Request: BOT_COMMANDS_TOO_MUCH")
    for one in commands:
        if not _COMMAND.fullmatch(one["command"]):
            raise Refusal(400, "Bad Request: BOT_COMMAND_INVALID")
        if not 1 <= len(one["description"]) <= 256:
            raise Refusal(400, "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID")


def flood(seconds: int) -> Refusal:
    """The platform's 429."""
    return Refusal(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)
