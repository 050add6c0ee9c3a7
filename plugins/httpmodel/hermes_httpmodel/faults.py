"""What can go wrong with a model server, in words for the person who waits.

The text of a fault never holds an address, a key or what the server wrote. That is the cause of the
error (`Detail`), for whoever runs the agent and reads the log.
"""

from __future__ import annotations

import email.utils
import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from hermes_core.errors import ModelError

__all__ = ["Detail", "cut", "fault", "malformed", "refused", "reported", "retry_after"]

_SOON: Final = "Try again in a moment."
_OPERATOR: Final = "Whoever runs this agent: "
_TOO_MUCH: Final = "has too much to do just now"
_EXCERPT: Final = 500
_TOO_LONG: Final = (
    "context_length",
    "context length",
    "context size",
    "context window",
    "maximum context",
    "prompt is too long",
)
_NO_CREDIT: Final = (
    "insufficient_quota",
    "insufficient balance",
    "credit balance is too low",
    "billing_error",
)
_BUSY: Final = ("overloaded_error", "rate_limit_error")
_LASTING: Final = (
    *_NO_CREDIT,
    "invalid_request",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
)


class Detail(Exception):
    """What exactly happened, for the log: never raised, only the cause of a `ModelError`."""


def fault(
    message: str,
    advice: str = _SOON,
    detail: str | BaseException = "",
    *,
    retryable: bool = True,
    retry_after: float | None = None,
) -> ModelError:
    """A `ModelError` with its cause already set."""
    error = ModelError(message, advice, retryable=retryable, retry_after=retry_after)
    if detail:
        error.__cause__ = detail if isinstance(detail, BaseException) else Detail(detail)
    return error


def cut(detail: str | BaseException = "") -> ModelError:
    """The stream ended before the answer did."""
    return fault("The model server broke off in the middle of its answer.", detail=detail)


def malformed(what: str, detail: str | BaseException = "") -> ModelError:
    """The server sent `what`, which cannot be read."""
    return fault(f"The model server sent something that cannot be read: {what}.", detail=detail)


def reported(error: Any) -> ModelError:
    """An error object that came inside a stream that had begun well."""
    text = _words(error)
    said = text.lower()
    if any(mark in said for mark in _TOO_LONG):
        return _too_long(text[:_EXCERPT])
    code = error.get("code") if isinstance(error, Mapping) else None
    lasting = any(mark in said for mark in _LASTING)
    if isinstance(code, int) and 400 <= code < 500 and code not in (408, 409, 425, 429):
        lasting = True
    if any(mark in said for mark in _BUSY) and not lasting:
        return fault(f"The model server {_TOO_MUCH}.", detail=text[:_EXCERPT])
    return fault(
        "The model server reported an error in the middle of its answer.",
        _SOON if not lasting else _OPERATOR + "the log has what it said.",
        text[:_EXCERPT],
        retryable=not lasting,
    )


def refused(status: int, headers: Mapping[str, str], body: bytes, asked: str, now: float) -> ModelError:
    """A status that is no success. `asked` says what was asked of whom, `now` is the time of day."""
    text = _words(_decoded(body))
    said = text.lower()
    detail = f"status {status} from {asked}: {text[:_EXCERPT]}"
    if status in (401, 403):  # some servers repeat the key in their answer: it goes nowhere
        what = "does not accept the API key" if status == 401 else "refuses access with this API key"
        advice = f"{_OPERATOR}check the variable that [model] api_key_env names."
        return fault(f"The model server {what}.", advice, f"status {status} from {asked}", retryable=False)
    if status == 404:
        advice = f"{_OPERATOR}check [model] name and base_url."
        return fault("The model server does not know this model.", advice, detail, retryable=False)
    if status == 402 or (status in (400, 429) and any(mark in said for mark in _NO_CREDIT)):
        advice = f"{_OPERATOR}its account needs to be topped up."
        return fault("The model server's account has no credit left.", advice, detail, retryable=False)
    if status in (408, 409, 425, 429) or status >= 500:
        wait = retry_after(headers, now)
        advice = f"It asks to wait {math.ceil(wait)} s." if wait else _SOON
        busy = status < 500 or any(mark in said for mark in _BUSY)
        what = _TOO_MUCH if busy else f"has a fault of its own (status {status})"
        return fault(f"The model server {what}.", advice, detail, retry_after=wait)
    if status == 413 or (status == 400 and any(mark in said for mark in _TOO_LONG)):
        return _too_long(detail)
    if 300 <= status < 400:
        advice = f"{_OPERATOR}check [model] base_url."
        return fault("The model server is at another address now.", advice, detail, retryable=False)
    advice = f"{_OPERATOR}the log has what it said."
    return fault(f"The model server refused the request (status {status}).", advice, detail, retryable=False)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds that a server asks to wait, from `Retry-After` (seconds or a date) or its form in ms.

    `headers` has lower-case names, or ignores the case. None where it asks for nothing that makes sense.
    """
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "").strip()
    seconds = _number(value)
    if seconds is not None or not value:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _too_long(detail: str) -> ModelError:
    message = "This conversation has become too long for the model."
    return fault(message, "Begin a new one with /new.", detail, retryable=False)


def _decoded(body: bytes) -> Any:
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body.decode("utf-8", "replace")
    return decoded.get("error", decoded) if isinstance(decoded, dict) else decoded


def _words(error: Any) -> str:
    """All that an error object says, in one line."""
    if isinstance(error, Mapping):
        error = " ".join(str(error[key]) for key in ("code", "type", "message", "detail") if error.get(key))
    return " ".join(str(error).split())
