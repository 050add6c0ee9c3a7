"""What `hermes` loads: /pair, /approve, /deny and /control."""

from __future__ import annotations

from collections.abc import Iterable

from hermes_access.approving import approving
from hermes_access.controlling import control
from hermes_access.pairing import pair
from hermes_core.commands import Command
from hermes_core.config import Config
from hermes_core.hookspecs import hookimpl

__all__ = ["AccessPlugin"]


class AccessPlugin:
    """The commands of those who run the agent: who is let in, what a tool may do, what there is at all."""

    def __init__(self) -> None:
        self._config = Config()

    @hookimpl
    def hermes_configured(self, config: Config) -> None:
        """See the hook."""
        self._config = config

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        """See the hook."""
        return (pair(self._config), *approving(), control(self._config))
