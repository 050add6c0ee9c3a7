"""Review: everything that can be checked of a plugin, by running it and by reading it (P5).

Each check is about one thing and gives findings, in words for the plugin's author. `review` makes them
all; `PluginContract` has a test for each. `hermes plugins check` prints them.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from hermes_core.commands import Command
from hermes_core.config import Config
from hermes_core.config.check import keys
from hermes_core.config.sources import looks_secret
from hermes_core.errors import BadArguments, HermesError
from hermes_core.plugins import Plugins
from hermes_core.plugins.finding import made
from hermes_core.testing.package import Package
from hermes_core.testing.review_code import blocking, privileged, swallowed
from hermes_core.tools import Tool

__all__ = ["CHECKS", "Finding", "Subject", "review"]

IMPORT_LIMIT: Final = 0.5  # seconds of this process's own time
_HELP_LIMIT: Final = 100  # what Telegram and Discord show of a command's description
_TYPED: Final = ("", "1", "x", "1 2 3", '"never closed', "—", "a" * 5000, "one\ntwo", "-1", "0", "true", "/x")
_TOOL_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_TAKEN_MODULES: Final = frozenset(
    ("plugins", "plugin", "adapters", "adapter", "tests", "test", "hermes", "hermes_core")
)


class Finding(msgspec.Struct, frozen=True):
    """Something to be changed: the check that found it, and what is wrong, its place first where it has one."""

    check: str
    text: str


class Subject:
    """A plugin that was loaded as far as it could be.

    `problem` says why it could not; then `plugins` has nothing of it. `seconds` is what the import took,
    `printed` what it wrote, `threads` how many it left running, `warned` the warnings.
    """

    def __init__(self, package: Package, config: Config | None = None) -> None:
        self.package = package
        self.plugins = Plugins(config or Config())
        self.problem = ""
        self.loaded: object = None
        self.warned: list[str] = []
        before, began, out = threading.active_count(), time.process_time(), io.StringIO()
        try:
            with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(out):
                warnings.simplefilter("always")
                self.loaded = _load(package.value)
                self.seconds = time.process_time() - began
                self.threads = threading.active_count() - before
                self.plugins.add(package.name, made(package.name, self.loaded, config or Config()))
            self.warned = [f"{one.category.__name__}: {one.message}" for one in caught]
        except BaseException as error:  # noqa: BLE001 - the edge to foreign code: whatever it is, it is told
            self.problem = (
                str(error) if isinstance(error, HermesError) else f"{type(error).__name__}: {error}"
            )
            self.seconds, self.threads = time.process_time() - began, threading.active_count() - before
        self.printed = out.getvalue()

    @property
    def commands(self) -> list[Command]:
        """Its commands."""
        return self.plugins.commands.all()

    @property
    def tools(self) -> Iterable[Tool]:
        """Its tools, the starters of its async tools included."""
        return self.plugins.tools.values()

    @property
    def settings(self) -> type[msgspec.Struct] | None:
        """The type of its settings."""
        found = getattr(self.loaded, "Settings", None)
        return found if isinstance(found, type) and issubclass(found, msgspec.Struct) else None


def _load(value: str) -> object:
    module, _, attribute = value.partition(":")
    found: object = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        found = getattr(found, part)
    return found


# ---- the checks


def loads(subject: Subject) -> Iterator[str]:
    """It can be imported and made, and every hook has its mark, its name and arguments that exist."""
    if subject.problem:
        yield f"it cannot be loaded: {subject.problem}"
    yield from (f"loading it warns: {one}" for one in subject.warned)
    info = subject.plugins.infos.get(subject.package.name)
    if info is not None and info.problem:
        yield info.problem
    if info is not None and not subject.problem and not info.hooks:
        yield "it has no hook: nothing would ever ask it"


def imports_quietly(subject: Subject) -> Iterator[str]:
    """Importing it is quick, prints nothing and starts nothing."""
    if subject.seconds > IMPORT_LIMIT:
        yield (
            f"importing it takes {subject.seconds:.1f} s of every start; import large libraries where they are used "
            f"first"
        )
    if subject.printed.strip():
        yield f"importing it prints {subject.printed.strip().splitlines()[0][:60]!r}; use logging"
    if subject.threads > 0:
        yield f"importing it starts {subject.threads} thread(s); start them where they are used first"


def is_a_package(subject: Subject) -> Iterator[str]:
    """It says what it is, what it needs and for whom, and takes no name that is everybody's."""
    said = subject.package.said
    for key, wanted in (
        ("description", "one line about it"),
        ("version", "a version"),
        ("python", "requires-python"),
    ):
        if not said.get(key):
            yield f"pyproject.toml does not say {wanted}"
    if not any(re.match(r"hermes-switchboard\b", one) for one in said.get("requires", ())):
        yield 'pyproject.toml: dependencies lack "hermes-switchboard"'
    top = subject.package.module.partition(".")[0]
    if top in _TAKEN_MODULES:
        yield f"its module is called {top!r}, which others are called too; use hermes_{subject.package.name}"
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", subject.package.name):
        yield f"its name {subject.package.name!r} must be of a-z, 0-9, _ and -, a letter first"
    if subject.package.folder is not None and not subject.package.tests():
        yield "it has no tests (tests/test_….py)"


def is_documented(subject: Subject) -> Iterator[str]:
    """Its README names everything that people, models and configs can name."""
    readme = subject.package.readme
    if not readme.strip():
        yield "there is no README.md that says what it does"
        return
    for command in subject.commands:
        if f"/{command.name}" not in readme:
            yield f"README.md does not name the command /{command.name}"
    for tool in subject.tools:
        if not re.search(rf"\b{re.escape(tool.name)}\b", readme):
            yield f"README.md does not name the tool {tool.name}"
    if subject.settings is not None:
        for key in keys(subject.settings):
            if not re.search(rf"\b{re.escape(key)}\b", readme):
                yield f"README.md does not name the key {key}"


def settings_fit(subject: Subject) -> Iterator[str]:
    """Its settings are a frozen msgspec Struct, with defaults, and no secret among them (X2)."""
    found = getattr(subject.loaded, "Settings", None)
    if found is not None and subject.settings is None:
        yield "Settings must be a msgspec Struct"
    if subject.settings is None:
        return
    if not subject.settings.__struct_config__.frozen:
        name = subject.settings.__name__
        yield f"{name} must be frozen: class {name}(msgspec.Struct, frozen=True)"
    for name, field in keys(subject.settings).items():
        if looks_secret(name) and field.type is not bool:
            yield f"the key {name} would hold a secret; let it name an environment variable: {name}_env"


def commands_read(subject: Subject) -> Iterator[str]:
    """Every command has a help that platforms show whole, and refuses what does not fit with what to type."""
    for command in subject.commands:
        if len(command.help) > _HELP_LIMIT:
            yield f"/{command.name}: its help has {len(command.help)} characters, and platforms show {_HELP_LIMIT}"
        if "\n" in command.help:
            yield f"/{command.name}: its help has more than one line"
        for typed in _TYPED:
            try:
                command.bind(typed)
            except BadArguments:
                continue
            except Exception as error:  # noqa: BLE001 - the edge to foreign code: a type of an argument is its own
                yield f"/{command.name} {typed[:20]!r}: reading the arguments raised {type(error).__name__}: {error}"
                break


def tools_fit(subject: Subject) -> Iterator[str]:
    """Every tool says what it does and what each argument means, in a schema that every provider takes."""
    for tool in subject.tools:
        if not _TOOL_NAME.fullmatch(tool.name):
            yield f"tool {tool.name}: its name must be of a-z, 0-9 and _, a letter first, at most 64"
        if len(tool.description) < 10:
            yield f"tool {tool.name}: its docstring says too little for a model: {tool.description!r}"
        schema = json.loads(json.dumps(tool.schema))
        if schema.get("type") != "object" or schema.get("additionalProperties") is not False:
            yield f"tool {tool.name}: its schema must be an object that allows no other argument"
        if "$ref" in json.dumps(schema):
            yield f"tool {tool.name}: its schema has references, which not every provider follows"
        for name, field in schema.get("properties", {}).items():
            if not field.get("description"):
                yield f"tool {tool.name}: the argument {name} is not described; do it below Args: in its docstring"


def code_is_fair(subject: Subject) -> Iterator[str]:
    """Its code stops nobody: no blocking call in a coroutine, no swallowed cancellation, nothing private (P1)."""
    for file in subject.package.sources:
        place = _place(file, subject.package.folder)
        for look in (blocking, privileged, swallowed):
            for line, text in sorted(look(file)):
                yield f"{place}:{line}: {text}"


def _place(file: Path, folder: Path | None) -> str:
    return str(file.relative_to(folder)) if folder is not None and file.is_relative_to(folder) else file.name


CHECKS: Final[Mapping[str, Callable[[Subject], Iterator[str]]]] = MappingProxyType(
    {
        "loads": loads,
        "imports quietly": imports_quietly,
        "is a package": is_a_package,
        "is documented": is_documented,
        "settings": settings_fit,
        "commands": commands_read,
        "tools": tools_fit,
        "code": code_is_fair,
    }
)
"""Every check by its name, in the order in which they are made."""


def review(
    subject: Subject, checks: Mapping[str, Callable[[Subject], Iterator[str]]] = CHECKS
) -> list[Finding]:
    """All findings, in the order of the checks."""
    return [Finding(name, text) for name, check in checks.items() for text in check(subject)]
