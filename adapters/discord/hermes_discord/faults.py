"""Faults: what a call to Discord raises, as the `SendError` that says whether and when to try again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import discord

from hermes_core.errors import SendError
from hermes_discord.limits import PATIENCE

__all__ = ["outcome", "unknown_message", "unwanted"]

UNKNOWN_MESSAGE: Final = 10008
TOO_LARGE: Final = 40005
_NEVER: Final = frozenset({400, 403, 404})


@asynccontextmanager
async def outcome() -> AsyncIterator[None]:
    """Turn what a call raises into a `SendError`; a call without an answer has an outcome that is unknown."""
    try:
        async with asyncio.timeout(PATIENCE):
            yield
    except discord.RateLimited as error:
        raise SendError("Discord asks for a pause.", retry_after=error.retry_after) from error
    except discord.HTTPException as error:
        raise _refused(error) from error
    except aiohttp.ClientConnectorError as error:  # no request was written
        raise SendError("Discord cannot be reached.") from error
    except (TimeoutError, OSError, aiohttp.ClientError) as error:
        raise SendError("The connection to Discord broke.", unknown=True) from error
    except RuntimeError as error:  # "Session is closed": the connection is just being made anew
        raise SendError("There is no connection to Discord.", retry_after=1.0) from error


def _refused(error: discord.HTTPException) -> SendError:
    text = f"Discord refuses it: {error.status} {error.code} {error.text}".rstrip()
    if error.status == 429:  # without the platform's own mark: its front door says no number in the body
        wait = error.response.headers.get("Retry-After", "60")
        return SendError(text, retry_after=float(wait) if wait.replace(".", "", 1).isdigit() else 60.0)
    if error.status >= 500:
        return SendError(text, unknown=True)
    return SendError(text, permanent=error.status in _NEVER)


def unknown_message(error: Exception) -> bool:
    """Whether Discord says that a message is not there, rather than its channel."""
    return isinstance(error.__cause__, discord.NotFound) and error.__cause__.code == UNKNOWN_MESSAGE


def unwanted(error: Exception) -> str:
    """Why Discord does not take a message with files, in words; "" where the files are no reason."""
    cause = error.__cause__
    if isinstance(error, OSError):
        return "it cannot be read"
    if not isinstance(cause, discord.HTTPException):
        return ""
    if cause.status == 413 or cause.code == TOO_LARGE:
        return "too large for Discord"
    return "Discord does not let me attach files here" if cause.status in (400, 403) else ""
