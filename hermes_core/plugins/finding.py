"""Finding: the installed plugins, by their entry points, and the loading of those that are enabled."""

from __future__ import annotations

import difflib
import importlib.metadata
import logging

import msgspec

from hermes_core.config import DEFAULT_PACKAGES, Config
from hermes_core.errors import ConfigError, HermesError, NotApproved
from hermes_core.plugins.brought import PluginInfo
from hermes_core.plugins.limits import brief, meant
from hermes_core.plugins.loaded import Plugins

__all__ = ["catalogue", "load", "made"]

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
    for name in config.named():
        if name not in plugins.infos and config.enabled(name):
            near = difflib.get_close_matches(name, plugins.infos, 1)
            raise ConfigError(
                f"The config enables {name!r}, but no such plugin is installed.",
                f"Did you mean {near[0]!r}?" if near else "Install it, or take it out of the config.",
            )
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


class _NoSettings(msgspec.Struct, frozen=True):
    """What a plugin without `Settings` has: every key in its section is an error."""


def made(name: str, loaded: object, config: Config) -> object:
    settings = getattr(loaded, "Settings", None) if isinstance(loaded, type) else None
    if settings is None:
        config.section(_table(name, config), name, _NoSettings)
        return loaded() if isinstance(loaded, type) else loaded
    assert isinstance(loaded, type)
    return loaded(config.section(_table(name, config), name, settings))


def _table(name: str, config: Config) -> str:
    adapters = f"adapters.{name}"
    return "adapters" if adapters in DEFAULT_PACKAGES or config.given(adapters) else "plugins"


def catalogue(config: Config) -> list[PluginInfo]:
    """Every installed plugin by name; the enabled ones are loaded to see what they bring."""
    return list(load(config).infos.values())
