"""State: a TOML file of the program's own beside the store, which several processes read and change.

What people change from the command line or a chat stands in such files and not in `hermes.toml`, which is
theirs. A file is replaced whole, so nobody ever reads half of one; a lock beside it lets one process at a
time change it; whoever holds what it said looks at the file system whether it has been replaced since.
"""

from __future__ import annotations

import contextlib
import copy
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hermes_core.errors import StateError

__all__ = ["Signature", "StateFile"]

_PATIENCE: Final = 5.0  # seconds to wait for another process that is changing the file
_LOOK: Final = 0.02
_NOTE: Final = "# The program writes this file. It keeps what you write by hand, except for comments."

Signature = tuple[int, int, int]
"""Time of the last change, inode and size of a file."""


class StateFile:
    """The file at `path`, which need not be there; `head` is the comment that it begins with."""

    def __init__(self, path: Path, head: str) -> None:
        self.path = path
        self._head = head

    def signature(self) -> Signature | None:
        """What changes with every change of the file; None where there is no file. Costs one look, no read."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - on the path of messages: a third of the time of Path.stat
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def read(self) -> dict[str, Any]:
        """What it says, nothing where it is not there; `StateError` where that cannot be read."""
        try:
            text = self.path.read_text(encoding="utf-8")
            import tomllib  # not needed where there is no file

            return tomllib.loads(text)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError) as error:
            raise StateError(
                f"The file {self.path.name} in the data folder cannot be read: {_said(error)}.",
                "Correct it, or move it away and begin anew.",
            ) from error

    @contextlib.contextmanager
    def editing(self) -> Iterator[dict[str, Any]]:
        """Its tables, to be changed in place; written when the block ends without an error.

        Blocks, up to 5 s where another process changes it. `StateError`: nothing was changed.
        """
        with self._locked():
            before = self.read()
            table = copy.deepcopy(before)
            yield table
            if table != before:
                self._write(table)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        import fcntl

        # A lock of its own: the file itself is replaced, and a lock on it would go with the old one.
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(
                self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
            )
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            until = time.monotonic() + _PATIENCE
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise StateError(
                            f"Another process holds {self.path.name}.", "Try again when it is done."
                        ) from None
                time.sleep(_LOOK)
            yield
        finally:
            os.close(descriptor)

    def _write(self, table: dict[str, Any]) -> None:
        import tomli_w  # only who changes something needs it

        new = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"# {self._head}\n{_NOTE}\n\n{tomli_w.dumps(table)}")
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> StateError:
        return StateError(
            f"The file {self.path.name} cannot be written: {error.strerror or 'no reason given'}.",
            "Free some space, or let this user write to the data folder.",
        )


def _said(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
