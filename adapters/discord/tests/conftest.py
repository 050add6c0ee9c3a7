"""The fake Discord, for every test of this folder."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator

import pytest

with warnings.catch_warnings():  # discord.py imports audioop, which Python 3.13 no longer has
    warnings.filterwarnings("ignore", "'audioop' is deprecated", DeprecationWarning)
    import discord as _  # noqa: F401

from hermes_core.testing.platforms.discord import FakeDiscord


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    """A server of its own for one test."""
    async with FakeDiscord() as fake:
        yield fake
