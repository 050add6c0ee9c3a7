from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hermes_core.testing.platforms.slack import FakeSlack


@pytest.fixture
async def slack() -> AsyncIterator[FakeSlack]:
    """A workspace of its own, with a direct chat and two channels."""
    async with FakeSlack() as started:
        for channel in ("D1", "D2", "C1", "C2"):
            started.world.channel(channel)
        yield started
