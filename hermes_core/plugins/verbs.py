"""Verbs: the three ways in which hooks are called. Every call is isolated, and within its limit."""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
import types
from collections.abc import Iterator
from time import perf_counter
from typing import Any, Final, TypeVar

from hermes_core import hookspecs
from hermes_core.metrics import Tally
from hermes_core.plugins.brought import Implementation, PluginInfo
from hermes_core.plugins.limits import OverLimitError, brief, meant, resume, within

__all__ = ["Verbs"]

log = logging.getLogger("hermes.plugins")
T = TypeVar("T")


class _Failed:
    """What a failed implementation gives, in place of a result."""


_FAILED: Final = _Failed()

STRIKES: Final = 3  # calls in a row over their limit, after which a plugin's hook is given a rest
REST: Final = 60.0  # seconds


def _rests(one: Implementation) -> bool:
    """Whether it is not asked at this instant; afterwards one more call that hangs is enough."""
    return asyncio.get_running_loop().time() < one.rest.until


def _trust(one: Implementation) -> None:
    one.rest.strikes, one.rest.until = 0, 0.0


class Verbs:
    """The implementations of every hook in their order, and what became of their plugins."""

    def __init__(self) -> None:
        self.infos: dict[str, PluginInfo] = {}
        self._calls: dict[str, tuple[Implementation, ...]] = dict.fromkeys(hookspecs.verbs, ())

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
            if one.rest.until and _rests(one):
                continue
            began = perf_counter()
            try:
                result = one.function(*map(arguments.__getitem__, one.arguments))
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
                self._failed(one, hook, error, began)
            else:
                tally = one.tally
                tally.calls += 1
                tally.seconds += perf_counter() - began
                if one.rest.strikes:
                    _trust(one)
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

    async def _call(self, one: Implementation, hook: str, arguments: dict[str, Any]) -> Any:
        if one.rest.until and _rests(one):
            return _FAILED
        began = perf_counter()
        try:
            result = one.function(*[arguments[name] for name in one.arguments])
            if inspect.iscoroutine(result):
                result = await within(result, hookspecs.verbs[hook].limit)
            elif inspect.isawaitable(result):
                result = await result
        except BaseException as error:  # the edge to foreign code: a plugin's fault stays its own
            if meant(error):
                raise
            self._failed(one, hook, error, began)
            return _FAILED
        one.tally.calls += 1
        one.tally.seconds += perf_counter() - began
        if one.rest.strikes:
            _trust(one)
        return result

    def _failed(self, one: Implementation, hook: str, error: BaseException, began: float) -> None:
        tally = one.tally
        tally.calls += 1
        tally.failed += 1
        tally.seconds += perf_counter() - began
        self.report(one.plugin, hook, error)
        if not isinstance(error, OverLimitError):
            _trust(one)
            return
        rest = one.rest
        rest.strikes += 1
        if rest.strikes >= STRIKES:
            rest.until = asyncio.get_running_loop().time() + REST
            log.error(
                "plugin %s: %s is not asked for %.0f s: %d calls in a row hung",
                one.plugin,
                hook,
                REST,
                rest.strikes,
            )

    def tallies(self) -> Iterator[tuple[str, str, Tally]]:
        """Plugin, hook and what its calls amounted to so far; a plugin that is loaded anew counts from 0."""
        for hook, implementations in self._calls.items():
            for one in implementations:
                yield one.plugin, hook, one.tally

    def report(self, plugin: str, what: str, error: BaseException) -> str:
        """Log a plugin's fault under its name; gives the short id by which people can quote it."""
        id_ = secrets.token_hex(3)
        text = f"took longer than {error}" if isinstance(error, OverLimitError) else brief(error)
        log.error("plugin %s: %s failed (%s): %s", plugin, what, id_, text, exc_info=error)
        self.blame(plugin, f"{what} failed ({id_}): {text}")
        return id_

    def blame(self, plugin: str, problem: str) -> None:
        """Keep a problem as this plugin's latest; from any thread."""
        if plugin in self.infos:
            self.infos[plugin].problem = problem
