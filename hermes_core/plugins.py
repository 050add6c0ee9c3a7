"""Plugins: finds, checks and orders them; the only place where their hooks are called.

Theory of operation. A plugin is an installed package with an entry point in group `hermes`, whose
name is the plugin's name. It names a module, an object, or a class; a class is called with its
section of the config, checked against its `Settings`. pluggy keeps the marks, checks argument names
and orders implementations. Calling is ours, because pluggy does not know coroutines: `each`, `first`
and `fold` ask one implementation after the other, wait for each within its limit, and isolate it
(P2): whatever it does ends as a report under its plugin's name, never as an exception of the caller.
Our own plugins come in by the same door (P1).
"""

from __future__ import annotations

import asyncio
import difflib
import importlib.metadata
import inspect
import logging
import secrets
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, TypeVar

import msgspec
import pluggy

from hermes_core import hookspecs
from hermes_core.adapter import AdapterFactory
from hermes_core.commands import Command, Registry
from hermes_core.config import DEFAULT_PACKAGES, Config
from hermes_core.errors import ConfigError, HermesError, PluginError
from hermes_core.models import ModelFactory
from hermes_core.tools import AsyncTool, Tool

__all__ = ["PluginInfo", "Plugins", "catalogue", "load", "meant", "resume", "within"]

log = logging.getLogger("hermes.plugins")
T = TypeVar("T")


class PluginInfo(msgspec.Struct):
    """One installed plugin: what it brings, or `problem`, the reason why it does not."""

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


class _Implementation(msgspec.Struct, frozen=True):
    plugin: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]


class _Failed:
    """What a failed implementation gives, in place of a result."""


_FAILED: Final = _Failed()


class Plugins:
    """The loaded plugins, and everything they bring."""

    def __init__(self, config: Config | None = None) -> None:
        self._config = config or Config()
        self.infos: dict[str, PluginInfo] = {}
        self.commands = Registry()
        self.tools: dict[str, Tool] = {}
        self.async_tools: dict[str, AsyncTool] = {}
        self.models: dict[str, ModelFactory] = {}
        self.adapters: dict[str, AdapterFactory] = {}
        self._pluggy = pluggy.PluginManager("hermes")
        self._pluggy.add_hookspecs(hookspecs)
        self._calls: dict[str, tuple[_Implementation, ...]] = dict.fromkeys(hookspecs.verbs, ())

    def add(self, name: str, plugin: object) -> None:
        """Register a plugin object under `name` and take in what it brings.

        `PluginError` where it breaks a rule of the hooks; then nothing of it stays, except that a
        single command, tool, model or adapter whose name is taken is left out and reported (P2).
        """
        info = self.infos.setdefault(name, PluginInfo(name, enabled=True))
        if self._pluggy.has_plugin(name):
            raise PluginError(name, "there is a plugin with this name already.")
        info.hooks = _check(self._pluggy, name, plugin)
        try:
            self._pluggy.register(plugin, name)
        except (pluggy.PluginValidationError, ValueError) as error:
            if self._pluggy.has_plugin(name):
                self._pluggy.unregister(name=name)
            raise PluginError(name, str(error).strip().splitlines()[-1]) from error
        for hook in info.hooks:
            self._order(hook)
        try:
            self._take_in(info)
        except PluginError:
            self._pluggy.unregister(name=name)
            for hook in info.hooks:
                self._order(hook)
            raise

    def _order(self, hook: str) -> None:
        # pluggy keeps [trylast …, plain …, tryfirst …] and calls from the end; plain ones in the order
        # of their registration are what people expect to read in a list of plugins.
        found = getattr(self._pluggy.hook, hook).get_hookimpls()
        ranked = [
            *(one for one in reversed(found) if one.tryfirst),
            *(one for one in found if not one.tryfirst and not one.trylast),
            *(one for one in reversed(found) if one.trylast),
        ]
        self._calls[hook] = tuple(
            _Implementation(one.plugin_name, one.function, tuple(one.argnames)) for one in ranked
        )

    def _take_in(self, info: PluginInfo) -> None:
        for one in self._calls["hermes_configured"]:
            if one.plugin == info.name:
                try:
                    one.function(*[self._config for _ in one.arguments])
                except BaseException as error:  # the edge to foreign code: a plugin's fault stays its own
                    if meant(error):
                        raise
                    raise PluginError(info.name, f"hermes_configured failed: {_brief(error)}.") from error
        for command in self._brought(info.name, "hermes_commands", Command):
            if self._add(info, self.commands.add, info.name, command):
                info.commands = (*info.commands, command.name)
        self._take_in_tools(info)
        for model in self._brought(info.name, "hermes_models", ModelFactory):
            if self._add(info, _add_once, self.models, "model", model.provider, model):
                info.models = (*info.models, model.provider)
        for adapter in self._brought(info.name, "hermes_adapters", AdapterFactory):
            if self._add(info, _add_once, self.adapters, "adapter", adapter.platform, adapter):
                info.adapters = (*info.adapters, adapter.platform)

    def _take_in_tools(self, info: PluginInfo) -> None:
        for tool in self._brought(info.name, "hermes_tools", Tool):
            if self._add(info, _add_once, self.tools, "tool", tool.name, tool):
                info.tools = (*info.tools, tool.name)
        for job in self._brought(info.name, "hermes_async_tools", AsyncTool):
            if self._add(info, _add_once, self.tools, "tool", job.starter.name, job.starter):
                self.async_tools[job.name] = job
                info.tools = (*info.tools, job.starter.name)

    def _brought(self, name: str, hook: str, kind: type[T]) -> list[T]:
        brought: list[T] = []
        for one in self._calls[hook]:
            if one.plugin == name:
                try:
                    brought.extend(one.function())
                except BaseException as error:  # the edge to foreign code: a plugin's fault stays its own
                    if meant(error):
                        raise
                    raise PluginError(name, f"{hook} failed: {_brief(error)}.") from error
        for value in brought:
            if not isinstance(value, kind):
                raise PluginError(name, f"{hook} gave {type(value).__name__}, not {kind.__name__}.")
        return brought

    def _add(self, info: PluginInfo, adding: Callable[..., None], *values: Any) -> bool:
        try:
            adding(*values)
        except HermesError as error:
            info.problem = f"{info.problem} {error}".strip()
            log.warning("plugin %s: %s", info.name, error)
            return False
        return True

    # -- the three verbs

    def asks(self, hook: str) -> bool:
        """Whether any plugin implements `hook`: a caller on a hot path need not prepare a call."""
        return bool(self._calls[hook])

    async def each(self, hook: str, **arguments: Any) -> list[Any]:
        """Ask all plugins, in order; the results of those that did not fail."""
        results = [await self._call(one, hook, arguments) for one in self._calls[hook]]
        return [result for result in results if result is not _FAILED]

    async def each_by_name(self, hook: str, **arguments: Any) -> list[tuple[str, Any]]:
        """Like `each`, every result with the name of its plugin."""
        results = [(one.plugin, await self._call(one, hook, arguments)) for one in self._calls[hook]]
        return [(name, result) for name, result in results if result is not _FAILED]

    async def first(self, hook: str, **arguments: Any) -> Any:
        """Ask plugins in order until one gives something other than None."""
        for one in self._calls[hook]:
            try:
                result = one.function(*[arguments[name] for name in one.arguments])
                if type(result) is types.CoroutineType:
                    try:  # most implementations never wait: those cost no timer and no further frame
                        waits_for = result.send(None)
                    except StopIteration as done:
                        result = done.value
                    else:
                        result = await resume(result, waits_for, hookspecs.verbs[hook].limit)
                elif inspect.isawaitable(result):
                    result = await result
            except BaseException as error:  # the edge to foreign code: a plugin's fault stays its own
                if meant(error):
                    raise
                self.report(one.plugin, hook, error)
            else:
                if result is not None:
                    return result
        return None

    async def fold(self, hook: str, value: T, name: str, **arguments: Any) -> T:
        """Hand `value` through all plugins as the argument `name`.

        A plugin that fails, or gives another type, is passed over.
        """
        for one in self._calls[hook]:
            result = await self._call(one, hook, {**arguments, name: value})
            if isinstance(result, type(value)):
                value = result
            elif result is not _FAILED:
                self.report(one.plugin, hook, TypeError(f"gave {type(result).__name__}"))
        return value

    async def _call(self, one: _Implementation, hook: str, arguments: dict[str, Any]) -> Any:
        try:
            result = one.function(*[arguments[name] for name in one.arguments])
            if inspect.iscoroutine(result):
                return await within(result, hookspecs.verbs[hook].limit)
            return await result if inspect.isawaitable(result) else result
        except BaseException as error:  # the edge to foreign code: a plugin's fault stays its own
            if meant(error):
                raise
            self.report(one.plugin, hook, error)
            return _FAILED

    def report(self, plugin: str, what: str, error: BaseException) -> str:
        """Log a plugin's fault under its name; gives the short id by which people can quote it."""
        id_ = secrets.token_hex(3)
        text = f"took longer than {error}" if isinstance(error, _OverLimitError) else _brief(error)
        log.error("plugin %s: %s failed (%s): %s", plugin, what, id_, text, exc_info=error)
        if plugin in self.infos:
            self.infos[plugin].problem = f"{what} failed ({id_}): {text}"
        return id_


def meant(error: BaseException) -> bool:
    """Whether `error` is for us, and not a fault of the foreign code that it came through.

    That is Ctrl+C, and the cancellation of the present task. Foreign code may raise anything else: a
    cancellation of a task of its own that it awaited, `SystemExit`, what no `except Exception` catches.
    """
    if isinstance(error, asyncio.CancelledError):
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return False
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt)


class _OverLimitError(TimeoutError):
    """A call took longer than its limit."""


async def within(coroutine: Coroutine[Any, Any, T], limit: float) -> T:
    """Await `coroutine` in the present task for at most `limit` seconds, then cancel it (TimeoutError).

    A coroutine that never waits costs no timer. One that swallows the cancellation has `limit` seconds
    more for its clean-up and is then abandoned, so the caller goes on whatever it does. A cancellation
    of the calling task is handed on to it and ends the wait when it ends.
    """
    try:
        waits_for = coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    return await resume(coroutine, waits_for, limit)


@types.coroutine
def resume(coroutine: Coroutine[Any, Any, T], waits_for: Any, limit: float) -> Generator[Any, Any, T]:
    """`within` for a coroutine that has been begun, and waits for what its first `send` gave."""
    task = asyncio.current_task()
    assert task is not None
    loop = task.get_loop()
    expired = 0
    timer: asyncio.TimerHandle

    def expire() -> None:
        nonlocal expired, timer
        expired += 1
        timer = loop.call_later(limit, expire)
        task.cancel()

    timer = loop.call_later(limit, expire)
    try:
        while True:
            seen = expired
            try:
                value = yield waits_for
            except asyncio.CancelledError as cancelled:
                ours = expired > seen and task.uncancel() == 0
                if ours and expired > 1:
                    coroutine.close()
                    raise _OverLimitError(f"{limit:g} s, and did not let itself be cancelled") from cancelled
                waits_for = coroutine.throw(cancelled)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the coroutine
                waits_for = coroutine.throw(error)
            else:
                waits_for = coroutine.send(value)
    except StopIteration as done:
        if expired:
            raise _OverLimitError(f"{limit:g} s") from None
        return done.value  # type: ignore[no-any-return]
    except asyncio.CancelledError:
        if expired:
            raise _OverLimitError(f"{limit:g} s") from None
        raise
    finally:
        timer.cancel()


def _brief(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


def _add_once(taken: dict[str, T], kind: str, name: str, value: T) -> None:
    if name in taken:
        raise HermesError(f"The {kind} {name!r} is there already, from another plugin.")
    taken[name] = value


def _check(manager: pluggy.PluginManager, name: str, plugin: object) -> tuple[str, ...]:
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


# ---- finding


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
    for point in points:
        if plugins.infos[point.name].enabled:
            _load_one(plugins, point, config)
    return plugins


def _load_one(plugins: Plugins, point: importlib.metadata.EntryPoint, config: Config) -> None:
    info = plugins.infos[point.name]
    try:
        plugins.add(point.name, _make(point.name, point.load(), config))
    except ConfigError:
        raise
    except BaseException as error:  # the edge to foreign code: an import error stays the plugin's own
        if meant(error):
            raise
        info.problem = (
            error.message if isinstance(error, HermesError) else f"cannot be loaded: {_brief(error)}"
        )
        log.error("plugin %s cannot be loaded: %s", point.name, error, exc_info=error)
        if config.required(point.name):
            raise ConfigError(
                f"The required plugin {point.name!r} cannot be loaded: {info.problem}"
            ) from error


class _NoSettings(msgspec.Struct, frozen=True):
    """What a plugin without `Settings` has: every key in its section is an error."""


def _make(name: str, loaded: object, config: Config) -> object:
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
