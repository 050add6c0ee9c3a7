"""The demo model: the pure answer, paced."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator

from hermes_core.models import Delta, Request, Text
from hermes_demo.answer import answer

__all__ = ["DemoModel"]


class DemoModel:
    """Streams `answer` with `pace` seconds before each word; holds nothing, connects to nothing."""

    def __init__(self, pace: float) -> None:
        self._pace = pace

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """As `Model.stream` says; never fails."""
        for delta in answer(request, f"demo-{secrets.token_hex(4)}"):
            if isinstance(delta, Text):
                await asyncio.sleep(self._pace)
            yield delta

    async def aclose(self) -> None:
        """There is nothing to let go."""
