"""Bodies: what a request of the Job API says, checked; and a job as it is answered."""

from __future__ import annotations

import datetime
import re
from typing import Annotated, Any, Final

import msgspec

from hermes_core.config import duration
from hermes_core.job import Job
from hermes_core.route import Problem, Request

__all__ = ["Start", "cursor_of", "facts", "key_of", "moment", "seconds_of", "start_of"]

LONGEST: Final = 366 * 86400.0  # seconds of a deadline
_BARE: Final = re.compile(r"[\x21\x23-\x2b\x2d-\x7e]+")  # visible, without quotes and commas
_QUOTED: Final = re.compile(r'"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
_KEY_LIMIT: Final = 255

Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /jobs`."""

    tool: Id
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    deadline: float | Annotated[str, msgspec.Meta(max_length=40)] | None = None
    depends_on: Annotated[list[Id], msgspec.Meta(max_length=100)] = msgspec.field(default_factory=list)
    callback_url: Annotated[str, msgspec.Meta(max_length=2048)] | None = None


def key_of(request: Request) -> str:
    """The Idempotency-Key, as it is or as a structured field string: `k` and `"k"` are the same key."""
    given = request.headers.get("idempotency-key", ())
    advice = 'Send one text of your own that names this start: Idempotency-Key: "…"'
    if not given:
        raise Problem(400, "The header Idempotency-Key is missing.", advice)
    text = given[0].strip(" \t") if len(given) == 1 else ""
    quoted = _QUOTED.fullmatch(text)
    bare = text if _BARE.fullmatch(text) else ""
    key = bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted[1])
    if not key.strip() or len(key) > _KEY_LIMIT:
        raise Problem(
            400, f"The Idempotency-Key is none: 1 to {_KEY_LIMIT} visible ASCII characters.", advice
        )
    return key


def start_of(request: Request) -> Start:
    """What is to be started."""
    kind = request.headers.get("content-type", ("",))[0].partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(
            415,
            "The body must be JSON.",
            "Send Content-Type: application/json.",
            headers={"Accept": "application/json"},
        )
    try:
        body = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Problem(400, "The body is not valid JSON.") from error
    try:
        return msgspec.convert(body, Start)
    except msgspec.ValidationError as error:
        raise Problem(422, f"The body does not fit: {error}.") from error


def seconds_of(deadline: float | str | None) -> float | None:
    """A deadline as a number of seconds (E9)."""
    if deadline is None:
        return None
    try:
        seconds = duration(deadline)
    except ValueError as error:
        raise Problem(422, f"deadline: {error}.") from error
    if not 0 < seconds <= LONGEST:
        raise Problem(422, "deadline: it must be longer than nothing and at most 366 days.")
    return seconds


def cursor_of(request: Request) -> str | None:
    """The cursor, "" for the beginning; None where none is given."""
    given = request.query.get("cursor")
    if given is None:
        return None
    if len(given) != 1:
        raise Problem(422, "cursor: give one.")
    return given[0]


def facts(job: Job) -> dict[str, Any]:
    """A job as it stands."""
    return {
        "job_id": job.id,
        "tool": job.tool,
        "status": job.state.value,
        "progress": {"fraction": job.fraction, "text": job.progress},
        "summary": job.summary,
        "depends_on": list(job.depends_on),
        "stop_requested": job.stop,
        "runs": job.runs,
        "created_at": moment(job.created),
        "started_at": moment(job.started),
        "ended_at": moment(job.ended),
        "deadline_at": moment(job.deadline),
        "output_removed_at": moment(job.purged),
    }


def moment(seconds: float | None) -> str | None:
    """A time as RFC 3339 has it, in UTC."""
    if seconds is None:
        return None
    then = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return then.isoformat(timespec="milliseconds").replace("+00:00", "Z")
