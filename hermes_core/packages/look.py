"""Look: what a plugin would register and which keys it knows, found out in a process of its own.

To know it, its code has to run. It runs where it can hold up nothing and change nothing here, and for a
bounded time.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from hermes_core.approvals import ANY, Approvals
from hermes_core.config import Config
from hermes_core.config.check import keys, masked
from hermes_core.errors import HermesError
from hermes_core.plugins import Plugins, load
from hermes_core.plugins.finding import made
from hermes_core.route import Route, Site

__all__ = ["Key", "Look", "look"]

_SECONDS: Final = 30.0


class Key(msgspec.Struct, frozen=True):
    """A key of the plugin's section; `default` as it is written in TOML, None for one that is needed."""

    name: str
    default: str | None


class Look(msgspec.Struct, frozen=True):
    """What a plugin brings. `registers` has names by kind; of its tools, `async_tools` start jobs.

    `problem` says why it could not be loaded; then the rest may be empty. `taken` says which names another
    plugin has that is enabled: those are left out, and the rest of it works.
    """

    registers: dict[str, tuple[str, ...]] = {}
    async_tools: tuple[str, ...] = ()
    keys: tuple[Key, ...] = ()
    problem: str = ""
    taken: str = ""


class _Question(msgspec.Struct, frozen=True):
    name: str
    file: str | None
    overrides: dict[str, str]


def look(
    name: str,
    file: str | Path | None = None,
    overrides: Mapping[str, str] | None = None,
    seconds: float = _SECONDS,
) -> Look:
    """Load the plugin `name` with this config, whether or not it is enabled, in another process."""
    question = _Question(name, None if file is None else str(file), dict(overrides or {}))
    child = subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    answer, late = b"", False
    try:
        answer, _ = child.communicate(msgspec.json.encode(question), timeout=seconds)
    except subprocess.TimeoutExpired:
        late = True
    finally:
        with contextlib.suppress(ProcessLookupError):  # also what it started and left behind
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
    if late:
        return Look(problem=f"it did not load within {seconds:g} s")
    try:
        return msgspec.json.decode(answer, type=Look)
    except msgspec.DecodeError:
        return Look(problem=f"loading it ended the process (exit code {child.returncode})")


def _answer(question: _Question) -> Look:
    """In the other process."""
    config = Config.load(question.file, overrides=question.overrides)
    config = msgspec.structs.replace(config, approvals=Approvals())  # all of it is to be seen
    point = next(iter(importlib.metadata.entry_points(group="hermes", name=question.name)))
    plugins = Plugins(config)
    found: tuple[Key, ...] = ()
    try:
        loaded = point.load()
        found = _keys(loaded)
        plugins.add(question.name, made(question.name, loaded, config))
    except HermesError as error:
        return Look(keys=found, problem=str(error))
    except BaseException as error:  # noqa: BLE001 - the edge to foreign code: whatever it is, it is told
        lines = str(error).strip().splitlines()
        return Look(keys=found, problem=": ".join([type(error).__name__, *lines[:1]]))
    info = plugins.infos[question.name]
    problem = info.problem
    taken = _taken(question.name, loaded, Config.load(question.file, overrides=question.overrides))
    routes = asyncio.run(_routes(plugins))
    return Look(
        {**info.asks_for, **({"routes": routes} if routes else {})},
        tuple(one.starter.name for one in plugins.async_tools.values()),
        found,
        problem,
        taken,
    )


def _taken(name: str, loaded: object, config: Config) -> str:
    """Which of its names those have that are enabled, in words; "" for none."""
    rest = {key: one for key, one in config.approvals.plugins.items() if key != name}
    config = msgspec.structs.replace(config, approvals=Approvals(plugins=rest))
    try:
        others = load(config)
    except HermesError:
        return ""  # something else is wrong, and is told elsewhere
    there = others.infos.get(name)
    if there is not None and there.enabled:
        return there.problem
    try:
        others.add(name, made(name, loaded, config))
    except HermesError:
        return ""  # the same
    return others.infos[name].problem


def _keys(loaded: object) -> tuple[Key, ...]:
    settings = getattr(loaded, "Settings", None)
    if not (isinstance(settings, type) and issubclass(settings, msgspec.Struct)):
        return ()
    return tuple(Key(name, None if one.required else _written(one)) for name, one in keys(settings).items())


def _written(field: Any) -> str:
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return msgspec.json.encode(masked(value), enc_hook=str).decode()


class _Absent:
    """Stands where a server would have its things: whatever is asked of it fails."""

    def __getattr__(self, name: str) -> Any:
        raise HermesError("There is no server.")


async def _routes(plugins: Plugins) -> tuple[str, ...]:
    """The routes that it would serve; `ANY` where it does not say so without a server."""
    absent: Any = _Absent()

    def spawn(coroutine: Any, name: str) -> object:
        coroutine.close()
        return None

    site = Site(absent, plugins.async_tools, absent, spawn, time.time, asyncio.sleep)
    given = await plugins.each("hermes_routes", site=site)
    if plugins.asks("hermes_routes") and not given:
        return (ANY,)
    return tuple(f"{one.method} {one.path}" for some in given for one in some or () if isinstance(one, Route))


def _main() -> None:
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=_Question)
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # what the plugin prints is not the answer
        out.write(msgspec.json.encode(_answer(question)))
        out.flush()
        os._exit(0)  # threads of the plugin are not waited for


if __name__ == "__main__":
    _main()
