"""Loaded: the plugins of this run, by name, and the tables of what they bring."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import EntryPoint
from types import FrameType

import pluggy

from hermes_core import hookspecs
from hermes_core.adapter import AdapterFactory
from hermes_core.commands import Registry
from hermes_core.config import Config
from hermes_core.errors import PluginError
from hermes_core.models import ModelFactory
from hermes_core.plugins.aside import Aside
from hermes_core.plugins.brought import Brought, Implementation, PluginInfo, bring
from hermes_core.plugins.lately import Lately, Work
from hermes_core.plugins.owners import Culprit, Ground, Owners, ground, home
from hermes_core.plugins.tables import Tables
from hermes_core.plugins.verbs import Verbs
from hermes_core.tools import AsyncTool, Kind, Tool

__all__ = ["Plugins"]

log = logging.getLogger("hermes.plugins")


class Plugins(Verbs):
    """The loaded plugins, and everything they bring.

    `commands` and `async_tools` stay the same objects for the whole run. `tools`, `models` and `adapters`
    are new ones after a reload, so that who holds the old ones keeps what it began with.
    """

    def __init__(self, config: Config | None = None) -> None:
        super().__init__()
        self._config = config or Config()
        self.commands = Registry()
        self.tools: dict[str, Tool] = {}
        self.async_tools: dict[str, AsyncTool] = {}
        self.models: dict[str, ModelFactory] = {}
        self.adapters: dict[str, AdapterFactory] = {}
        self.aside = Aside()
        self.lately = Lately()
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
        brought = self.bring(name, plugin)
        self._loaded[name] = brought
        self._order(brought.hooks)
        info.hooks = tuple(brought.hooks)
        info.asks_for = brought.registers()
        for error in self._tables().take_in(info, brought).values():
            info.problem = f"{info.problem} {error}".strip()
            log.warning("plugin %s: %s", name, error)

    def bring(self, name: str, plugin: object) -> Brought:
        """Check a plugin object and ask it what it brings; nothing of it takes effect. `PluginError` as for `add`."""
        return bring(self._pluggy, name, plugin, self._config)

    def replace(self, brought: Brought, point: EntryPoint) -> None:
        """Put another version in the place of the loaded one, at once and whole.

        `PluginError` where a name that it brings is another plugin's, unless the old version had to do
        without it as well; then nothing has changed.
        """
        name = brought.name
        old, kept = self._loaded.get(name), self.infos[name]
        info = PluginInfo(name, enabled=True, hooks=tuple(brought.hooks), asks_for=brought.registers())
        if point.dist is not None:
            info.package, info.version = point.dist.name, point.dist.version
        tables = self._tables().without(kept)
        left = tables.take_in(info, brought)
        before = self._tables().without(kept).take_in(PluginInfo(name), old) if old is not None else {}
        for what, error in left.items():
            if what not in before:
                raise PluginError(name, error)
        info.problem = " ".join(left.values())
        self._loaded[name], self.points[name], self.infos[name] = brought, point, info
        self._order({*brought.hooks, *(old.hooks if old is not None else ())})
        self.commands.become(tables.commands)
        self.async_tools.clear()
        self.async_tools.update(tables.async_tools)
        self.tools, self.models, self.adapters = tables.tools, tables.models, tables.adapters

    def holds(self, name: str) -> bool:
        """Whether the plugin of this name is loaded."""
        return name in self._loaded

    def ground(self, name: str, point: EntryPoint) -> Ground:
        """The files of this plugin, as far as they are known: all, when it is loaded."""
        brought = self._loaded.get(name)
        return ground(brought.plugin if brought is not None else None, point)

    def sharing(self, name: str, ground: Ground) -> list[str]:
        """Other plugins whose code is on this ground."""
        return [
            one.name for one in self._loaded.values() if one.name != name and ground.holds(home(one.plugin))
        ]

    def culprit(self, frame: FrameType) -> Culprit:
        """Whose code runs in this frame; may be asked from any thread, for something that went wrong."""
        return Owners(dict(self._loaded), self.points).culprit(frame)

    def worked(self) -> Work:
        """What plugins did since this was last asked; for one asker, in any thread."""
        return self.lately.look(list(self.tallies()))

    def at_work(self, tool: Tool) -> AbstractContextManager[None]:
        """Around a call of this tool; what runs in a process of its own does nothing in this one."""
        if tool.kind is Kind.PROCESS:
            return nullcontext()
        owners = (one.name for one in self.infos.values() if tool.name in one.tools)
        return self.lately.at_work(next(owners, "?"))

    def _tables(self) -> Tables:
        return Tables(self.commands, self.tools, self.async_tools, self.models, self.adapters)

    def _order(self, hooks: Iterable[str]) -> None:
        """Put the implementations of these hooks in order: `tryfirst` (the latest one first), plain ones, `trylast`."""
        for hook in hooks:
            found = [one.hooks[hook] for one in self._loaded.values() if hook in one.hooks]
            early = [one for one in reversed(found) if one.rank < 0]
            self._calls[hook] = (*early, *sorted((one for one in found if one.rank >= 0), key=_rank))


def _rank(one: Implementation) -> int:
    return one.rank
