"""Jobs in the SQLite store: what is written inside the writer's transaction, and what is read.

The columns of a row that change stand beside `body`, which is the job as it was added. Final states
never change: every write looks at the state that it finds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from hermes_core.errors import StoreError
from hermes_core.job import Delivery, DeliveryState, Job, JobAdded, JobEnd, JobEnded, JobState
from hermes_core.messages import Address, Entry, encode
from hermes_core.store.writes import Writes, atomic

__all__ = [
    "add",
    "delivered",
    "deliveries",
    "delivery",
    "end",
    "forget",
    "latest",
    "note",
    "one",
    "purge",
    "purged",
    "run",
    "stop",
    "unfinished",
]

_BODY: Final = msgspec.json.Decoder(Job)
_COLUMNS: Final = (
    "SELECT body, state, started, ended, progress, fraction, summary, result, cut, stop, runs, purged"
    " FROM jobs "
)
_OPEN: Final = "state IN ('queued', 'running')"


def _job(row: tuple[Any, ...]) -> Job:
    body, state, started, ended, progress, fraction, summary, result, cut, stop_, runs, purged = row
    return msgspec.structs.replace(
        _BODY.decode(body),
        state=JobState(state),
        started=started,
        ended=ended,
        progress=progress,
        fraction=fraction,
        summary=summary,
        result=result,
        cut=cut,
        stop=bool(stop_),
        runs=runs,
        purged=purged,
    )


def one(connection: sqlite3.Connection, id: str) -> Job | None:
    """The job with this id."""
    row = connection.execute(_COLUMNS + "WHERE id = ?", (id,)).fetchone()
    return None if row is None else _job(row)


def latest(
    connection: sqlite3.Connection, address: Address | None, limit: int, final: bool | None
) -> list[Job]:
    """The latest jobs, newest first."""
    terms = ["address = ?"] if address is not None else []
    if final is not None:
        terms.append(f"NOT ({_OPEN})" if final else _OPEN)
    where = f"WHERE {' AND '.join(terms)} " if terms else ""
    values = (*(() if address is None else (str(address),)), limit)
    rows = connection.execute(f"{_COLUMNS}{where}ORDER BY number DESC LIMIT ?", values)
    return [_job(row) for row in rows]


def unfinished(connection: sqlite3.Connection) -> list[Job]:
    """Every job that has not ended, oldest first; reads a partial index and nothing that is finished."""
    return [_job(row) for row in connection.execute(f"{_COLUMNS}WHERE {_OPEN} ORDER BY number")]


# ---- writes


@atomic
def add(writes: Writes, job: Job) -> JobAdded:
    """Insert, or find the one with the same address and key."""
    connection, address = writes.connection, str(job.address)
    known = connection.execute(_COLUMNS + "WHERE address = ? AND key = ?", (address, job.key)).fetchone()
    if known is not None:
        return JobAdded(_job(known), fresh=False)
    depends: dict[str, JobState] = {}
    for id_ in job.depends_on:
        row = connection.execute("SELECT state FROM jobs WHERE id = ?", (id_,)).fetchone()
        if row is not None:
            depends[id_] = JobState(row[0])
    unknown = tuple(id_ for id_ in job.depends_on if id_ not in depends)
    if unknown:
        return JobAdded(job, fresh=True, unknown=unknown)
    job = msgspec.structs.replace(job, state=JobState.QUEUED)
    writes.cursor.execute(
        "INSERT INTO jobs (id, address, key, body) VALUES (?, ?, ?, ?)",
        (job.id, address, job.key, encode(job)),
    )
    return JobAdded(job, fresh=True, depends=depends)


def run(writes: Writes, id: str, at: float, runs: int) -> bool:
    """From queued to running; or running again, in a later run of the program."""
    writes.cursor.execute(
        "UPDATE jobs SET state = 'running', started = ?, runs = ? WHERE id = ?"
        " AND state IN ('queued', 'running')",
        (at, runs, id),
    )
    return bool(writes.cursor.rowcount)


def note(writes: Writes, id: str, progress: str, fraction: float | None) -> None:
    """Progress of a running job."""
    writes.cursor.execute(
        "UPDATE jobs SET progress = ?, fraction = ? WHERE id = ? AND state = 'running'",
        (progress, fraction, id),
    )


def stop(writes: Writes, id: str) -> bool:
    """Its end was asked for."""
    writes.cursor.execute("UPDATE jobs SET stop = 1 WHERE id = ? AND state IN ('queued', 'running')", (id,))
    return bool(writes.cursor.rowcount)


@atomic
def end(writes: Writes, id: str, how: JobEnd, entry: Entry | None) -> JobEnded:
    """The final state, and the event with it."""
    if not how.state.final:
        raise StoreError(f"A job cannot end as {how.state.value}.")
    writes.cursor.execute(
        "UPDATE jobs SET state = ?, ended = ?, summary = ?, result = ?, cut = ?, size = ?"
        " WHERE id = ? AND state IN ('queued', 'running')",
        (how.state.value, how.at, how.summary, how.result, how.cut, how.size, id),
    )
    fresh = bool(writes.cursor.rowcount)
    job = one(writes.connection, id)
    if job is None:
        raise StoreError(f"There is no job {id}.")
    if fresh and job.callback:
        writes.cursor.execute("INSERT INTO deliveries (job, due) VALUES (?, ?)", (id, how.at))
    if not fresh or entry is None:
        return JobEnded(job, fresh)
    return JobEnded(job, fresh, writes.admit_within(entry).entry)


# ---- removing what ended jobs put out

_BATCH: Final = 200  # jobs at a time, so that nothing else waits for long
_KEPT: Final = " FROM jobs WHERE size > 0 AND purged IS NULL "


@atomic
def purge(writes: Writes, before: float, limit: int, at: float) -> list[str]:
    """Take out the results of some jobs; see `Store.purge_jobs`."""
    connection = writes.connection
    old = "SELECT id" + _KEPT + "AND ended <= ? ORDER BY ended LIMIT ?"
    ids = [id_ for (id_,) in connection.execute(old, (before, _BATCH))]
    if not ids:
        total = connection.execute("SELECT COALESCE(SUM(size), 0)" + _KEPT).fetchone()[0]
        if total > limit:
            oldest = connection.execute("SELECT id, size" + _KEPT + "ORDER BY ended LIMIT ?", (_BATCH,))
            for id_, size in oldest.fetchall():
                if total <= limit:
                    break
                ids.append(id_)
                total -= size
    writes.cursor.executemany(
        "UPDATE jobs SET purged = ?, result = '' WHERE id = ?", [(at, id_) for id_ in ids]
    )
    return ids


def purged(connection: sqlite3.Connection) -> list[str]:
    """Some jobs whose file may still be there; reads a partial index."""
    rows = connection.execute("SELECT id FROM jobs WHERE size > 0 AND purged IS NOT NULL LIMIT ?", (_BATCH,))
    return [id_ for (id_,) in rows]


def forget(writes: Writes, ids: Sequence[str]) -> None:
    """Their files are gone."""
    writes.cursor.executemany(
        "UPDATE jobs SET size = 0 WHERE id = ? AND purged IS NOT NULL", [(id_,) for id_ in ids]
    )


# ---- callbacks

_DELIVERY: Final = "SELECT job, due, attempts, state, said FROM deliveries "


def _delivery(row: tuple[Any, ...]) -> Delivery:
    job, due, attempts, state, said = row
    return Delivery(job, due, attempts, DeliveryState(state), said)


def delivery(connection: sqlite3.Connection, job: str) -> Delivery | None:
    """The callback of one job."""
    row = connection.execute(_DELIVERY + "WHERE job = ?", (job,)).fetchone()
    return None if row is None else _delivery(row)


def deliveries(connection: sqlite3.Connection) -> list[Delivery]:
    """Every callback that waits; reads a partial index."""
    return [_delivery(row) for row in connection.execute(_DELIVERY + "WHERE state = 'waiting' ORDER BY due")]


def delivered(writes: Writes, how: Delivery) -> None:
    """How it stands after an attempt."""
    writes.cursor.execute(
        "UPDATE deliveries SET due = ?, attempts = ?, state = ?, said = ? WHERE job = ? AND state = 'waiting'",
        (how.due, how.attempts, how.state.value, how.said, how.job),
    )
