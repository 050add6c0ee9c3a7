"""Two harmless tools, so that tool calls and interrupts can be seen with no config at all."""

from __future__ import annotations

import datetime
from typing import Annotated

import msgspec

from hermes_core.tools import Program, tool

__all__ = ["demo_clock", "demo_sleep"]

Seconds = Annotated[float, msgspec.Meta(ge=0, le=600)]


@tool(idempotent=True)
async def demo_clock() -> str:
    """Tell the present date and time, in UTC."""
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"


@tool(deadline="11m", idempotent=True)
def demo_sleep(seconds: Seconds) -> Program:
    """Wait, in a real process that an interrupt kills.

    Args:
        seconds: How long, at most 600.
    """
    return Program(argv=("sleep", f"{seconds:g}"))
