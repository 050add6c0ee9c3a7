"""Accept: from a request to a job; what is wrong with it is said before anything is stored (J3, J4)."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from hermes_core.errors import JobError, KeyInUse
from hermes_core.job import Job, JobRequest, fingerprint, job_id
from hermes_core.tools import AsyncTool

__all__ = ["checked", "made", "same"]


def checked(request: JobRequest, tool: AsyncTool) -> JobRequest:
    """The request with its arguments as the tool takes them, defaults filled in.

    `ToolError` where they do not fit; `JobError` for a missing key, or a job that depends on itself.
    """
    if not request.key.strip():
        raise JobError("The idempotency_key is missing.", "Give a text of your own that names this start.")
    if job_id(request.address, request.key) in request.depends_on:
        raise JobError("A job cannot depend on itself.")
    arguments = tool.check(msgspec.json.encode(request.arguments).decode())
    return replace(request, arguments=msgspec.to_builtins(arguments))


def made(request: JobRequest, tool: AsyncTool, now: float, usual: float) -> Job:
    """A new job; `usual` are the seconds until its deadline where neither request nor tool say otherwise (J6)."""
    return Job(
        job_id(request.address, request.key),
        request.address,
        request.starter,
        request.tool,
        msgspec.json.encode(request.arguments, order="deterministic").decode(),
        request.key,
        fingerprint(request),
        now,
        now + (request.deadline or tool.deadline or usual),
        request.role,
        tuple(dict.fromkeys(request.depends_on)),
        request.notify,
        request.callback,
        tool.process,
    )


def same(job: Job, request: JobRequest) -> Job:
    """The job that has this key already; `KeyInUse` where it was started with other arguments."""
    if job.digest != fingerprint(request):
        raise KeyInUse(
            f"The idempotency_key {request.key[:60]!r} belongs to job {job.id}, which has other arguments.",
            "Use a new key for a new job.",
        )
    return job
