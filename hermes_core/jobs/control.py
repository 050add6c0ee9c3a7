"""Control: a stop that another process asks for (`hermes jobs stop`), through a pipe with a name.

The runtime reads `control` in the folder of jobs; a line is the id of a job. A writer finds out at
once whether anybody reads, so nothing is asked of a runtime that is not there, and nobody polls.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from hermes_core.errors import HermesError
from hermes_core.jobs import Jobs

__all__ = ["Control", "ask", "listens"]

log = logging.getLogger("hermes.jobs")

_NAME: Final = "control"
_ID: Final = re.compile(rb"[a-z0-9]{1,64}")


class Control:
    """Reads from its making to `close`. Where the file system has no such pipes it does nothing."""

    def __init__(
        self, folder: Path, jobs: Jobs, spawn: Callable[[Coroutine[Any, Any, None], str], object]
    ) -> None:
        self._jobs = jobs
        self._spawn = spawn
        self._heard = b""
        self._pipe: int | None = None
        path = folder / _NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            os.mkfifo(path, 0o600)
            # For writing too: so that the pipe has no end when a writer goes.
            self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, AttributeError) as error:
            log.warning("other processes cannot ask for the end of a job: %s", error)
            return
        asyncio.get_running_loop().add_reader(self._pipe, self._listen)

    def close(self) -> None:
        """Read no more."""
        if self._pipe is not None:
            asyncio.get_running_loop().remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = None

    def _listen(self) -> None:
        if self._pipe is None:
            return
        try:
            text = os.read(self._pipe, 4096)
        except BlockingIOError:
            return
        *words, self._heard = (self._heard + text).split(b"\n")
        self._heard = self._heard[:128]
        for word in words:
            if _ID.fullmatch(word):
                self._spawn(self._stop(word.decode()), "a stop from outside")

    async def _stop(self, id_: str) -> None:
        try:
            await self._jobs.stop(id_)
        except HermesError as error:
            log.warning("the stop of job %s, asked for from outside: %s", id_, error)


def listens(folder: Path) -> bool:
    """Whether a runtime has this folder of jobs; asks it for nothing."""
    try:
        os.close(os.open(folder / _NAME, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def ask(folder: Path, id: str) -> bool:
    """Ask the runtime that has this folder of jobs to stop one; False where none runs."""
    try:
        pipe = os.open(folder / _NAME, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.write(pipe, f"{id}\n".encode())
    except OSError:
        return False
    finally:
        os.close(pipe)
    return True
