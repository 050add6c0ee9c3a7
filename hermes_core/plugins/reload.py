"""Reload: another version of one plugin takes the place of the running one, and nothing else stops.

Theory of operation. All modules of the plugin are put aside, helpers too; the new ones are imported, the
plugin is made and asked what it brings, all without a wait in between, so that nobody sees half of it.
Where that fails, the old modules are put back and the old version has never stopped. Where it does not,
the tables are swapped in one step, and then the tasks that run the old version's own code are cancelled
and waited for. What is the house's goes on: a turn keeps the tools with which it began, a call that runs
ends with the code with which it began, and the next ones are the new version's.

A thread cannot be ended, a timer of the event loop or a task that runs a library's code bears no owner:
the first is named, the others are the plugin's own affair.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.metadata
import importlib.util
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec
from pluggy import PluginValidationError

from hermes_core.config import Config
from hermes_core.errors import HermesError, PluginError
from hermes_core.plugins.brought import Brought
from hermes_core.plugins.finding import made
from hermes_core.plugins.limits import meant
from hermes_core.plugins.loaded import Plugins
from hermes_core.plugins.owners import Ground

__all__ = ["Reloaded", "reload"]

log = logging.getLogger("hermes.plugins")

ROUNDS: Final = 3  # of cancelling tasks that swallow it
ROUND: Final = 1.0  # seconds


class Reloaded(msgspec.Struct, frozen=True):
    """What a reload did: versions, modules that are new, tasks that were ended, and what would not end."""

    name: str
    old: str
    new: str
    modules: int
    ended: int = 0
    left: tuple[str, ...] = ()

    def __str__(self) -> str:
        changed = f" {self.old} → {self.new}" if self.old != self.new else f" {self.new}"
        text = f"{self.name}{changed} is reloaded: {self.modules} modules"
        text += f", {self.ended} tasks of the old version ended" if self.ended else ""
        return (
            f"{text}. Still running of the old version: {', '.join(self.left)}." if self.left else f"{text}."
        )


async def reload(
    plugins: Plugins, config: Config, name: str, ready: Callable[[Brought], Callable[[], None]]
) -> Reloaded:
    """Load the plugin `name` anew. `PluginError` where that fails; the version that ran goes on as it was.

    `ready` is called with what the new version brings and may refuse it by raising; what it gives is called
    in the same instant in which the new version takes the place of the old one.
    Cancelled while it waits for the old version's tasks, it has swapped already; they are cancelled once.
    """
    point = _found(plugins, name)
    old = plugins.infos[name].version
    before = plugins.ground(name, point)
    if others := plugins.sharing(name, before):
        raise PluginError(
            name,
            f"it shares its modules with {', '.join(others)}, so it cannot be loaded anew by itself.",
            "Start the program again: what waits is kept.",
        )
    aside = _put_aside(before)
    try:
        _forget_bytecode(aside.values())
        importlib.invalidate_caches()
        plugin = made(name, point.load(), config)
        brought = plugins.bring(name, plugin)
        take = ready(brought)
        plugins.replace(brought, point)
        take()
    except BaseException as error:  # the edge to foreign code: whatever it did, the old version goes on
        fresh = _put_aside(before)
        _put_back(aside)
        _cancel(fresh.values())
        if meant(error):
            raise
        refused = _refusal(plugins, name, error)
        plugins.blame(name, refused.message)
        raise refused from error
    modules = sum(before.holds(_file(one)) for one in list(sys.modules.values()))
    ended, left = await _ended(aside.values())
    for one in left:
        log.error("plugin %s: %s of the old version goes on", name, one)
    return Reloaded(name, old or "?", plugins.infos[name].version or "?", modules, ended, tuple(left))


def _refusal(plugins: Plugins, name: str, error: BaseException) -> PluginError:
    """What is said of it in a chat: our own words, but nothing that foreign code said (X2)."""
    goes_on = "The old version goes on." if plugins.holds(name) else ""
    if isinstance(error, HermesError) and isinstance(
        error.__cause__, HermesError | PluginValidationError | None
    ):
        text = error.message.removeprefix(f"plugin {name!r}: ")
        return PluginError(name, f"not reloaded: {text}", f"{error.advice} {goes_on}".strip())
    id_ = plugins.report(name, "the reload", error)
    kind = type(error.__cause__ or error if isinstance(error, HermesError) else error).__name__
    return PluginError(name, f"not reloaded: {kind} (error {id_}), the log says where.", goes_on)


def _found(plugins: Plugins, name: str) -> importlib.metadata.EntryPoint:
    """The entry point as it is installed now, which may be of another version than the one that runs."""
    info = plugins.infos.get(name)
    if info is None:
        known = ", ".join(sorted(one.name for one in plugins.infos.values() if one.enabled))
        raise PluginError(name, "there is no such plugin here.", f"There are: {known}.")
    if not info.enabled:
        raise PluginError(name, "it is not enabled.", f"hermes plugins enable {name}, then start again.")
    running = plugins.points.get(name)
    if running is None or running.dist is None:
        raise PluginError(name, "it was not loaded from an installed package, so it cannot be loaded anew.")
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        points = importlib.metadata.distribution(running.dist.name).entry_points
        for point in points.select(group="hermes", name=name):
            return point
    raise PluginError(name, f"its package {running.dist.name} no longer brings it.")


# ---- modules


def _file(module: ModuleType | None) -> str:
    """The real path of a module's file, or nothing."""
    file = getattr(module, "__file__", None)
    return str(Path(file).resolve()) if isinstance(file, str) else ""


def _put_aside(ground: Ground) -> dict[str, ModuleType]:
    """Take all modules of these files out of the table of modules; the next import makes new ones."""
    found = {name: one for name, one in list(sys.modules.items()) if ground.holds(_file(one))}
    for name in found:
        del sys.modules[name]
    return found


def _put_back(aside: Mapping[str, ModuleType]) -> None:
    sys.modules.update(aside)
    for name, module in aside.items():  # a package shows the modules in it as its attributes
        parent, _, child = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], child, module)


def _forget_bytecode(modules: Iterable[ModuleType]) -> None:
    """What was compiled is taken for current when time (in seconds) and size of a file are unchanged."""
    for module in modules:
        with contextlib.suppress(OSError, ValueError, NotImplementedError, TypeError):
            Path(importlib.util.cache_from_source(module.__file__ or "")).unlink()


# ---- tasks


def _of(modules: Iterable[ModuleType]) -> set[asyncio.Task[Any]]:
    """The tasks of this event loop that run a coroutine of these modules, but for the present one."""
    own = {id(module.__dict__) for module in modules}
    return {
        task
        for task in asyncio.all_tasks() - {asyncio.current_task()}
        if id(getattr(_frame(task.get_coro()), "f_globals", None)) in own
    }


def _frame(coroutine: Any) -> Any:
    return getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)


def _cancel(modules: Iterable[ModuleType]) -> None:
    for task in _of(modules):
        task.cancel()


async def _ended(modules: Iterable[ModuleType]) -> tuple[int, list[str]]:
    """End the tasks of these modules in bounded rounds; how many ended, and what goes on."""
    modules = list(modules)
    tasks = waiting = _of(modules)
    for _ in range(ROUNDS):
        if not waiting:
            break
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=ROUND)
    for task in tasks - waiting:
        if not task.cancelled() and task.exception() is not None:
            log.warning("task %s failed while it was ended", task.get_name(), exc_info=task.exception())
    return len(tasks) - len(waiting), [f"task {task.get_name()}" for task in waiting] + _threads(modules)


def _threads(modules: Iterable[ModuleType]) -> list[str]:
    own = {id(module.__dict__) for module in modules}
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = []
    for ident, innermost in sys._current_frames().items():
        frame = innermost if ident != threading.get_ident() else None
        while frame is not None:
            if id(frame.f_globals) in own:
                found.append(f"thread {names.get(ident, ident)}")
                break
            frame = frame.f_back
    return found
