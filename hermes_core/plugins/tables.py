"""Tables: what all loaded plugins bring, by name; whoever comes first keeps a name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from hermes_core.adapter import AdapterFactory
from hermes_core.commands import Registry
from hermes_core.errors import HermesError
from hermes_core.models import ModelFactory
from hermes_core.plugins.brought import Brought, PluginInfo
from hermes_core.tools import AsyncTool, Tool

__all__ = ["Tables"]

T = TypeVar("T")


@dataclass(slots=True)
class Tables:
    """One table for each kind."""

    commands: Registry = field(default_factory=Registry)
    tools: dict[str, Tool] = field(default_factory=dict)
    async_tools: dict[str, AsyncTool] = field(default_factory=dict)
    models: dict[str, ModelFactory] = field(default_factory=dict)
    adapters: dict[str, AdapterFactory] = field(default_factory=dict)

    def take_in(self, info: PluginInfo, brought: Brought) -> dict[str, str]:
        """Put in what is brought, and its names into `info`; gives what is left out, and whose name it has."""
        left: dict[str, str] = {}
        commands = []
        for command in brought.commands:
            try:
                self.commands.add(info.name, command)
            except HermesError as error:
                left[f"/{command.name}"] = str(error)
            else:
                commands.append(command.name)
        starters = {one.starter.name: one for one in brought.async_tools}
        tools = [(one.name, one) for one in brought.tools] + [
            (name, one.starter) for name, one in starters.items()
        ]
        info.commands = tuple(commands)
        info.tools = _put(self.tools, "tool", tools, left)
        self.async_tools.update((one.name, one) for name, one in starters.items() if name in info.tools)
        info.models = _put(self.models, "model", [(one.provider, one) for one in brought.models], left)
        info.adapters = _put(
            self.adapters, "adapter", [(one.platform, one) for one in brought.adapters], left
        )
        return left

    def without(self, info: PluginInfo) -> Tables:
        """A copy in which nothing of this plugin is left."""
        return Tables(
            self.commands.without(info.name),
            _rest(self.tools, info.tools),
            {name: one for name, one in self.async_tools.items() if one.starter.name not in info.tools},
            _rest(self.models, info.models),
            _rest(self.adapters, info.adapters),
        )


def _put(
    table: dict[str, T], kind: str, brought: Iterable[tuple[str, T]], left: dict[str, str]
) -> tuple[str, ...]:
    """The names that were free."""
    names = []
    for name, value in brought:
        if name in table:
            left[f"{kind} {name}"] = f"The {kind} {name!r} is there already, from another plugin."
        else:
            table[name] = value
            names.append(name)
    return tuple(names)


def _rest(table: dict[str, T], names: Iterable[str]) -> dict[str, T]:
    gone = set(names)
    return {name: value for name, value in table.items() if name not in gone}
