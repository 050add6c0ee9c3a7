"""Files that came with a message, piece by piece from Discord's store of files.

The link of a file dies within a day, and the message that it came with knows a new one. A download that
breaks goes on where it broke.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

import aiohttp

from hermes_core.download import resumed
from hermes_core.errors import HermesError
from hermes_core.messages import Attachment

__all__ = ["Renew", "download"]

Renew = Callable[[int, int, int], Awaitable[str | None]]
"""The new link of a file, by the ids of channel, message and file; None where it is not there any more."""

BROKEN: Final = (aiohttp.ClientError, OSError, TimeoutError)
CHUNK: Final = 64 * 1024
DEAD: Final = frozenset({403, 404, 410})
PARTIAL: Final = 206
PATIENCE: Final = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=30.0)
_REF: Final = re.compile(r"(\d+)/(\d+)/(\d+) (https?://\S+)")


def download(attachment: Attachment, renew: Renew) -> AsyncGenerator[bytes, None]:
    """The content of a file, as `Downloads.fetch` gives it."""
    known = _REF.fullmatch(attachment.ref)
    if known is None:
        raise HermesError(f"{attachment.name} did not come from Discord.")
    channel, message, id_ = (int(known[number]) for number in (1, 2, 3))
    url, renewed = known[4], False

    async def begin(got: int) -> AsyncGenerator[tuple[int, bytes], None]:
        nonlocal url, renewed
        async with aiohttp.ClientSession(timeout=PATIENCE) as session:
            while True:
                async with session.get(url, headers={"Range": f"bytes={got}-"} if got else {}) as response:
                    if response.status in DEAD and not renewed:
                        fresh = await renew(channel, message, id_)
                        if fresh is not None:
                            url, renewed = fresh, True
                            continue
                    if response.status in DEAD:
                        raise HermesError(f"{attachment.name} is not there any more on Discord.")
                    response.raise_for_status()
                    at = got if response.status == PARTIAL else 0
                    async for chunk in response.content.iter_chunked(CHUNK):
                        yield at, chunk
                        at += len(chunk)
                    return

    def pause(error: Exception, usual: float | None) -> float:
        if usual is None:
            why = f"{attachment.name} cannot be had from Discord at the moment."
            raise HermesError(why, "Try again in a while.") from error
        return usual

    return resumed(begin, BROKEN, pause)
