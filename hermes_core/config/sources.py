"""Where settings come from: a file, the environment, the command line, laid over each other.

Everything given is kept flat, one `Given` for each dotted key, so that each value knows its origin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from hermes_core.config.settings import PROGRAM, is_variable
from hermes_core.errors import ConfigError

__all__ = ["Given", "Key", "Sources", "find_file", "looks_secret", "read_file"]

Key = tuple[str, ...]
"""A dotted key in its parts."""

PREFIX: Final = "HERMES__"
FILE: Final = "hermes.toml"
OPEN: Final = ("adapters", "plugins")

_SECRET: Final = re.compile(
    r"(?:.*[_-])?(?:token|secret|password|passwd|api_?key|access_key|private_key|authorization)",
    re.IGNORECASE,
)


class Given(NamedTuple):
    """A value as someone wrote it. `text`: it came as a string whatever it should be.

    `name` is the environment variable where it has one; `folder` is that of the file.
    """

    value: Any
    origin: str
    text: bool = False
    name: str = ""
    folder: Path | None = None

    @property
    def place(self) -> str:
        """The origin as it stands at the head of an error."""
        return self.origin.removeprefix("file ")


def looks_secret(key: str) -> bool:
    """Whether a key of this name holds a secret itself, and not the name of a variable."""
    return _SECRET.fullmatch(key) is not None


class Sources:
    """All that was given, the highest precedence last: `add_*` lays one layer over the ones before."""

    def __init__(self) -> None:
        self.values: dict[Key, Given] = {}
        self.tables: dict[Key, Given] = {}

    def add_table(self, table: Mapping[str, Any], origin: str, folder: Path | None = None) -> None:
        """Lay a TOML document over what is there."""

        def walk(path: Key, inner: Mapping[str, Any]) -> None:
            for key, value in inner.items():
                here = (*path, key)
                given = Given(value, origin, folder=folder)
                if isinstance(value, Mapping):
                    self.tables[here] = given
                    walk(here, value)
                else:
                    self._put(here, given)

        walk((), table)

    def add_environment(self, environ: Mapping[str, str]) -> None:
        """Lay every `HERMES__SECTION__KEY` over what is there."""
        for name in sorted(environ):
            if name.startswith(PREFIX):
                path = tuple(name[len(PREFIX) :].lower().split("__"))
                given = Given(environ[name], f"environment {name}", text=True, name=name)
                if not all(path):
                    raise ConfigError(f"{given.place}: that is no key.", "Write HERMES__SECTION__KEY.")
                self._put(self._spelled(path), given)

    def add_overrides(self, overrides: Mapping[str, str]) -> None:
        """Lay what the command line says over what is there."""
        for dotted, value in overrides.items():
            path = tuple(dotted.strip().split("."))
            if not all(path):
                raise ConfigError(f"command line: {dotted!r} is no key.", "Write --set section.key=value.")
            self._put(path, Given(value, "command line", text=True))

    def children(self, path: Key) -> list[str]:
        """The names right below a table, in the order in which they were given first."""
        depth = len(path)
        return list(
            dict.fromkeys(
                key[depth] for key in (*self.tables, *self.values) if len(key) > depth and key[:depth] == path
            )
        )

    def under(self, path: Key) -> Iterator[tuple[Key, Given]]:
        """Every value at or below this key."""
        return ((key, given) for key, given in self.values.items() if key[: len(path)] == path)

    def first(self, path: Key) -> Given | None:
        """What was given at or below this key, or the table itself where it is empty."""
        return next((given for _, given in self.under(path)), self.tables.get(path))

    def nested(self, path: Key) -> dict[str, Any]:
        """The values below this key as the tables that they were written as."""
        result: dict[str, Any] = {}
        for key, given in self.under(path):
            inner = result
            for part in key[len(path) : -1]:
                inner = inner.setdefault(part, {})
            inner[key[-1]] = given.value
        return result

    def refuse_secrets(self) -> None:
        """`ConfigError` for a secret that stands in the config itself; never shows it (X2)."""
        for key, given in self.values.items():
            for path, value in _leaves(key, given.value):
                dotted = ".".join(path)
                if looks_secret(path[-1]) and not isinstance(value, bool):
                    whose = f"{path[-2] if len(path) > 1 else 'hermes'}"
                    if path[0] == "adapters" and path[-1] == "token":
                        whose += "_bot"  # as the platforms' own words and the defaults have it
                    variable = f"{whose}_{path[-1]}".upper().replace("-", "_")
                    raise ConfigError(
                        f"{given.place}: {dotted}: a secret does not belong into the config.",
                        f'Put it into an environment variable and name that: {path[-1]}_env = "{variable}".',
                    )
                if path[-1].endswith("_env") and isinstance(value, str) and value and not is_variable(value):
                    raise ConfigError(
                        f"{given.place}: {dotted} must be the name of an environment variable, and this is none.",
                        "The secret itself belongs into that variable.",
                    )

    def variables(self) -> Iterator[str]:
        """The environment variables that keys `…_env` name, wherever they stand."""
        for key, given in self.values.items():
            for path, value in _leaves(key, given.value):
                if path[-1].endswith("_env") and isinstance(value, str) and value:
                    yield value

    def _put(self, key: Key, given: Given) -> None:
        """A value takes the place of the table that stood there, and a table that of the value."""
        for other in [other for other in self.values if other != key]:
            if other[: len(key)] == key or key[: len(other)] == other:
                del self.values[other]
        for table in [table for table in self.tables if table[: len(key)] == key]:
            del self.tables[table]
        self.values[key] = given

    def _spelled(self, path: Key) -> Key:
        """A package may have a dash in its name, a variable may not: take the name that is there."""
        if len(path) > 1 and path[0] in OPEN:
            for name in self.children(path[:1]):
                if name.lower().replace("-", "_") == path[1]:
                    return (path[0], name, *path[2:])
        return path


def _leaves(key: Key, value: Any) -> Iterator[tuple[Key, Any]]:
    """Lists of tables hold keys as well."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves((*key, name), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(key, inner)
    else:
        yield key, value


def find_file(path: Path | str | None, environ: Mapping[str, str]) -> Path | None:
    """The config file: the one named, `$HERMES_CONFIG`, `./hermes.toml`, the user's; None where there is none.

    A file that is named must be there.
    """
    for named, by in ((path, "--config"), (environ.get("HERMES_CONFIG"), "$HERMES_CONFIG")):
        if named:
            file = Path(named).expanduser()
            if not file.exists():
                raise ConfigError(
                    f"{file}: there is no such config file ({by}).", "Check the name; none is needed at all."
                )
            return file
    if Path(FILE).exists():
        return Path(FILE)
    import platformdirs  # 20 ms, and only a start without a file at hand needs it

    file = Path(platformdirs.user_config_dir(PROGRAM, appauthor=False)) / FILE
    return file if file.exists() else None


def read_file(file: Path) -> dict[str, Any]:
    """The tables of a TOML file; `ConfigError` names the file, the line and what is wrong there."""
    import tomllib  # not needed where there is no file

    try:
        return tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{file}, line {line}: this is not UTF-8.", "Save the file as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).partition(" (at ")
        line_text = where.partition(",")[0] if where.startswith("line") else "at its end"
        raise ConfigError(
            f"{file}, {line_text}: {what}.", "The file must be TOML (https://toml.io)."
        ) from error
