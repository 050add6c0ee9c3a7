"""The HTTP Job API: the table of calls and answers, over the same jobs that the chats have (H).

Whoever may call the server is its owner: every job can be looked at and stopped by its id. What is
started here belongs to the address `http:CALLER:jobs`, which has no chat: its end is told to a callback
URL, and to nobody else. Idempotency keys are unique within that address.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from hermes_core.errors import JobError, KeyInUse, NoSuchJob, ResultGone, ToolError
from hermes_core.job import Job, JobRequest, JobState, Page
from hermes_core.messages import Address, Author, Role
from hermes_core.route import Problem, Request, Response, Route, Site, json_response
from hermes_core.tools import AsyncTool
from hermes_jobs import http_document as document
from hermes_jobs.http_bodies import Start, cursor_of, facts, key_of, seconds_of, start_of
from hermes_jobs.http_callbacks import check_url

__all__ = ["JobApi"]

LIMIT: Final = 256 * 1024  # bytes of a request's body
ACCEPTING: Final = "1"  # seconds after which to ask again for a key that is being accepted
PATH: Final = "/jobs"


class JobApi:
    """The four calls. `callbacks`: None where they are refused, else whether they may stay inside."""

    def __init__(self, site: Site, callbacks: bool | None) -> None:
        self._site = site
        self._callbacks = callbacks
        self._accepting: set[tuple[str, str]] = set()

    def routes(self) -> Iterable[Route]:
        """What is served."""
        one, result = f"{PATH}/{{id}}", f"{PATH}/{{id}}/result"
        return (
            Route("POST", PATH, self.start, document.START, limit=LIMIT),
            Route("GET", one, self.status, document.STATUS, limit=LIMIT),
            Route("DELETE", one, self.stop, document.STOP, limit=LIMIT),
            Route("GET", result, self.result, document.RESULT, limit=LIMIT),
        )

    # -- POST /jobs

    async def start(self, request: Request) -> Response:
        """202 with the job of this key; 409 while the first with the same key is being accepted."""
        key = key_of(request)
        asked = start_of(request)
        mine = (request.caller, key)
        if mine in self._accepting:
            raise Problem(
                409,
                "A request with this Idempotency-Key is being accepted.",
                "Ask again in a moment.",
                headers={"Retry-After": ACCEPTING},
            )
        self._accepting.add(mine)
        try:
            job = await self._start(request.caller, key, asked)
        finally:
            self._accepting.discard(mine)
        headers = {"Location": f"{PATH}/{job.id}", **self._retry(job)}
        return json_response(202, {"job_id": job.id, "status": job.state.value}, headers)

    async def _start(self, caller: str, key: str, asked: Start) -> Job:
        tool = self._tool(asked.tool)
        try:
            checked = tool.check(msgspec.json.encode(asked.arguments).decode())
        except ToolError as error:
            raise Problem(422, error.message, error.advice) from error
        if asked.callback_url is not None:
            check_url(asked.callback_url, self._callbacks)
        for id_ in asked.depends_on:
            await self._find(id_, 422)
        request = JobRequest(
            Address("http", caller, "jobs"),
            Author(caller, "HTTP"),
            tool.name,
            msgspec.to_builtins(checked),
            key,
            Role.OWNER,
            seconds_of(asked.deadline),
            tuple(asked.depends_on),
            notify=False,
            callback=asked.callback_url or "",
        )
        try:
            return await self._site.jobs.start(request)
        except KeyInUse as error:
            raise Problem(
                422,
                "This Idempotency-Key belongs to a job that was asked for with another body.",
                error.advice,
            ) from error
        except JobError as error:
            raise Problem(422, error.message, error.advice) from error

    def _tool(self, name: str) -> AsyncTool:
        tools = self._site.tools
        tool = tools.get(name)
        if tool is None:
            near = difflib.get_close_matches(name.removeprefix("start_"), tools, 1, 0.5)
            known = ", ".join(sorted(tools)) or "none"
            raise Problem(
                422,
                f"There is no async tool {name[:80]!r}.",
                f"Did you mean {near[0]!r}?" if near else f"There are: {known}.",
            )
        return tool

    # -- the others

    async def status(self, request: Request) -> Response:
        """200, or 304 for who knows it as it is."""
        job = await self._find(request.parameters["id"])
        body = facts(job)
        tag = f'"{hashlib.blake2b(msgspec.json.encode(body), digest_size=12).hexdigest()}"'
        headers = {"ETag": tag, **self._retry(job)}
        if _knows(request, tag):
            return Response(304, b"", headers)
        return json_response(200, body, headers)

    async def result(self, request: Request) -> Response:
        """Without a cursor the output of a job that is done; with one also what there is so far (E8)."""
        cursor = cursor_of(request)
        job = await self._find(request.parameters["id"])
        if cursor is None and job.state is not JobState.DONE:
            raise self._not_yet(job)
        try:
            page = await self._site.jobs.result(job.id, cursor or "")
            empty = not page.text and page.job.state is not JobState.DONE
            if empty and not (await self._site.jobs.result(job.id, "", 1)).text:
                raise self._not_yet(page.job)
        except NoSuchJob as error:
            raise _unknown(job.id) from error
        except ResultGone as error:
            raise Problem(410, error.message, error.advice) from error
        except JobError as error:
            raise Problem(422, error.message, error.advice) from error
        return json_response(200, _page(page), self._retry(page.job))

    def _not_yet(self, job: Job) -> Problem:
        if job.state.final:
            how = f"The job ended as {job.state.value} and has no result."
            advice = "With ?cursor= what it put out before is given, if there is any."
        else:
            how = "The job has not ended."
            advice = "With ?cursor= what it put out so far is given, once there is any."
        return Problem(409, how, advice, headers=self._retry(job), job_id=job.id, job_status=job.state.value)

    async def stop(self, request: Request) -> Response:
        """202: the stop is asked for; 409 with the true state of one that has ended (J5)."""
        job = await self._find(request.parameters["id"])
        if not job.state.final:
            job = await self._site.jobs.stop(job.id)
            if not job.state.final or job.state is JobState.CANCELLED:
                headers = {"Location": f"{PATH}/{job.id}", **self._retry(job)}
                return json_response(202, {"job_id": job.id, "status": job.state.value}, headers)
        raise Problem(
            409,
            f"The job has ended already, as {job.state.value}.",
            job_id=job.id,
            job_status=job.state.value,
        )

    async def _find(self, id_: str, status: int = 404) -> Job:
        try:
            return await self._site.jobs.status(id_)
        except NoSuchJob as error:
            raise _unknown(id_, status) from error

    def _retry(self, job: Job) -> Mapping[str, str]:
        """When to ask again: a second at first, later a tenth of the job's age, at most a minute."""
        if job.state.final:
            return {}
        age = self._site.wall() - job.created
        return {"Retry-After": str(max(1, min(60, round(age / 10))))}


def _unknown(id_: str, status: int = 404) -> Problem:
    return Problem(status, f"There is no job {id_[:64]!r}.")


def _knows(request: Request, tag: str) -> bool:
    given = ",".join(request.headers.get("if-none-match", ()))
    tags = [one.strip().removeprefix("W/") for one in given.split(",")]
    return tag in tags or "*" in tags


def _page(page: Page) -> dict[str, Any]:
    return {
        "job_id": page.job.id,
        "status": page.job.state.value,
        "output": page.text,
        "next_cursor": page.cursor,
        "more": page.more,
        "cut_bytes": page.cut,
    }
