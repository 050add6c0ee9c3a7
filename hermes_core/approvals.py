"""Approvals: which plugins `hermes plugins` switched on or off, and what each was allowed to register (P4).

They stand in `plugins.toml` in the data folder. The file is replaced whole, by a rename after its
content is on the disk: a program that dies in the middle leaves the old one. Two programs that change it
wait for each other. What is not such a file is refused, and never written over.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from hermes_core.errors import ConfigError

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
_PATIENCE: Final = 5.0  # seconds to wait for another program that changes the file
_HEAD: Final = (
    "# Written by `hermes plugins enable` and `disable`: the plugins that were switched there, and what each\n"
    "# one was allowed to register. `enabled = …` in hermes.toml goes before it.\n\n"
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
    file = folder / FILE
    try:
        text = file.read_bytes().decode("utf-8")
        found = msgspec.convert(tomllib.loads(text), Approvals)
    except FileNotFoundError:
        return Approvals()
    except NotADirectoryError:
        return Approvals()  # whoever opens the store says what is wrong with the folder
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or error}.") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{file}: this is not a list of plugins: {error}.", _ADVICE) from error
    if found.version != _VERSION:
        raise ConfigError(
            f"{file}: it is of version {found.version}, and this program knows version {_VERSION}.",
            "It was written by a newer Hermes. Use that one, or move the file away and enable plugins again.",
        )
    return found


_ADVICE: Final = "Move the file away, and enable your plugins again: hermes plugins enable NAME"


def change(folder: Path, name: str, make: Callable[[Approval | None], Approval | None]) -> None:
    """Replace what is kept of one plugin by what `make` gives for it; None forgets it.

    On disk when it returns. `ConfigError` where the file is not ours, or the folder cannot be written;
    then the old file stands as it was.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _lock(folder):
            old = read(folder)
            made = make(old.plugins.get(name))
            plugins = {key: one for key, one in old.plugins.items() if key != name}
            if made is not None:
                plugins[name] = made
            _write(folder, Approvals(plugins=dict(sorted(plugins.items()))))
    except OSError as error:
        raise ConfigError(
            f"{folder / FILE}: cannot be written: {error.strerror or error}.", "Nothing was changed."
        ) from error


def _write(folder: Path, approvals: Approvals) -> None:
    import tomli_w  # only what changes the file needs it

    new = folder / f"{FILE}.new"  # one name is enough: the lock is held
    text = _HEAD + tomli_w.dumps(msgspec.to_builtins(approvals), multiline_strings=False)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as out:  # noqa: PTH123 - a descriptor, for the mode of the file
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    new.replace(folder / FILE)
    directory = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder / f"{FILE}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise ConfigError(
                        f"{folder / FILE}: another program has been changing it for {_PATIENCE:.0f} s.",
                        "Try again when it is done; nothing was changed.",
                    ) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)
