"""What `hermes` loads: tools about jobs for the model, /jobs and /job for people, an HTTP API for programs."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from hermes_core.commands import Command, Context, command
from hermes_core.config import Config
from hermes_core.errors import ResultGone
from hermes_core.hookspecs import hookimpl
from hermes_core.job import Job, JobState, Page
from hermes_core.messages import first_words
from hermes_core.route import Route, Site
from hermes_core.tools import Tool, ToolContext, tool

__all__ = ["JobsPlugin"]

log = logging.getLogger("hermes.jobs")

_QUIET = "Nothing new; you will be told when it ends. Go on with other work, or end your turn."
_SHOWN = 20  # jobs in a list


# ---- for the model


@tool(idempotent=True)
async def get_job_status(context: ToolContext, job_id: str) -> dict[str, Any]:
    """Look at a job once: its status, progress and summary.

    Do not use this to wait: you are told by an [event] message when the job ends. Status is one of
    queued, running, done, failed, cancelled, timed_out, lost.

    Args:
        job_id: The id that its start gave.
    """
    polled = await context.jobs.status(job_id)
    said = _facts(polled.job)
    return said if polled.news else {**said, "note": _note(polled.job)}


@tool(idempotent=True)
async def get_job_result(context: ToolContext, job_id: str, cursor: str = "") -> str:
    """Read the output of a job, one page at a time; also while it runs.

    The first line names the next cursor. Call again with it only while that line says more=yes.

    Args:
        job_id: The id that its start gave.
        cursor: The next_cursor of the page before; empty for the beginning.
    """
    return _page(await context.jobs.result(job_id, cursor))


@tool(idempotent=True)
async def stop_job(context: ToolContext, job_id: str) -> dict[str, Any]:
    """Ask for the end of a job. The status in the answer is the true one: done, if it had finished first.

    Args:
        job_id: The id that its start gave.
    """
    job = await context.jobs.stop(job_id)
    said = _facts(job)
    return (
        said
        if job.state.final
        else {**said, "note": "It is being stopped; you will be told when it has ended."}
    )


@tool(idempotent=True)
async def list_jobs(context: ToolContext) -> list[dict[str, Any]]:
    """The jobs of this conversation, newest first: all that have not ended, and the latest others."""
    return [_facts(job) for job in await context.jobs.list(_SHOWN)]


def _facts(job: Job) -> dict[str, Any]:
    said: dict[str, Any] = {
        "job_id": job.id,
        "tool": f"start_{job.tool}",
        "status": job.state.value,
        "progress": _progress(job),
        "summary": job.summary,
        "depends_on": list(job.depends_on) if job.state is JobState.QUEUED else [],
        "stop_requested": job.stop and not job.state.final,
        "begun": job.runs if job.runs > 1 else 0,  # more than once: it was repeated after a restart
    }
    return {name: value for name, value in said.items() if value}


def _note(job: Job) -> str:
    return "Nothing new; it has ended and that will not change." if job.state.final else _QUIET


def _progress(job: Job) -> str:
    percent = f"{job.fraction:.0%}" if job.fraction is not None else ""
    return f"{percent} {job.progress}".strip()


def _page(page: Page) -> str:
    more = "yes" if page.more else "no"
    head = f"job_id={page.job.id} status={page.job.state.value} more={more} next_cursor={page.cursor}"
    if page.cut:
        head += f" ({page.cut} bytes of the output were not kept)"
    if page.text:
        return f"{head}\n{page.text}"
    ended = "(there is no more output)" if page.cursor != "0" else "(there was no output)"
    return (
        f"{head}\n{ended if page.job.state.final else '(nothing more so far; you will be told when it ends)'}"
    )


# ---- for people


@command("jobs")
async def jobs(context: Context) -> str:
    """List the jobs of this conversation, newest first."""
    found = await context.jobs.list(_SHOWN)
    if not found:
        return "There are no jobs here."
    return "\n".join(f"- {_line(job)}" for job in found)


@command("job")
async def job(context: Context, id: str) -> str:
    """Show one job: what it is, how far it is, and the beginning of its output."""
    one = (await context.jobs.status(id)).job
    page: Page | None = None
    try:
        page = await context.jobs.result(id)
    except ResultGone as error:
        gone = error.message
    lines = [
        f"{_line(one)}",
        f"Asked for: start_{one.tool} {first_words(one.arguments, 200)}",
        f"By: {one.starter.name or one.starter.id}, {_ago(one.created)}",
    ]
    if one.depends_on:
        lines.append("After: " + ", ".join(one.depends_on))
    if one.started is not None:
        lines.append(f"Ran: {_span((one.ended or time.time()) - one.started)}")
    if one.runs > 1:
        lines.append(f"Begun {one.runs} times: the program was restarted meanwhile.")
    if not one.state.final:
        lines.append(f"Type /stop {one.id} to stop it.")
    if page is None:
        lines.append(gone)
    text = "\n".join(f"- {line}" for line in lines)
    if page is None or not page.text:
        return text
    more = "\n…" if page.more else ""
    fence = "```" if "```" not in page.text else "`````"
    return f"{text}\n\n{fence}text\n{page.text.rstrip()}{more}\n{fence}"


def _line(one: Job) -> str:
    said = one.summary if one.state.final else _progress(one)
    rest = f": {said}" if said else ""
    stopping = " (stopping)" if one.stop and not one.state.final else ""
    return f"{one.id} {one.tool} {_asked(one)}{one.state.value}{stopping}{rest}"


def _asked(one: Job) -> str:
    """What tells two jobs of one tool apart: the beginning of its arguments."""
    values = msgspec.json.decode(one.arguments)
    text = " ".join(str(value) for value in values.values()) if isinstance(values, dict) else ""
    return f"“{first_words(text, 40)}” " if text else ""


def _ago(then: float) -> str:
    return f"{_span(time.time() - then)} ago"


def _span(seconds: float) -> str:
    whole = max(0, round(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


class JobsPlugin:
    """Four tools, two commands, the HTTP Job API, and a line in the log for each change of a job's state.

    No settings of its own: the limits of jobs and what is said of callbacks are in `[jobs]`.
    """

    def __init__(self) -> None:
        self._config = Config()

    @hookimpl
    def hermes_configured(self, config: Config) -> None:
        """Keeps `[jobs.callbacks]`."""
        self._config = config

    def _secret(self) -> str | None:
        settings = self._config.jobs.callbacks
        return self._config.secret("jobs.callbacks.secret_env", settings.secret_env)

    @hookimpl
    async def hermes_started(self, site: Site) -> None:
        """From here on callbacks are delivered, also those of former runs, with or without a server of our own."""
        secret = self._secret()
        if secret is not None:
            from hermes_jobs import http_callbacks  # who sends none does without these libraries
            from hermes_jobs.http_guard import Guarded

            guard = Guarded(private=self._config.jobs.callbacks.allow_private)
            await http_callbacks.Callbacks(site, secret, http_callbacks.post(guard)).begin()
        elif waiting := len(await site.store.open_deliveries()):
            log.warning("%d callbacks wait, and there is no secret to sign them with", waiting)

    @hookimpl
    def hermes_routes(self, site: Site) -> Iterable[Route]:
        """The HTTP Job API."""
        from hermes_jobs.http_api import JobApi  # a start without a server does without its libraries

        private = self._config.jobs.callbacks.allow_private if self._secret() is not None else None
        return JobApi(site, private).routes()

    @hookimpl
    def hermes_job_event(self, job: Job) -> None:
        """See the hook. A job that was begun again after a restart is worth a warning."""
        again = job.state is JobState.RUNNING and job.runs > 1
        level = logging.WARNING if again or job.state is JobState.LOST else logging.INFO
        log.log(
            level, "job %s (%s) of %s: %s %s", job.id, job.tool, job.address, job.state.value, job.summary
        )

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        """The tools. `start_NAME` comes with each async tool."""
        return (get_job_status, get_job_result, stop_job, list_jobs)

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        """The commands. `/stop JOB` is where /stop is, in the plugin busy."""
        return (jobs, job)
