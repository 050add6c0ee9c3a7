"""The library's request layer, and what an answer or its absence means for a message (D5)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any, Final

import httpx
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    TelegramError,
)
from telegram.request import HTTPXRequest, RequestData

from hermes_core.errors import SendError

__all__ = ["Flood", "Request", "ServerTrouble", "failure"]

# What was certainly not written to the platform when it happened.
_UNSENT: Final = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    RuntimeError,  # the library, of a client that is closed
)
_MAYBE: Final = frozenset({502, 504})  # a gateway lost sight of the call; it may have been carried out


class Flood(TelegramError):
    """429: nothing is taken for `seconds`.

    The library's own RetryAfter warns about a change to come whenever it is made.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"Too many requests, again in {seconds:.0f} s")
        self.seconds = seconds


class ServerTrouble(NetworkError):
    """A 5xx; `unknown` where the call may have been carried out."""

    def __init__(self, status: int) -> None:
        super().__init__(f"Telegram answered {status}")
        self.unknown = status in _MAYBE


class Request(HTTPXRequest):
    """`HTTPXRequest` that tells a 429 and a 5xx apart from everything else; `last` is its last answer.

    `dated` is told the time that each answer bears.
    """

    last = b""

    def __init__(self, dated: Callable[[str | None], None], **settings: Any) -> None:
        async def look(answer: httpx.Response) -> None:
            dated(answer.headers.get("Date"))

        super().__init__(httpx_kwargs={"event_hooks": {"response": [look]}}, **settings)

    async def do_request(
        self, url: str, method: str, request_data: RequestData | None = None, *args: Any, **kwargs: Any
    ) -> tuple[int, bytes]:
        """See the library."""
        status, body = await super().do_request(url, method, request_data, *args, **kwargs)
        if status == httpx.codes.TOO_MANY_REQUESTS:
            raise Flood(_retry_after(body))
        if status >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise ServerTrouble(status)
        if status == httpx.codes.REQUEST_ENTITY_TOO_LARGE:  # its body may be a proxy's page
            raise BadRequest("Request Entity Too Large")
        self.last = body
        return status, body


def _retry_after(body: bytes) -> float:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return float(json.loads(body)["parameters"]["retry_after"])
    return 1.0


def failure(error: TelegramError) -> SendError:
    """What the outbox has to know. A refusal of the message itself is for good; trouble on the way is not."""
    match error:
        case Flood():
            return SendError("Telegram takes no more messages for a while.", retry_after=error.seconds)
        case Forbidden():
            return SendError(f"Telegram lets the bot not write here: {error.message}.", permanent=True)
        case InvalidToken() if "not found" in error.message.lower():
            return SendError("This Bot API server does not know the call.", permanent=True)
        case InvalidToken():
            return SendError("Telegram refuses the bot's token.")
        case BadRequest() | ChatMigrated() | Conflict():
            return SendError(f"Telegram refuses the message: {error.message}.", permanent=True)
        case ServerTrouble():
            return SendError(error.message, unknown=error.unknown)
        case NetworkError():
            unknown = not isinstance(error.__cause__, _UNSENT)
            return SendError("Telegram cannot be reached.", unknown=unknown)
    return SendError(f"Telegram answered something unexpected: {type(error).__name__}.", unknown=True)
