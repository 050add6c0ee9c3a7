"""Tasks: begins one in the group of the running adapter."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

__all__ = ["begin"]


def begin(group: asyncio.TaskGroup, work: Coroutine[Any, Any, None]) -> None:
    """Let `group` do `work`; nothing where the group is ending already (the adapter starts again)."""
    try:
        group.create_task(work)
    except RuntimeError:
        work.close()
