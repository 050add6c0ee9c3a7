"""Finding: the installed plugins, by their entry points, and the loading of those that are enabled."""

from __future__ import annotations

import difflib
import importlib.metadata
import logging
from collections.abc import Collection

import msgspec

from hermes_core.config import DEFAULT_PACKAGES, Config
from hermes_core.errors import ConfigError, HermesError, NotApproved
from hermes_core.plugins.brought import PluginInfo
from hermes_core.plugins.limits import brief, meant
from hermes_core.plugins.loaded import Plugins

__all__ = ["catalogue", "check", "load", "made"]

log = logging.getLogger("hermes.plugins")


def _installed() -> list[importlib.metadata.EntryPoint]:
    found = importlib.metadata.entry_points(group="hermes")
    return sorted({one.name: one for one in found}.values(), key=lambda one: one.name)


def load(config: Config) -> Plugins:
    """Load every enabled plugin that is installed; problems are reported in `Plugins.infos` (P2).

    `ConfigError` where the config enables or requires one that is not installed, and where a required
    one cannot be loaded: the program must not start half.
    """
    plugins = Plugins(config)
    points = _installed()
    for point in points:
        info = PluginInfo(point.name, enabled=config.enabled(point.name))
        if point.dist is not None:
            info.package, info.version = point.dist.name, point.dist.version
        plugins.infos[point.name] = info
    _all_there(config, plugins.infos)
    for name, approval in config.approvals.plugins.items():
        if name not in plugins.infos and approval.enabled and config.enabled(name):
            gone = f"it is enabled, but its package {approval.package} is no longer installed. Install it again, or: "
            problem = f"{gone}hermes plugins disable {name}"
            plugins.infos[name] = PluginInfo(name, approval.package, problem=problem)
            log.error("plugin %s: %s", name, problem)
    for point in points:
        if plugins.infos[point.name].enabled:
            _load_one(plugins, point, config)
    return plugins


def _all_there(config: Config, known: Collection[str]) -> None:
    for name in config.named():
        if name not in known and config.enabled(name):
            near = difflib.get_close_matches(name, known, 1)
            raise ConfigError(
                f"The config enables {name!r}, but no such plugin is installed.",
                f"Did you mean {near[0]!r}?" if near else "Install it, or take it out of the config.",
            )


def _load_one(plugins: Plugins, point: importlib.metadata.EntryPoint, config: Config) -> None:
    info = plugins.infos[point.name]
    plugins.points[point.name] = point
    try:
        plugins.add(point.name, made(point.name, point.load(), config))
    except ConfigError:
        raise
    except BaseException as error:  # the edge to foreign code: an import error stays the plugin's own
        if meant(error):
            raise
        info.problem = (
            str(error).removeprefix(f"plugin {point.name!r}: ")  # whose problem it is stands beside it
            if isinstance(error, HermesError)
            else f"cannot be loaded: {brief(error)}"
        )
        info.enabled = not isinstance(error, NotApproved)
        log.error("plugin %s cannot be loaded: %s", point.name, error, exc_info=error)
        if config.required(point.name):
            raise ConfigError(
                f"The required plugin {point.name!r} cannot be loaded: {info.problem}"
            ) from error


def check(config: Config) -> None:
    """`ConfigError` for what `load` would refuse in the config; what cannot be imported is left to it."""
    points = {point.name: point for point in _installed()}
    _all_there(config, points)
    for name, point in points.items():
        if config.enabled(name):
            try:
                loaded = point.load()
            except BaseException as error:  # the edge to foreign code: an import error stays the plugin's own
                if meant(error):
                    raise
                continue
            _settings(name, loaded, config)


class _NoSettings(msgspec.Struct, frozen=True):
    """What a plugin without `Settings` has: every key in its section is an error."""


def made(name: str, loaded: object, config: Config) -> object:
    settings = _settings(name, loaded, config)
    if not isinstance(loaded, type):
        return loaded
    return loaded() if isinstance(settings, _NoSettings) else loaded(settings)


def _settings(name: str, loaded: object, config: Config) -> msgspec.Struct:
    """The plugin's section, checked against its `Settings`."""
    settings = getattr(loaded, "Settings", None) if isinstance(loaded, type) else None
    section: msgspec.Struct = config.section(_table(name, config), name, settings or _NoSettings)
    return section


def _table(name: str, config: Config) -> str:
    adapters = f"adapters.{name}"
    return "adapters" if adapters in DEFAULT_PACKAGES or config.given(adapters) else "plugins"


def catalogue(config: Config) -> list[PluginInfo]:
    """Every installed plugin by name; the enabled ones are loaded to see what they bring."""
    return list(load(config).infos.values())
