"""Operate: what a command may do with the plugins of this run, on behalf of who runs the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from hermes_core.errors import CommandError

__all__ = ["NoPlugins", "PluginState", "PluginsView"]


class PluginState(msgspec.Struct, frozen=True):
    """One plugin as it stands. `trouble`: something was wrong with it, and the log says what."""

    name: str
    version: str
    enabled: bool
    trouble: bool


class PluginsView(Protocol):
    """The plugins that are installed."""

    def all(self) -> Sequence[PluginState]:
        """Every one, by name."""

    async def reload(self, name: str) -> str:
        """Load one anew, without a stop; gives a line about it. `CommandError` where the old version goes on."""


class NoPlugins:
    """Where a command runs without a program around it."""

    def all(self) -> Sequence[PluginState]:
        """None."""
        return ()

    async def reload(self, name: str) -> str:
        """Always refused."""
        raise CommandError("There are no plugins here that could be loaded anew.")
