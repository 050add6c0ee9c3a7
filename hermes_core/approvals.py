"""Approvals: which plugins `hermes plugins` switched on or off, and what each was allowed to register (P4).

They stand in `plugins.toml` in the data folder, a state file (`hermes_core.state`). What is not such a
file is refused, and never written over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from hermes_core.errors import ConfigError, StateError
from hermes_core.state import StateFile

__all__ = ["ANY", "FILE", "KINDS", "Approval", "Approvals", "change", "listed", "read"]

FILE: Final = "plugins.toml"
KINDS: Final[Mapping[str, str]] = {
    "adapters": "adapter",
    "models": "model",
    "commands": "command",
    "tools": "tool",
    "hooks": "hook",
    "routes": "route",
}
"""What a plugin can register, and what one of each is called."""

ANY: Final = "*"
"""Stands for every name of its kind: what a plugin registers is not always known beforehand."""

_VERSION: Final = 1
_HEAD: Final = (
    "The plugins that `hermes plugins` switched, and what each may register. hermes.toml goes before it."
)


class Approval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One plugin's switch; `approved` has the names that it may register, by kind, for an enabled one."""

    enabled: bool
    package: str = ""
    version: str = ""
    approved: dict[str, tuple[str, ...]] = {}


class Approvals(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file says; without one, nothing."""

    version: int = _VERSION
    plugins: dict[str, Approval] = {}

    def beyond(self, name: str, registers: Mapping[str, Iterable[str]]) -> list[str]:
        """What a plugin registers and was not allowed to, in words: "command spy". Empty for no such plugin."""
        approval = self.plugins.get(name)
        if approval is None:
            return []
        allowed = {kind: approval.approved.get(kind, ()) for kind in KINDS}
        return [
            f"{KINDS[kind]} {one}"
            for kind in KINDS
            for one in registers.get(kind, ())
            if one not in allowed[kind] and ANY not in allowed[kind]
        ]


def listed(registers: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """What a plugin registers as it is kept in an `Approval`: the kinds of which it has any, sorted."""
    return {kind: tuple(sorted(registers.get(kind, ()))) for kind in KINDS if tuple(registers.get(kind, ()))}


def read(folder: Path) -> Approvals:
    """What was approved for this data folder. `ConfigError` for a file that cannot be read as such."""
    try:
        return _checked(folder, StateFile(folder / FILE, _HEAD).read())
    except StateError as error:
        raise ConfigError(f"{error.message} The data folder is {folder}.", error.advice) from error


def change(folder: Path, name: str, make: Callable[[Approval | None], Approval | None]) -> None:
    """Replace what is kept of one plugin by what `make` gives for it; None forgets it.

    On disk when it returns. `ConfigError` where the file is not ours, or the folder cannot be written;
    then the old file stands as it was.
    """
    try:
        with StateFile(folder / FILE, _HEAD).editing() as table:
            made = make(_checked(folder, table).plugins.get(name))
            plugins = table.setdefault("plugins", {})
            plugins.pop(name, None)
            if made is not None:
                plugins[name] = msgspec.to_builtins(made)
            table["version"] = _VERSION
    except StateError as error:
        raise ConfigError(f"{error.message} The data folder is {folder}.", error.advice) from error


def _checked(folder: Path, table: Mapping[str, Any]) -> Approvals:
    try:
        found = msgspec.convert(table, Approvals)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{folder / FILE}: this is not a list of plugins: {error}.", _ADVICE) from error
    if found.version != _VERSION:
        raise ConfigError(
            f"{folder / FILE}: it is of version {found.version}, and this program knows version {_VERSION}.",
            "It was written by a newer Hermes. Use that one, or move the file away and enable plugins again.",
        )
    return found


_ADVICE: Final = "Move the file away, and enable your plugins again: hermes plugins enable NAME"
