"""One data folder, one process: an advisory lock that the kernel lets go of when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

from hermes_core.errors import StoreInUse

__all__ = ["FolderLock"]


class FolderLock:
    """Holds `folder/lock` from creation to `release`; `StoreInUse` where someone else has it.

    The lock is a `flock`, so it ends with the process, however it ends, and programs that the
    process starts do not inherit it (the descriptor is closed on exec). The file stays where it is:
    removing it would let two processes lock two files of one name. It holds the holder's pid, for
    people. `OSError` where the folder cannot be written to.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor: int | None = None
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
                raise _in_use(holder) from None
            # A full disk must not keep a program from starting that could still read and answer.
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Let the folder go; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _in_use(holder: str) -> StoreInUse:
    if holder.isdigit():
        who, stop = f"process {holder}", f"Stop that process (kill {holder})"
    else:
        who, stop = "another process", "Stop the Hermes that runs already"
    return StoreInUse(
        f"The data folder is in use by {who}.",
        f"{stop}, or give this one another folder (runtime.data_dir).",
    )
