"""Retention: what ended jobs put out is removed when it is old, or when there is too much of it (H).

Theory of operation. A result is first marked as removed, and its text taken out of the store, in one
transaction; then its file goes; then the mark that there may still be a file. So a crash at any instant
leaves either all of it or a job that says that its output was removed, and the next start takes the file.
The row of the job stays. Nothing here keeps time: it looks at the start, where a job ends and the last
look is an hour old or much has come in, and where somebody asks for something that is too old.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from hermes_core.errors import ResultGone, StoreError
from hermes_core.job import Job
from hermes_core.store import Store

__all__ = ["Retention", "gone", "size"]

log = logging.getLogger("hermes.jobs")

SELDOM: Final = 3600.0  # seconds between two looks because of age, while the program runs
SHARE: Final = 10  # of the limit: when a tenth of it has come in, the whole is looked at again


class Retention:
    """Removes results older than `keep` seconds, and the oldest while all together have more than `limit` bytes."""

    def __init__(
        self,
        store: Store,
        wall: Callable[[], float],
        output: Callable[[str], Path],
        keep: float,
        limit: int,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        self._store = store
        self._wall = wall
        self._output = output
        self._keep = keep
        self._limit = limit
        self._spawn = spawn
        self._looked = -SELDOM
        self._grown = 0
        self._looking = asyncio.Lock()

    def due(self, job: Job) -> bool:
        """Whether what this job put out is too old to be read, removed or not."""
        return job.ended is not None and job.ended + self._keep <= self._wall()

    def ended(self, size: int) -> None:
        """A job ended whose output has so many bytes; at times this is the occasion for a look."""
        self._grown += size
        old = asyncio.get_running_loop().time() - self._looked >= SELDOM
        if (old or self._grown * SHARE > self._limit) and not self._looking.locked():
            self.begin()

    def begin(self) -> None:
        """Look soon, without anybody waiting."""
        self._looked, self._grown = asyncio.get_running_loop().time(), 0
        self._spawn(self.look(), "results of jobs")

    async def look(self) -> None:
        """Remove what is due. A store that takes nothing is asked again another time."""
        async with self._looking:
            try:
                now = self._wall()
                count = 0
                while ids := await self._store.purge_jobs(now - self._keep, self._limit, now):
                    count += len(ids)
                await self._unlink()
            except StoreError as error:
                log.warning("results of jobs could not be removed: %s", error)
                return
        if count:
            log.info("removed what %d jobs put out", count)

    async def _unlink(self) -> None:
        while ids := await self._store.purged_jobs():
            removed = []
            for id_ in ids:
                try:
                    self._output(id_).unlink(missing_ok=True)
                except OSError as error:
                    log.warning("the output of job %s cannot be removed: %s", id_, error.strerror)
                else:
                    removed.append(id_)
            await self._store.forget_outputs(removed)
            if len(removed) < len(ids):
                return


def size(output: Path, result: str) -> int:
    """Bytes of what a job put out and gave back; at least 1 where there is a file, so that it is removed some day."""
    try:
        written = max(1, output.stat().st_size)
    except OSError:
        written = 0
    return written + len(result.encode("utf-8", "replace"))


def gone(job: Job) -> ResultGone:
    """What to say where the output of a job is no longer there."""
    when = ""
    if job.purged is not None:
        when = time.strftime(" at %Y-%m-%d %H:%M %Z", time.localtime(job.purged)).rstrip()
    return ResultGone(f"The output of job {job.id} was removed{when}.", "Start it again with a new key.")
