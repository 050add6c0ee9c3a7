"""Brought: everything that one plugin brings, asked for and checked before any of it takes effect."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import pluggy

from hermes_core import hookspecs
from hermes_core.adapter import AdapterFactory
from hermes_core.commands import Command
from hermes_core.config import Config
from hermes_core.errors import NotApproved, PluginError
from hermes_core.metrics import Tally
from hermes_core.models import ModelFactory
from hermes_core.plugins.limits import brief, meant
from hermes_core.tools import AsyncTool, Tool

__all__ = ["Brought", "Implementation", "PluginInfo", "bring"]

T = TypeVar("T")


class PluginInfo(msgspec.Struct):
    """One installed plugin: what it brings, or `problem`, the reason why it does not.

    `asks_for` has, by kind, all that it wants to register, aliases and what is taken by others included.
    """

    name: str
    package: str = ""
    version: str = ""
    enabled: bool = False
    problem: str = ""
    commands: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    asks_for: Mapping[str, tuple[str, ...]] = {}


class Rest(msgspec.Struct, gc=False):
    """How often in a row a call was over its limit, and until when (the event loop's time) nobody asks again."""

    strikes: int = 0
    until: float = 0.0


class Implementation(msgspec.Struct, frozen=True):
    """One plugin's implementation of a hook; `rank` is -1 for `tryfirst` and 1 for `trylast`.

    `tally` counts its calls; `rest`: whether it is asked at all.
    """

    plugin: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]
    rank: int = 0
    tally: Tally = msgspec.field(default_factory=Tally)
    rest: Rest = msgspec.field(default_factory=Rest)


class Brought(msgspec.Struct, frozen=True):
    """What the plugin object `plugin` brings under `name`."""

    name: str
    plugin: object
    hooks: Mapping[str, Implementation]
    commands: tuple[Command, ...]
    tools: tuple[Tool, ...]
    async_tools: tuple[AsyncTool, ...]
    models: tuple[ModelFactory, ...]
    adapters: tuple[AdapterFactory, ...]

    def registers(self) -> dict[str, tuple[str, ...]]:
        """The names of it all, by kind, as they are approved (P4)."""
        return {
            "adapters": tuple(one.platform for one in self.adapters),
            "models": tuple(one.provider for one in self.models),
            "commands": tuple(name for one in self.commands for name in (one.name, *one.aliases)),
            "tools": (*(one.name for one in self.tools), *(one.starter.name for one in self.async_tools)),
            "hooks": tuple(self.hooks),
        }


def bring(manager: pluggy.PluginManager, name: str, plugin: object, config: Config) -> Brought:
    """Check the hooks of `plugin` and ask it, once, what it brings; nothing takes effect.

    `manager` knows the specifications and is left as it was. `PluginError` where the plugin breaks a
    rule of the hooks or fails, `NotApproved` where it brings more than it may.
    """
    names = _marked(manager, name, plugin)
    try:
        manager.register(plugin, name)
    except (pluggy.PluginValidationError, ValueError) as error:
        raise PluginError(name, str(error).strip().splitlines()[-1]) from error
    else:
        found = [(hook, one) for hook in names for one in getattr(manager.hook, hook).get_hookimpls()]
    finally:
        if manager.has_plugin(name):
            manager.unregister(name=name)
    hooks = {
        hook: Implementation(name, one.function, tuple(one.argnames), one.trylast - one.tryfirst)
        for hook, one in found
    }
    configured = hooks.get("hermes_configured")
    if configured is not None:
        _call(configured, "hermes_configured", [config for _ in configured.arguments])
    brought = Brought(
        name,
        plugin,
        hooks,
        _all(hooks, "hermes_commands", Command),
        _all(hooks, "hermes_tools", Tool),
        _all(hooks, "hermes_async_tools", AsyncTool),
        _all(hooks, "hermes_models", ModelFactory),
        _all(hooks, "hermes_adapters", AdapterFactory),
    )
    more = config.unapproved(name, brought.registers())
    if more:
        raise NotApproved(
            name,
            f"it registers more than was approved: {', '.join(more)}. "
            f"To look at it and approve it: hermes plugins enable {name}",
        )
    return brought


def _all(hooks: Mapping[str, Implementation], hook: str, kind: type[T]) -> tuple[T, ...]:
    one = hooks.get(hook)
    if one is None:
        return ()
    values = _call(one, hook, [], gathered=True)
    for value in values:
        if not isinstance(value, kind):
            raise PluginError(one.plugin, f"{hook} gave {type(value).__name__}, not {kind.__name__}.")
    return tuple(values)


def _call(one: Implementation, hook: str, arguments: list[Any], *, gathered: bool = False) -> list[Any]:
    try:
        given = one.function(*arguments)
        return list(given) if gathered else []
    except BaseException as error:  # the edge to foreign code: a plugin's fault stays its own
        if meant(error):
            raise
        raise PluginError(one.plugin, f"{hook} failed: {brief(error)}.") from error


def _marked(manager: pluggy.PluginManager, name: str, plugin: object) -> tuple[str, ...]:
    """The hooks that `plugin` implements; `PluginError` for what pluggy would let pass in silence."""
    hooks: list[str] = []
    for attribute in dir(plugin):
        if attribute.startswith("__"):
            continue
        options = manager.parse_hookimpl_opts(plugin, attribute)
        known = attribute in hookspecs.verbs
        if options is None:
            if known and callable(getattr(plugin, attribute)):
                raise PluginError(name, f"{attribute} lacks the mark @hookimpl.")
            continue
        if not known:
            near = difflib.get_close_matches(attribute, hookspecs.verbs, 1)
            raise PluginError(
                name, f"there is no hook {attribute!r}.", f"Did you mean {near[0]}?" if near else ""
            )
        if options.get("wrapper") or options.get("hookwrapper"):
            raise PluginError(
                name, f"{attribute} is a wrapper.", "Hooks are coroutines; wrappers would end before them."
            )
        hooks.append(attribute)
    return tuple(hooks)
