"""Loaded: the plugins of this run, by name, and the tables of what they bring."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint
from types import FrameType
from typing import Any, TypeVar

import pluggy

from hermes_core import hookspecs
from hermes_core.adapter import AdapterFactory
from hermes_core.commands import Registry
from hermes_core.config import Config
from hermes_core.errors import HermesError, PluginError
from hermes_core.models import ModelFactory
from hermes_core.plugins.aside import Aside
from hermes_core.plugins.brought import Brought, Implementation, PluginInfo, bring
from hermes_core.plugins.owners import Culprit, Owners
from hermes_core.plugins.verbs import Verbs
from hermes_core.tools import AsyncTool, Tool

__all__ = ["Plugins"]

log = logging.getLogger("hermes.plugins")
T = TypeVar("T")


class Plugins(Verbs):
    """The loaded plugins, and everything they bring."""

    def __init__(self, config: Config | None = None) -> None:
        super().__init__()
        self._config = config or Config()
        self.commands = Registry()
        self.tools: dict[str, Tool] = {}
        self.async_tools: dict[str, AsyncTool] = {}
        self.models: dict[str, ModelFactory] = {}
        self.adapters: dict[str, AdapterFactory] = {}
        self.aside = Aside()
        self._pluggy = pluggy.PluginManager("hermes")
        self._pluggy.add_hookspecs(hookspecs)
        self._loaded: dict[str, Brought] = {}
        self.points: dict[str, EntryPoint] = {}  # where the installed ones come from

    def add(self, name: str, plugin: object) -> None:
        """Register a plugin object under `name` and take in what it brings.

        `PluginError` where it breaks a rule of the hooks; then nothing of it stays, except that a
        single command, tool, model or adapter whose name is taken is left out and reported (P2).
        """
        info = self.infos.setdefault(name, PluginInfo(name, enabled=True))
        if name in self._loaded:
            raise PluginError(name, "there is a plugin with this name already.")
        brought = bring(self._pluggy, name, plugin, self._config)
        self._loaded[name] = brought
        self._order(brought.hooks)
        info.hooks = tuple(brought.hooks)
        info.asks_for = brought.registers()
        self._take_in(info, brought)

    def culprit(self, frame: FrameType) -> Culprit:
        """Whose code runs in this frame; may be asked from any thread, for something that went wrong."""
        return Owners(dict(self._loaded), self.points).culprit(frame)

    def _order(self, hooks: Iterable[str]) -> None:
        """Put the implementations of these hooks in order: `tryfirst` (the latest one first), plain ones, `trylast`."""
        for hook in hooks:
            found = [one.hooks[hook] for one in self._loaded.values() if hook in one.hooks]
            early = [one for one in reversed(found) if one.rank < 0]
            self._calls[hook] = (*early, *sorted((one for one in found if one.rank >= 0), key=_rank))

    def _take_in(self, info: PluginInfo, brought: Brought) -> None:
        for command in brought.commands:
            if self._added(info, self.commands.add, info.name, command):
                info.commands = (*info.commands, command.name)
        for tool in brought.tools:
            if self._added(info, _add_once, self.tools, "tool", tool.name, tool):
                info.tools = (*info.tools, tool.name)
        for job in brought.async_tools:
            if self._added(info, _add_once, self.tools, "tool", job.starter.name, job.starter):
                self.async_tools[job.name] = job
                info.tools = (*info.tools, job.starter.name)
        for model in brought.models:
            if self._added(info, _add_once, self.models, "model", model.provider, model):
                info.models = (*info.models, model.provider)
        for adapter in brought.adapters:
            if self._added(info, _add_once, self.adapters, "adapter", adapter.platform, adapter):
                info.adapters = (*info.adapters, adapter.platform)

    def _added(self, info: PluginInfo, adding: Callable[..., None], *values: Any) -> bool:
        try:
            adding(*values)
        except HermesError as error:
            info.problem = f"{info.problem} {error}".strip()
            log.warning("plugin %s: %s", info.name, error)
            return False
        return True


def _rank(one: Implementation) -> int:
    return one.rank


def _add_once(taken: dict[str, T], kind: str, name: str, value: T) -> None:
    if name in taken:
        raise HermesError(f"The {kind} {name!r} is there already, from another plugin.")
    taken[name] = value
