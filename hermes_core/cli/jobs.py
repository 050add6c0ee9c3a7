"""`hermes jobs list`, `show` and `stop`: jobs as the data folder has them, whether or not Hermes runs.

`list` and `show` read the database beside the program that has it. `stop` asks that program; where
none runs, the request is stored for the next start, and the job's process is ended here.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hermes_core.cli.common import load_config, print_json, print_line
from hermes_core.errors import NoSuchJob

if TYPE_CHECKING:
    from hermes_core.config import Config
    from hermes_core.job import Job

__all__ = ["LIST", "SHOW", "STOP"]

_PATIENCE: Final = 3.0  # seconds beyond interrupt.kill_after to wait for the end of a stopped job
_MOMENTS: Final = ("created", "started", "ended", "deadline", "output_removed")  # seconds since 1970
_LOOK: Final = 0.02  # seconds between two looks at the database meanwhile


class _Command(NamedTuple):
    """A command of the group."""

    NAME: tuple[str, ...]
    HELP: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=_count, default=50, metavar="N", help="at most so many (default: 50)")
    parser.add_argument("--open", action="store_true", help="only those that have not ended")
    parser.add_argument("--json", action="store_true", help="as JSON: a list, one object for each job")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _list(options: argparse.Namespace) -> int:
    """Print the latest jobs, newest first."""
    from hermes_core.store import jobs
    from hermes_core.store.peek import peek

    folder = load_config(options).runtime.data_dir
    found: list[Job] = peek(folder, jobs.latest, [], None, options.limit, False if options.open else None)
    if options.json:
        print_json([_facts(job) for job in found])
        return 0
    for job in found:
        print_line(_line(job))
    if not found:
        print_line("There are no jobs." if not options.open else "No job runs or waits.")
    return 0


def _id_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the job's id, as `hermes jobs list` shows it")
    parser.add_argument("--json", action="store_true", help="as JSON: one object")


def _show(options: argparse.Namespace) -> int:
    """Print everything about one job, and where its output is."""
    config = load_config(options)
    job = _find(config, options.id)
    output = _folder(config) / f"{job.id}.out"
    if options.json:
        print_json({**_facts(job), "result": job.result, "output": str(output) if output.exists() else None})
        return 0
    for name, value in _facts(job).items():
        if value not in (None, "", [], False):
            print_line(f"{name}: {_moment(value) if name in _MOMENTS else value}")
    if output.exists():
        print_line(f"output: {output}")
    if job.result:
        print_line(f"\n{job.result}")
    return 0


def _stop(options: argparse.Namespace) -> int:
    """Stop a job and print its true end (J5)."""
    import asyncio

    from hermes_core.jobs.control import ask

    config = load_config(options)
    job = _find(config, options.id)
    if not job.state.final:
        if ask(_folder(config), job.id):
            until = time.monotonic() + config.interrupt.kill_after + _PATIENCE
            while time.monotonic() < until:
                job = _find(config, job.id)
                if job.state.final:
                    break
                time.sleep(_LOOK)
        else:
            asyncio.run(_stop_here(config, job))
            job = _find(config, job.id)
    if options.json:
        print_json(_facts(job))
    elif job.state.final:
        print_line(f"{job.id}: {job.state.value}, {job.summary}")
    else:
        print_line(f"{job.id} is asked to end; its state is known when Hermes runs.")
    return 0


async def _stop_here(config: Config, job: Job) -> None:
    """No Hermes runs: keep the request, and end what the job has running."""
    from hermes_core import processes
    from hermes_core.store.sqlite import SQLiteStore

    store = await SQLiteStore.open(config.runtime.data_dir)
    try:
        await store.stop_job(job.id)
    finally:
        await store.close()
    record = _folder(config) / f"{job.id}-{job.runs}.process"
    kept = processes.attach(record) if record.exists() else None
    if isinstance(kept, processes.Kept):
        kept.stop(config.interrupt.kill_after)
        await kept.wait()


def _folder(config: Config) -> Path:
    return config.runtime.data_dir / "jobs"


def _find(config: Config, id_: str) -> Job:
    from hermes_core.store import jobs
    from hermes_core.store.peek import peek

    job: Job | None = peek(config.runtime.data_dir, jobs.one, None, id_)
    if job is None:
        raise NoSuchJob(f"There is no job {id_[:60]!r}.", "See: hermes jobs list")
    return job


def _line(job: Job) -> str:
    said = job.summary if job.state.final else job.progress
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(job.created))
    return f"{job.id}  {job.state.value:<9}  {when}  {job.tool}  {job.address}  {said}".rstrip()


def _facts(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "status": job.state.value,
        "tool": f"start_{job.tool}",
        "arguments": job.arguments,
        "address": str(job.address),
        "starter": job.starter.id,
        "key": job.key,
        "created": job.created,
        "started": job.started,
        "ended": job.ended,
        "deadline": job.deadline,
        "depends_on": list(job.depends_on),
        "progress": job.progress,
        "fraction": job.fraction,
        "summary": job.summary,
        "stop_requested": job.stop,
        "runs": job.runs,
        "cut": job.cut,
        "output_removed": job.purged,
    }


def _moment(seconds: float) -> str:
    """A time as people read it here."""
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(seconds)).rstrip()


LIST: Final = _Command(
    ("jobs", "list"), "list jobs, newest first, also while Hermes runs", _list_arguments, _list
)
SHOW: Final = _Command(("jobs", "show"), "show one job and where its output is", _id_argument, _show)
STOP: Final = _Command(("jobs", "stop"), "stop a job and say how it really ended", _id_argument, _stop)
