"""Surroundings: what the core itself can find out about config, data folder, database, plugins, model and server."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import shutil
import socket
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import hermes_core
from hermes_core.checks import Check, Finding, Level
from hermes_core.cli.checkup import Owned, in_thread
from hermes_core.config import Config
from hermes_core.errors import ConfigError, HermesError, ModelError, StoreError, told
from hermes_core.jobs.control import listens
from hermes_core.listed import nobodies
from hermes_core.messages import Said, SaidKind
from hermes_core.models import Request, Text
from hermes_core.people import People
from hermes_core.plugins import Plugins
from hermes_core.rules import Rules

__all__ = ["looks", "of_adapters", "of_model", "of_plugins"]

LITTLE: Final = 500_000_000  # bytes free: something to think about
NOTHING: Final = 50_000_000  # bytes free: soon nothing is taken any more
_QUICK: Final = 5.0  # seconds for a look through the database
_STEPS: Final = 100_000  # of SQLite between two looks at the clock
_MODEL: Final = 45.0  # seconds; a server of one's own may have to load the model first


def looks(config: Config, plugins: Plugins | None = None) -> list[Owned]:
    """What needs no network; what the config says of people is held against these plugins."""
    folder = config.runtime.data_dir
    found = [
        Check("config", lambda: _config(config)),
        Check("access", lambda: _access(config, plugins)),
        Check("programs", _programs),
        Check("data folder", lambda: in_thread(lambda: _folder(folder))),
        Check("database", lambda: in_thread(lambda: _database(folder))),
    ]
    if config.given("http"):
        found.append(Check("http", lambda: _http(config)))
    return [Owned("", one) for one in found]


async def _config(config: Config) -> Finding:
    origins = {given.origin.partition(" ")[0] for given in config.sources.values.values()}
    if config.file is not None:
        where = f"file {config.file}"
    elif "file" in origins:
        where = "not written yet"
    else:
        where = f"no file; {'what was given beside it and ' if origins else ''}defaults hold"
    return Finding(f"{where} (Hermes {hermes_core.__version__})")


async def _access(config: Config, plugins: Plugins | None) -> Finding:
    access = config.access
    named = config.named()
    await in_thread(lambda: _kept(config.runtime.data_dir))
    if not any(config.given(f"adapters.{one}") and config.enabled(one) for one in named if one != "terminal"):
        return Finding("no chat platform is configured; the terminal serves whoever sits here")
    if plugins is not None and (wrong := list(nobodies(access, plugins.adapters, plugins.infos))):
        return Finding(" ".join(wrong), "Correct it: whoever is meant is not served.", Level.WARNING)
    served = [*access.owners, *access.admins, *access.allow]
    if not served:
        return Finding(
            "the config lets nobody in; who writes is told how to ask",
            'Name yourself: [access] owners = ["telegram:42"], platform and user id. Others: hermes pair',
            Level.WARNING,
        )
    if not access.owners:
        return Finding("there is no owner", 'Name one: [access] owners = ["telegram:42"].', Level.WARNING)
    everybody = [one for one in access.allow if one.endswith("*")]
    open_ = f"; open to everybody: {', '.join(everybody)}" if everybody else ""
    return Finding(f"owners: {', '.join(access.owners)}{open_}")


def _kept(folder: Path) -> None:
    """`StateError` for what a start would refuse as well: nobody is served by a guess."""
    People(folder).load()
    Rules(folder).load()


async def _programs() -> Finding:
    python = ".".join(map(str, sys.version_info[:3]))
    said = f"Python {python}, SQLite {sqlite3.sqlite_version}"
    if shutil.which("uv") is None and importlib.util.find_spec("pip") is None:
        advice = "`hermes plugins install` needs one of them: python -m ensurepip"
        return Finding(f"{said}; neither uv nor pip", advice, Level.WARNING)
    if shutil.which("git") is None:
        return Finding(f"{said}; no git, so nothing can be installed from a git address")
    return Finding(said)


def _folder(folder: Path) -> Finding:
    there = folder
    while not there.exists():
        there = there.parent
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise HermesError(
            f"{folder} cannot be written to.", "Change its owner or mode, or set [runtime] data_dir."
        )
    free = shutil.disk_usage(there).free
    said = f"{folder}, {_size(free)} free"
    if free < NOTHING:
        return Finding(said, "Free some space: soon nothing can be kept.", Level.BROKEN)
    if free < LITTLE:
        return Finding(said, "Free some space before it is full.", Level.WARNING)
    if listens(folder / "jobs"):
        return Finding(f"{said}, in use by {_holder(folder)}")
    return Finding(said if folder.exists() else f"{said}; it is made at the first start")


def _holder(folder: Path) -> str:
    with contextlib.suppress(OSError):
        pid = (folder / "lock").read_text(encoding="ascii", errors="replace").strip()
        if pid.isdigit():
            return f"process {pid}"
    return "a running Hermes"


def _database(folder: Path) -> Finding:
    from hermes_core.store.faults import translate
    from hermes_core.store.schema import MIGRATIONS, version

    path = folder / "hermes.db"
    if not path.is_file():
        return Finding("none yet; it is made at the first start")
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)
        ) as connection:
            found, known = version(connection), len(MIGRATIONS)
            if found > known:
                raise StoreError(
                    f"It was written by a later version of Hermes (schema {found}, this one knows {known}).",
                    "Install that version again, or give this one a data folder of its own.",
                )
            facts = (
                _inside(connection)
                if found == known
                else f"of schema {found}, brought to {known} at the next start"
            )
            whole = _whole(connection)
    except sqlite3.Error as error:
        raise translate(error) from error
    return Finding(f"{_size(path.stat().st_size)}, {facts}{whole}")


def _inside(connection: sqlite3.Connection) -> str:
    def count(what: str) -> int:
        found: int = connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0]  # noqa: S608 - from here
        return found

    conversations = count("conversations")
    waiting = count("entries WHERE state = 'waiting' AND turn IS NULL AND note = 0")
    unsent = count("outbox WHERE state IN ('waiting', 'sending')")
    return f"{conversations} conversations, {waiting} messages wait, {unsent} replies are not sent yet"


def _whole(connection: sqlite3.Connection) -> str:
    """Look through the file; a large one is not looked through to its end."""
    until = time.monotonic() + _QUICK
    connection.set_progress_handler(lambda: int(time.monotonic() > until), _STEPS)
    try:
        (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            return "; too large to look through here"
        raise
    if said != "ok":
        raise StoreError(
            "The database file is damaged.", "Stop Hermes, put the file aside and bring back a backup."
        )
    return "; undamaged"


async def _http(config: Config) -> Finding:
    from hermes_core import http

    http.check(config)
    host, port = config.http.host, config.http.port
    if not listens(config.runtime.data_dir / "jobs"):
        await in_thread(lambda: _free(host, port))
        where = f"{host} port {port}" if port else f"{host}, any free port"
        return Finding(f"can listen on {where}")
    if port == 0:
        return Finding("a running Hermes has it, on a free port; the ready line names it")
    status, body = await _get(host, port, "/health")
    state = body.get("status") if isinstance(body, dict) else None
    if status != 200 or not isinstance(state, str):
        raise HermesError(
            f"Something answers on port {port}, and it is not this Hermes (status {status}).",
            "Set another [http] port, or end what uses it.",
        )
    if state != "ok":
        silent = body.get("platforms", {})
        bad = ", ".join(f"{name} is {one}" for name, one in silent.items() if one != "up")
        return Finding(f"it answers: {state}; {bad}", "Look into its log.", Level.WARNING)
    return Finding(f"it answers on {host} port {port}")


def _free(host: str, port: int) -> None:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
    except OSError as error:
        raise HermesError(
            f"The server cannot listen on {host} port {port}: {error.strerror or 'it cannot be used'}.",
            "Set another [http] port, or end what uses it.",
        ) from error


async def _get(host: str, port: int, path: str) -> tuple[int, Any]:
    """A GET without any library: the server's own are not needed for this."""
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    try:
        reader, writer = await asyncio.open_connection(target, port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read(65536)
            while piece := await reader.read(65536):
                answer += piece
        finally:
            writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)
    except (OSError, IndexError, ValueError) as error:
        raise HermesError(
            f"Hermes runs, and nothing that it says comes from port {port}.",
            "Was it started with this config?",
        ) from error


def of_plugins(plugins: Plugins, config: Config) -> Iterator[Owned]:
    """One check for each plugin that is enabled and has a problem, and one for all the others."""
    infos = plugins.infos.values()
    bad = [info for info in infos if info.enabled and info.problem]
    good = sorted(info.name for info in infos if info.enabled and not info.problem)
    off = sorted(info.name for info in infos if not info.enabled)

    async def well() -> Finding:
        rest = f"; off: {', '.join(off)}" if off else ""
        return Finding(f"enabled: {', '.join(good) or 'none'}{rest}")

    def fault(text: str) -> Callable[[], Any]:
        async def tell() -> Finding:
            return Finding(text, "Update it, or take it out of the config.", Level.BROKEN)

        return tell

    yield Owned("", Check("plugins", well))
    for info in bad:
        yield Owned(info.name, Check(f"plugin {info.name}", fault(info.problem)))


def of_adapters(plugins: Plugins, config: Config, checked: set[str], *, offline: bool) -> Iterator[Owned]:
    """For each adapter that `hermes run` would serve and that was not `checked`: that it can be opened."""
    rest = "the platform was not asked" if offline else "it has no check of its own"
    owners = {name: info.name for info in plugins.infos.values() for name in info.adapters}
    for name, factory in plugins.adapters.items():
        if owners.get(name) in checked or not config.given(f"adapters.{name}"):
            continue

        async def look(name: str = name, factory: Any = factory) -> Finding:
            factory.open({})
            return Finding(f"its settings fit; {rest}")

        yield Owned(owners.get(name, ""), Check(name, look))


def of_model(plugins: Plugins, config: Config) -> Owned:
    """A call of the model, as small as can be."""

    async def call() -> Finding:
        settings = config.model
        factory = plugins.models.get(settings.provider)
        if factory is None:
            known = ", ".join(sorted(plugins.models)) or "none"
            raise ConfigError(f"There is no model {settings.provider!r}.", f"Enabled plugins bring: {known}.")
        model = factory.open(settings)
        began = time.monotonic()
        asked = Request("", (Said(SaidKind.MESSAGE, "Answer with the word ok."),))
        named = f"{settings.provider} {settings.name}".strip()
        try:
            async with contextlib.aclosing(model.stream(asked)) as stream:
                async for delta in stream:
                    if isinstance(delta, Text):
                        break
        except ModelError as error:  # the cause has the address, which only who runs the program may see
            why = f" {told(error.__cause__)}." if error.__cause__ is not None else ""
            raise HermesError(f"{error.message}{why}", error.advice) from error
        finally:
            await model.aclose()
        if settings.provider == "demo":
            return Finding("demo, the built-in stand-in", "For a real one write a section [model].")
        return Finding(f"{named} answered after {time.monotonic() - began:.1f} s")

    return Owned("", Check("model", call, _MODEL))


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
