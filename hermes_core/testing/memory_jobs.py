"""The jobs of `MemoryStore`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from hermes_core.job import Delivery, DeliveryState, Job, JobAdded, JobEnd, JobEnded, JobState
from hermes_core.messages import Address, Entry

__all__ = ["MemoryJobs"]


class MemoryJobs:
    """What the store keeps of jobs. `admit` keeps an entry."""

    def __init__(self, admit: Callable[[Entry], Entry]) -> None:
        self._admit = admit
        self._jobs: dict[str, Job] = {}
        self._keys: dict[tuple[Address, str], str] = {}
        self._deliveries: dict[str, Delivery] = {}
        self._sizes: dict[str, int] = {}

    def add(self, job: Job) -> JobAdded:
        """See `Store.add_job`."""
        known = self._keys.get((job.address, job.key))
        if known is not None:
            return JobAdded(self._jobs[known], fresh=False)
        unknown = tuple(id_ for id_ in job.depends_on if id_ not in self._jobs)
        if unknown:
            return JobAdded(job, fresh=True, unknown=unknown)
        job = replace(job, state=JobState.QUEUED)
        self._jobs[job.id] = job
        self._keys[job.address, job.key] = job.id
        return JobAdded(job, fresh=True, depends={id_: self._jobs[id_].state for id_ in job.depends_on})

    def run(self, id_: str, at: float, runs: int) -> bool:
        """See `Store.run_job`."""
        return self._change(id_, state=JobState.RUNNING, started=at, runs=runs)

    def note(self, id_: str, progress: str, fraction: float | None) -> None:
        """See `Store.note_job`."""
        job = self._jobs.get(id_)
        if job is not None and job.state is JobState.RUNNING:
            self._change(id_, progress=progress, fraction=fraction)

    def stop(self, id_: str) -> bool:
        """See `Store.stop_job`."""
        return self._change(id_, stop=True)

    def end(self, id_: str, how: JobEnd, entry: Entry | None) -> JobEnded | None:
        """See `Store.end_job`; None where there is no such job."""
        if id_ not in self._jobs:
            return None
        fresh = self._change(
            id_, state=how.state, ended=how.at, summary=how.summary, result=how.result, cut=how.cut
        )
        if fresh:
            self._sizes[id_] = how.size
        if fresh and self._jobs[id_].callback:
            self._deliveries[id_] = Delivery(id_, how.at)
        kept = self._admit(entry) if fresh and entry is not None else None
        return JobEnded(self._jobs[id_], fresh, kept)

    def one(self, id_: str) -> Job | None:
        """See `Store.job`."""
        return self._jobs.get(id_)

    def latest(self, address: Address | None, limit: int, final: bool | None) -> list[Job]:
        """See `Store.jobs`."""
        found = [
            job
            for job in reversed(self._jobs.values())
            if (address is None or job.address == address) and (final is None or job.state.final is final)
        ]
        return found[:limit]

    def unfinished(self) -> list[Job]:
        """See `Store.open_jobs`."""
        return [job for job in self._jobs.values() if not job.state.final]

    def purge(self, before: float, limit: int, at: float) -> list[str]:
        """See `Store.purge_jobs`; all at once."""
        kept = [job for job in self._jobs.values() if job.purged is None and self._sizes.get(job.id)]
        total = sum(self._sizes[job.id] for job in kept)
        ids: list[str] = []
        for job in sorted(kept, key=lambda one: one.ended or 0.0):
            if (job.ended or 0.0) <= before or total > limit:
                ids.append(job.id)
                total -= self._sizes[job.id]
                self._jobs[job.id] = replace(job, purged=at, result="")
        return ids

    def purged(self) -> list[str]:
        """See `Store.purged_jobs`."""
        return [id_ for id_, size in self._sizes.items() if size and self._jobs[id_].purged is not None]

    def forget(self, ids: Sequence[str]) -> None:
        """See `Store.forget_outputs`."""
        for id_ in ids:
            if self._jobs[id_].purged is not None:
                self._sizes[id_] = 0

    def delivered(self, how: Delivery) -> None:
        """See `Store.note_delivery`."""
        known = self._deliveries.get(how.job)
        if known is not None and known.state is DeliveryState.WAITING:
            self._deliveries[how.job] = how

    def deliveries(self) -> list[Delivery]:
        """See `Store.open_deliveries`."""
        waiting = [one for one in self._deliveries.values() if one.state is DeliveryState.WAITING]
        return sorted(waiting, key=lambda one: one.due)

    def delivery(self, job: str) -> Delivery | None:
        """See `Store.delivery`."""
        return self._deliveries.get(job)

    def _change(self, id_: str, **fields: object) -> bool:
        job = self._jobs.get(id_)
        if job is None or job.state.final:
            return False
        self._jobs[id_] = replace(job, **fields)
        return True
