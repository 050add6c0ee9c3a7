"""One data folder, one process: an advisory lock that the kernel lets go of when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Final

from hermes_core.errors import StoreInUse

__all__ = ["FolderLock"]

ENDING: Final = 0.25  # seconds in which a holder that is about to end has ended
GONE: Final = (
    2.0  # seconds in which a child that a dead holder was just beginning lets go: it does so when it is
)
# another program, and until then has the descriptors of the one that began it
_LOOK: Final = 0.01


class FolderLock:
    """Holds `folder/lock` from creation to `release`; `StoreInUse` where someone else has it.

    The lock is a `flock`, so it ends with the process, however it ends, and programs that the
    process starts do not inherit it (the descriptor is closed on exec). The file stays where it is:
    removing it would let two processes lock two files of one name. It holds the holder's pid, for
    people. A start right behind an end waits for that end, a quarter of a second at most; behind a holder that
    was killed, two seconds. `OSError` where the folder cannot be written to.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor: int | None = None
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _take(descriptor)
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


def _take(descriptor: int) -> None:
    began = time.monotonic()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            if time.monotonic() - began > (ENDING if _lives(holder) else GONE):
                raise _in_use(holder) from None
        else:
            return
        time.sleep(_LOOK)


def _lives(holder: str) -> bool:
    try:
        os.kill(int(holder), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except (PermissionError, ValueError):
        return True
    return True


def _in_use(holder: str) -> StoreInUse:
    if holder.isdigit():
        who, stop = f"process {holder}", f"Stop that process (kill {holder})"
    else:
        who, stop = "another process", "Stop the Hermes that runs already"
    return StoreInUse(
        f"The data folder is in use by {who}.",
        f"{stop}, or give this one another folder (runtime.data_dir).",
    )
