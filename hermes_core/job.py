"""Job: the values of jobs that cross floors, and what a plugin may do with the jobs of a conversation.

A job is started by a tool call or a person, runs outside any turn and outlives it. Its life is

    queued ──> running ──> done | failed | cancelled | timed_out | lost

and a final state never changes (J2). Nothing here runs anything: `hermes_core.jobs` does.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Protocol

import msgspec

from hermes_core.errors import JobError
from hermes_core.messages import Address, Author, Entry, Role, When

__all__ = [
    "ABANDONED",
    "RESULT_TOOL",
    "ConversationJobs",
    "Delivery",
    "DeliveryState",
    "Job",
    "JobAdded",
    "JobEnd",
    "JobEnded",
    "JobRequest",
    "JobState",
    "Jobs",
    "NoJobs",
    "Page",
    "Polled",
    "Told",
    "TurnJobs",
    "event",
    "event_job",
    "fingerprint",
    "job_id",
    "one_line",
]

RESULT_TOOL: Final = "get_job_result"
"""The tool that an event tells the model to read the output with (J7)."""

ABANDONED: Final = "It did not let itself be ended and was abandoned: it may still be running, unseen."
"""How the summary ends of a job whose function swallowed its cancellation (J5, J6)."""

_EVENT_ID: Final = re.compile(r"job:([^:]+):[a-z_]+")
_LINE: Final = 300  # characters of a summary or progress


class JobState(enum.StrEnum):
    """Where a job stands (J2)."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    LOST = "lost"  # its worker died, and it may not be repeated

    @property
    def final(self) -> bool:
        """Whether it never changes again."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


class JobRequest(msgspec.Struct, frozen=True):
    """What is to be started, where, and for whom.

    `tool` is the async tool's name without `start_`; `arguments` its checked arguments as JSON values.
    `key` is the idempotency key, unique within `address` (J3). `deadline` in seconds from now, None for
    the configured one (J6). `notify`: the end is told to the conversation as an event (J7); False where
    there is no chat. `callback` is a URL that is kept with the job.
    """

    address: Address
    starter: Author
    tool: str
    arguments: Mapping[str, Any]
    key: str
    role: Role = Role.USER
    deadline: float | None = None
    depends_on: tuple[str, ...] = ()
    notify: bool = True
    callback: str = ""


class Job(msgspec.Struct, frozen=True):
    """A job as it stands.

    Times are seconds since 1970; `deadline` is one of them. `arguments` is JSON text. `digest` tells
    requests with the same key apart. `process`: its work is a process, which outlives the runtime.
    `progress` is one line, `fraction` 0 to 1 where it is known. `stop`: somebody asked for its end. `runs`
    counts how often it was handed to a worker: more than once only for an idempotent one, or where a crash
    came before its work had begun. `result` is the text that the tool gave back, `cut` the number of bytes
    of its output that were not kept (J10). `purged`: when result and output were removed.
    """

    id: str
    address: Address
    starter: Author
    tool: str
    arguments: str
    key: str
    digest: str
    created: float
    deadline: float
    role: Role = Role.USER
    depends_on: tuple[str, ...] = ()
    notify: bool = True
    callback: str = ""
    process: bool = False
    state: JobState = JobState.QUEUED
    started: float | None = None
    ended: float | None = None
    progress: str = ""
    fraction: float | None = None
    summary: str = ""
    result: str = ""
    cut: int = 0
    stop: bool = False
    runs: int = 0
    purged: float | None = None


class JobEnd(msgspec.Struct, frozen=True):
    """How a job ended: a final state, one line about it, and the text that the tool gave back.

    `size` are the bytes that result and output take on disk, for who cleans up; 0: there is nothing.
    """

    state: JobState
    at: float
    summary: str = ""
    result: str = ""
    cut: int = 0
    size: int = 0


class JobAdded(msgspec.Struct, frozen=True):
    """The stored job. `fresh` is False where its address and key had one before, which is given then.

    `unknown` are ids it depends on that do not exist: nothing was stored, `job` is what was to be.
    `depends` has the state of each job it depends on, at the commit.
    """

    job: Job
    fresh: bool
    unknown: tuple[str, ...] = ()
    depends: Mapping[str, JobState] = {}


class JobEnded(msgspec.Struct, frozen=True):
    """The ended job; `fresh` is False where it had ended before, and nothing was changed.

    `entry` is its event as it was stored with the end, None where none was wanted.
    """

    job: Job
    fresh: bool
    entry: Entry | None = None


class Polled(msgspec.Struct, frozen=True):
    """A job that was looked at; `news` is False where the same was told before in this turn (J11)."""

    job: Job
    news: bool = True


class Page(msgspec.Struct, frozen=True):
    """A piece of a job's output (J10).

    `cursor` reads on after `text`; `more`: there is more to read at once. When the job has ended and
    `more` is False, all was read. `cut` bytes of the output were not kept.
    """

    job: Job
    text: str
    cursor: str
    more: bool
    cut: int = 0


class DeliveryState(enum.StrEnum):
    """Where the callback of an ended job stands."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


class Delivery(msgspec.Struct, frozen=True):
    """The callback of an ended job: `due` again at that time (seconds since 1970) after so many `attempts`.

    `said` is one line about how the last attempt went.
    """

    job: str
    due: float
    attempts: int = 0
    state: DeliveryState = DeliveryState.WAITING
    said: str = ""


Told = Callable[[Job], None]
"""Is called with a job after each change of its state; must not block or raise."""


class Jobs(Protocol):
    """An engine that runs jobs. Ids are known to callers only; who may ask is not its affair."""

    def start(self, request: JobRequest) -> Awaitable[Job]:
        """Accept a job durably, or find the one with the same address and key (J3).

        `KeyInUse`: the key has other arguments. `JobError`: no such tool, unknown dependencies.
        `StoreError`: nothing was accepted.
        """

    def status(self, id: str) -> Awaitable[Job]:
        """The job as it stands; `NoSuchJob`."""

    def stop(self, id: str, patience: float = 0.0) -> Awaitable[Job]:
        """Ask for its end (J5), wait at most `patience` seconds for it, and give its true state; `NoSuchJob`."""

    def result(self, id: str, cursor: str = "", chars: int | None = None) -> Awaitable[Page]:
        """Read its output from `cursor` on, also while it runs (J10).

        `NoSuchJob`; `ResultGone` where it was removed; `JobError` for a bad cursor.
        """

    def events(self, told: Told) -> Callable[[], None]:
        """Tell of every change of state from now on; gives what ends that."""

    def recent(self, address: Address, limit: int = 20) -> Awaitable[list[Job]]:
        """The jobs of an address, newest first: all that have not ended, and the latest others."""


class ConversationJobs(Protocol):
    """What a plugin may do with the jobs of one conversation, on behalf of one person.

    In a turn it also knows what the model was told in this turn (J7, J11). `JobError` says what is
    wrong in words for the model or the person.
    """

    async def start(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        key: str,
        deadline: float | None = None,
        depends_on: Sequence[str] = (),
    ) -> Job:
        """Start the async tool of this name, or find the job that was started with this key (J3)."""

    async def status(self, id: str) -> Polled:
        """Look at a job."""

    async def result(self, id: str, cursor: str = "") -> Page:
        """Read its output, a page at a time, also while it runs (J10)."""

    async def stop(self, id: str) -> Job:
        """Ask for its end and wait a little for it; gives its true state then (J5, E6)."""

    async def list(self, limit: int = 20) -> list[Job]:
        """The jobs of this conversation: all that have not ended, then the latest others, newest first."""


class TurnJobs(ConversationJobs, Protocol):
    """The same with its memory of one turn."""

    @property
    def told(self) -> AbstractSet[str]:
        """Ids of the jobs whose final state was given out through this value (J7)."""


class NoJobs:
    """`TurnJobs` where nothing can run jobs."""

    told: AbstractSet[str] = frozenset()

    async def start(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        key: str,
        deadline: float | None = None,
        depends_on: Sequence[str] = (),
    ) -> Job:
        """Refused."""
        raise JobError("Jobs cannot be started here.")

    async def status(self, id: str) -> Polled:
        """There is none."""
        raise JobError("There are no jobs here.")

    async def result(self, id: str, cursor: str = "") -> Page:
        """There is none."""
        raise JobError("There are no jobs here.")

    async def stop(self, id: str) -> Job:
        """There is none."""
        raise JobError("There are no jobs here.")

    async def list(self, limit: int = 20) -> list[Job]:
        """None."""
        return []


# ---- names


def job_id(address: Address, key: str) -> str:
    """The id of the job with this key: made from it, so that a retry finds the same one in any engine."""
    digest = hashlib.blake2b(f"{address}\0{key}".encode("utf-8", "surrogatepass"), digest_size=10).digest()
    return f"j{base64.b32encode(digest).decode().lower()[:12]}"


def fingerprint(request: JobRequest) -> str:
    """What must be the same for the same key (J3)."""
    kept = (request.tool, request.arguments, request.deadline, request.depends_on, request.callback)
    return hashlib.blake2b(msgspec.json.encode(kept, order="deterministic"), digest_size=12).hexdigest()


def one_line(text: str) -> str:
    """`text` as one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _LINE else f"{line[: _LINE - 1]}…"


# ---- events


def event(job: Job) -> Entry:
    """The entry that tells a conversation of the end of `job` (J7); its `quote` is what was started (T7)."""
    name = "completed" if job.state is JobState.DONE else job.state.value
    lines = [
        f"[event] job_{name} job_id={job.id} tool=start_{job.tool} status={job.state.value}",
        f"summary: {job.summary}",
        f'details: {RESULT_TOOL}(job_id="{job.id}")',
    ]
    return Entry(
        f"job:{job.id}:{job.state.value}",
        job.address,
        job.starter,
        "\n".join(lines),
        When.EVENT,
        quote=one_line(f"start_{job.tool} {job.arguments}"),
        arrived=job.ended or 0.0,
    )


def event_job(entry_id: str) -> str | None:
    """The id of the job whose event has this entry id."""
    match = _EVENT_ID.fullmatch(entry_id)
    return match[1] if match else None
