"""Native streams of the fake Slack: a message that is written by appending, until it is ended or dies."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from hermes_core.testing.platforms.slack_rules import Refusal, metadata

__all__ = ["Streams"]

MARKDOWN_LIMIT: Final = 12_000
_RECIPIENT: Final = re.compile(r"[UW][A-Z0-9]+")


class Streams:
    """`post` makes a message of the agent, `own` gives one. A message that is streamed has `streaming` set.

    `allowed` False: this app, or this kind of channel, may not stream.
    """

    def __init__(
        self,
        post: Callable[[Mapping[str, Any], str], dict[str, Any]],
        own: Callable[[Mapping[str, Any]], dict[str, Any]],
    ) -> None:
        self.allowed = True
        self._post = post
        self._own = own
        self._open: list[dict[str, Any]] = []
        self.methods = {
            "chat.appendStream": self._append,
            "chat.startStream": self._start,
            "chat.stopStream": self._stop,
        }

    @property
    def alive(self) -> int:
        """How many messages are being streamed."""
        return sum(1 for one in self._open if one.get("streaming"))

    def expire(self) -> None:
        """End every stream, as Slack does after some minutes."""
        for message in self._open:
            message.pop("streaming", None)
        self._open.clear()

    def _start(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if not arguments.get("thread_ts"):
            raise Refusal("invalid_arguments")
        if not self.allowed:
            raise Refusal("channel_type_not_supported")
        for name in ("recipient_team_id", "recipient_user_id"):
            if not arguments.get(name):
                raise Refusal(f"missing_{name}")
        if not _RECIPIENT.fullmatch(str(arguments["recipient_user_id"])):
            raise Refusal("invalid_recipient_user_id")
        message = self._post(arguments, _markdown(arguments))
        message["streaming"] = True
        self._open.append(message)
        return {"channel": arguments["channel"], "ts": message["ts"]}

    def _append(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        message = self._streaming(arguments)
        text = _markdown(arguments)
        if not text:
            raise Refusal("no_text")
        message["text"] += text
        return {"channel": arguments["channel"], "ts": message["ts"]}

    def _stop(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        message = self._streaming(arguments)
        message["text"] += _markdown(arguments)
        data = metadata(arguments)
        if data is not None:
            message["metadata"] = data
        del message["streaming"]
        return {"channel": arguments["channel"], "ts": message["ts"], "message": dict(message)}

    def _streaming(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        message = self._own(arguments)
        if not message.get("streaming"):
            raise Refusal("message_not_in_streaming_state")
        return message


def _markdown(arguments: Mapping[str, Any]) -> str:
    text = str(arguments.get("markdown_text") or "")
    if len(text) > MARKDOWN_LIMIT:
        raise Refusal("msg_too_long")
    return text
