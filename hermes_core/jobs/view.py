"""View: the jobs of one conversation on behalf of one person, for a tool or a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hermes_core.errors import JobError, NoSuchJob
from hermes_core.job import Job, JobRequest, Page, Polled
from hermes_core.jobs import Jobs
from hermes_core.messages import Address, Author, Role

__all__ = ["JobsView"]

POLLS: Final = 5  # looks at the same thing in one turn without any news, before that is an error (J11)
PATIENCE: Final = 3.0  # seconds that a stop waits for the true end (J5)


class JobsView:
    """`hermes_core.job.TurnJobs`. One value serves one turn, or one command."""

    def __init__(self, jobs: Jobs, address: Address, author: Author, role: Role) -> None:
        self._jobs = jobs
        self._address = address
        self._author = author
        self._role = role
        self._seen: dict[str, tuple[object, int]] = {}
        self.told: set[str] = set()

    async def start(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        key: str,
        deadline: float | None = None,
        depends_on: Sequence[str] = (),
    ) -> Job:
        """Start it here; what it depends on must be of this conversation too."""
        for id_ in depends_on:
            await self._find(id_, "to depend on")
        return self._tell(
            await self._jobs.start(
                JobRequest(
                    self._address,
                    self._author,
                    tool,
                    arguments,
                    key,
                    self._role,
                    deadline,
                    tuple(depends_on),
                )
            )
        )

    async def status(self, id: str) -> Polled:
        """Look at it; the sixth look without any news is an error (J11)."""
        job = await self._find(id)
        now = (job.state, job.fraction, job.progress, job.stop)
        news = self._is_news(f"status {id}", now, f"job {id}", job.state.final)
        return Polled(self._tell(job), news)

    async def result(self, id: str, cursor: str = "") -> Page:
        """Read a page; again and again the same one is polling as well."""
        await self._find(id)
        page = await self._jobs.result(id, cursor)
        now = (page.job.state, page.text)
        self._is_news(f"result {id} {cursor}", now, f"job {id}", page.job.state.final)
        if not page.more:  # what ended is known as such only by who has seen the end of its output
            self._tell(page.job)
        return page

    async def stop(self, id: str) -> Job:
        """Its starter, owners and admins may (E6)."""
        job = await self._find(id)
        if self._role < Role.ADMIN and job.starter.id != self._author.id:
            raise JobError(
                f"Job {id} was started by somebody else.", "Only that person or an admin can stop it."
            )
        return self._tell(await self._jobs.stop(id, PATIENCE))

    async def list(self, limit: int = 20) -> list[Job]:
        """Newest first. Of what is listed as ended the model knows the end; listing in a loop is polling too."""
        found = await self._jobs.recent(self._address, limit)
        now = tuple((job.id, job.state, job.fraction, job.progress, job.stop) for job in found)
        self._is_news("list", now, "your jobs", all(job.state.final for job in found))
        for job in found:
            self._tell(job)
        return found

    async def _find(self, id_: str, what: str = "in this conversation") -> Job:
        try:
            job = await self._jobs.status(id_)
        except NoSuchJob:
            job = None
        if job is None or job.address != self._address:  # that it is elsewhere is nobody's business here
            raise NoSuchJob(f"There is no job {id_[:40]!r} {what}.")
        return job

    def _tell(self, job: Job) -> Job:
        if job.state.final:
            self.told.add(job.id)
        return job

    def _is_news(self, what: str, now: object, name: str, final: bool) -> bool:
        before, count = self._seen.get(what, (None, 0))
        count = count + 1 if before == now else 0
        self._seen[what] = (now, count)
        if count > POLLS:
            rest = (
                "It has ended, and that will not change."
                if final
                else "You will be told when it ends: go on with other work, or end your turn."
            )
            raise JobError(f"Nothing new about {name}, {count} times in a row. Stop polling.", rest)
        return count == 0
