"""Download: the content of a file from a platform, a piece at a time; what breaks off goes on where it broke."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Final

__all__ = ["Begin", "resumed"]

_PAUSES: Final = (0.5, 1.5)  # seconds before the second and the third try

Begin = Callable[[int], AsyncGenerator[tuple[int, bytes], None]]
"""Begins to read, given how many bytes are known: pieces, each with the place at which it begins. The first may begin
before what is wanted, where the other side knows no ranges."""


async def resumed(
    begin: Begin, trouble: tuple[type[Exception], ...], pause: Callable[[Exception, float | None], float]
) -> AsyncGenerator[bytes, None]:
    """The bytes from the first to the last, each once, in three tries at most.

    After an error that is `trouble`, `pause` gets it with the seconds that are usual until the next try, None after
    the last one; it gives the seconds that it shall be, or raises what is to be said. Any other error comes through.
    Whoever stops early closes what was begun with `aclose`.
    """
    known = 0
    for usual in (*_PAUSES, None):
        try:
            async with contextlib.aclosing(begin(known)) as pieces:
                async for at, piece in pieces:
                    fresh = piece[max(0, known - at) :]
                    if fresh:
                        known += len(fresh)
                        yield fresh
        except trouble as error:
            await asyncio.sleep(pause(error, usual))
        else:
            return
