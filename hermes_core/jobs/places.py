"""Places: the files of jobs in the data folder: what each puts out, and the record of its process (E5, J10)."""

from __future__ import annotations

import logging
from collections.abc import Container
from pathlib import Path

from msgspec.structs import replace

from hermes_core import processes
from hermes_core.job import Job

__all__ = ["Places"]

log = logging.getLogger("hermes.jobs")


class Places:
    """All of them, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def output(self, id_: str) -> Path:
        """The file with what this job puts out."""
        return self._folder / f"{id_}.out"

    def record(self, job: Job) -> Path:
        """The record of its process, another one for each run."""
        return self._folder / f"{job.id}-{job.runs}.process"

    def attach(self, job: Job) -> processes.Kept | processes.KeptEnd | None:
        """Its process, as an earlier runtime left it; None: it was never begun, and never will be."""
        record = self.record(job)
        try:
            return processes.attach(record)
        except OSError as error:  # a disk that takes nothing: that it never began cannot be made sure of
            log.error("the record %s cannot be claimed: %s", record.name, error)
            return processes.KeptEnd(known=False)

    def tidy(self, job: Job) -> None:
        """It has ended: the records of all its runs go."""
        if job.process:
            for runs in range(1, job.runs + 1):
                processes.forget(self.record(replace(job, runs=runs)))

    def forget_others(self, open_: Container[str]) -> None:
        """Remove the records of other jobs: a crash may have come between an end and the removal."""
        for record in self._folder.glob("*.process"):
            if record.name.rpartition("-")[0] not in open_:
                processes.forget(record)
