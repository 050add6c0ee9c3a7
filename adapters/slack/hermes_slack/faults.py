"""What a failed call to Slack means for the message that was to be delivered (D5)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Final

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from hermes_core.errors import ConfigError, SendError
from hermes_slack.limits import WORDS

__all__ = ["ACCOUNT", "FAILURES", "answered", "error_of", "send_error", "word_of"]

FAILURES: Final = (SlackApiError, aiohttp.ClientError, TimeoutError, OSError)
"""All that a call through the client library is known to raise."""

ACCOUNT, _NEVER, _UNSURE = (frozenset(WORDS["errors"][kind]) for kind in ("account", "never", "unsure"))
_DEFAULT_WAIT: Final = 30.0


def error_of(error: SlackApiError) -> str:
    """Slack's own word for what went wrong; "" where the answer was none of its."""
    data = getattr(error.response, "data", None)
    word = data.get("error") if isinstance(data, Mapping) else None
    if isinstance(word, str):
        return word
    return "unknown_method" if _status(error) == 404 else ""  # a compatible server that has less than Slack


def _status(error: SlackApiError) -> int:
    return int(getattr(error.response, "status_code", None) or getattr(error.response, "status", None) or 0)


def word_of(error: SendError) -> str:
    """Slack's own word behind a `SendError`."""
    return error_of(error.__cause__) if isinstance(error.__cause__, SlackApiError) else ""


def send_error(error: Exception) -> SendError:
    """The `SendError` for what a call raised; it never holds an address or a token (X2)."""
    if isinstance(error, SlackApiError):
        return _refused(error)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return SendError("Slack cannot be reached.")  # nothing was written yet
    if isinstance(error, aiohttp.ClientError | TimeoutError | OSError):
        return SendError("The connection to Slack broke before the answer came.", unknown=True)
    return SendError(f"The call to Slack failed: {type(error).__name__}.", unknown=True)


def _refused(error: SlackApiError) -> SendError:
    word = error_of(error)
    status = _status(error)
    if status == 429 or word in ("ratelimited", "rate_limited"):
        return SendError("Slack asks to send more slowly.", retry_after=_retry_after(error))
    if word in _NEVER:
        return SendError(
            f"Slack does not take this message: {word}.", WORDS["advice"].get(word, ""), permanent=True
        )
    if word in _UNSURE:
        return SendError(f"Slack has a fault of its own (status {status}).", unknown=True)
    advice = "Look at the bot token: hermes doctor." if word in ACCOUNT else ""
    return SendError(f"Slack refused the call: {word}.", advice)


def _retry_after(error: SlackApiError) -> float:
    try:
        return max(0.0, float(error.response.headers["Retry-After"]))
    except (KeyError, ValueError):
        return _DEFAULT_WAIT


async def answered(call: Awaitable[AsyncSlackResponse], key: str = "") -> Mapping[str, Any]:
    """What Slack answers to a call. `SendError` for all that goes wrong.

    `ConfigError` for a token that Slack does not accept, where `key` says what the config calls it.
    """
    try:
        answer = await call
    except FAILURES as error:
        word = error_of(error) if isinstance(error, SlackApiError) else ""
        if key and word in ACCOUNT:
            raise ConfigError(
                f"[adapters.slack] {key}: Slack does not accept this token ({word}).",
                "A bot token begins with xoxb-, an app token with xapp-; both stand on the app's pages at"
                " api.slack.com/apps.",
            ) from error
        raise send_error(error) from error
    return answer.data if isinstance(answer.data, dict) else {}
