"""SQLiteStore: the store of a real run, durable at each acknowledgement (`synchronous=FULL`).

`threads` says how it works, `writes` and `rows` what is asked of the database, `schema` how it looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hermes_core.errors import StoreError
from hermes_core.job import Delivery, Job, JobAdded, JobEnd, JobEnded
from hermes_core.messages import Address, Entry, EntryState, Item, Outgoing, Step, TurnRecord, When
from hermes_core.store import Admission, ConversationRecord, Ending, OpenWork, jobs, rows
from hermes_core.store.threads import Writer
from hermes_core.store.writes import Writes

__all__ = ["SQLiteStore"]


class SQLiteStore:
    """`Store` in `folder/hermes.db`; made with `open`, and used from the event loop that opened it.

    Each call is queued at once, in the order of the calls, also if its result is never awaited. A
    failure is logged once and raised to whoever awaits; nobody has to.
    """

    def __init__(self, writer: Writer, loop: asyncio.AbstractEventLoop) -> None:
        self._writer = writer
        self._put = writer.tasks.put
        self._future: Callable[[], asyncio.Future[Any]] = loop.create_future
        self._closing = False

    @classmethod
    async def open(cls, folder: Path) -> SQLiteStore:
        """Take the folder (made with mode 0700 if it is not there) and bring its database up to date.

        `StoreInUse`: another process, or this one, has it. `StoreUnwritable`: nothing can be written
        there. `StoreError`: damaged, or written by a later version. If cancelled, or on any of these,
        the folder is let go of.
        """
        loop = asyncio.get_running_loop()
        writer = Writer(folder, loop)
        writer.start()
        try:
            await asyncio.shield(writer.opened)
        except asyncio.CancelledError:
            writer.tasks.put(None)
            raise
        except StoreError:
            await asyncio.shield(writer.closed)  # so that who tries again does not meet this very attempt
            raise
        return cls(writer, loop)

    @property
    def commits(self) -> int:
        """Transactions committed since the opening: how well writes were gathered."""
        return self._writer.commits

    # -- entries

    def admit(self, entry: Entry) -> asyncio.Future[Admission]:
        return self._write(Writes.admit, entry)

    def amend(self, entry: Entry) -> asyncio.Future[bool]:
        return self._write(Writes.amend, entry)

    def settle(
        self, address: Address, ids: Sequence[str], state: EntryState, outgoing: Outgoing | None = None
    ) -> asyncio.Future[None]:
        return self._write(Writes.settle, address, tuple(ids), state, outgoing)

    # -- turns

    def start_turn(
        self, address: Address, turn: int, items: Sequence[Item], entries: Sequence[str]
    ) -> asyncio.Future[None]:
        return self._write(Writes.start_turn, address, turn, tuple(items), tuple(entries))

    def plan(self, address: Address, turn: int, step: Step) -> asyncio.Future[None]:
        return self._write(Writes.plan, address, turn, step)

    def append(
        self, address: Address, turn: int, items: Sequence[Item], entries: Sequence[str] = ()
    ) -> asyncio.Future[None]:
        return self._write(Writes.append, address, turn, tuple(items), tuple(entries))

    def halt(self, address: Address, turn: int) -> asyncio.Future[None]:
        return self._write(Writes.halt, address, turn)

    def finish(self, ending: Ending) -> asyncio.Future[None]:
        return self._write(Writes.finish, ending)

    # -- conversations

    def conversation(self, address: Address) -> asyncio.Future[ConversationRecord]:
        return self._read(rows.record_of, address)

    def conversations(self) -> asyncio.Future[list[ConversationRecord]]:
        return self._read(rows.conversations)

    def history(self, address: Address) -> asyncio.Future[list[TurnRecord]]:
        return self._read(rows.history, address)

    def reset(self, address: Address) -> asyncio.Future[ConversationRecord]:
        return self._write(Writes.reset, address)

    def set_busy(self, address: Address, busy: When | None) -> asyncio.Future[None]:
        return self._write(Writes.set_busy, address, busy)

    def replies(self, address: Address, numbers: Sequence[int]) -> asyncio.Future[dict[int, str]]:
        return self._read(rows.replies, address, tuple(numbers))

    def text_of(self, address: Address, platform_id: str) -> asyncio.Future[str | None]:
        return self._read(rows.text_of, address, platform_id)

    def waiting(self, address: Address) -> asyncio.Future[list[Entry]]:
        return self._read(rows.waiting, address)

    def notes(self, address: Address) -> asyncio.Future[list[Entry]]:
        return self._read(rows.notes, address)

    def open_work(self) -> asyncio.Future[list[OpenWork]]:
        return self._read(rows.open_work)

    # -- outbox

    def post(self, outgoing: Outgoing) -> asyncio.Future[bool]:
        return self._write(Writes.post, outgoing)

    def sending(self, key: str) -> asyncio.Future[None]:
        return self._write(Writes.sending, key)

    def sent(self, key: str, platform_ids: Sequence[str] = ()) -> asyncio.Future[None]:
        return self._write(Writes.sent, key, tuple(platform_ids))

    def unsent(self, key: str) -> asyncio.Future[None]:
        return self._write(Writes.unsent, key)

    def undeliverable(self, key: str, reason: str) -> asyncio.Future[None]:
        return self._write(Writes.undeliverable, key, reason)

    # -- jobs

    def add_job(self, job: Job) -> asyncio.Future[JobAdded]:
        return self._write(jobs.add, job)

    def run_job(self, id: str, at: float, runs: int) -> asyncio.Future[bool]:
        return self._write(jobs.run, id, at, runs)

    def note_job(self, id: str, progress: str, fraction: float | None) -> asyncio.Future[None]:
        return self._write(jobs.note, id, progress, fraction)

    def stop_job(self, id: str) -> asyncio.Future[bool]:
        return self._write(jobs.stop, id)

    def end_job(self, id: str, end: JobEnd, entry: Entry | None = None) -> asyncio.Future[JobEnded]:
        return self._write(jobs.end, id, end, entry)

    def job(self, id: str) -> asyncio.Future[Job | None]:
        return self._read(jobs.one, id)

    def jobs(
        self, address: Address | None = None, *, limit: int = 100, final: bool | None = None
    ) -> asyncio.Future[list[Job]]:
        return self._read(jobs.latest, address, limit, final)

    def open_jobs(self) -> asyncio.Future[list[Job]]:
        return self._read(jobs.unfinished)

    def purge_jobs(self, before: float, limit: int, at: float) -> asyncio.Future[list[str]]:
        return self._write(jobs.purge, before, limit, at)

    def purged_jobs(self) -> asyncio.Future[list[str]]:
        return self._read(jobs.purged)

    def forget_outputs(self, ids: Sequence[str]) -> asyncio.Future[None]:
        return self._write(jobs.forget, tuple(ids))

    def note_delivery(self, delivery: Delivery) -> asyncio.Future[None]:
        return self._write(jobs.delivered, delivery)

    def open_deliveries(self) -> asyncio.Future[list[Delivery]]:
        return self._read(jobs.deliveries)

    def delivery(self, job: str) -> asyncio.Future[Delivery | None]:
        return self._read(jobs.delivery, job)

    async def close(self) -> None:
        """Commit what is queued, then let the folder go; a second call waits for the first.

        Cancelling the wait takes nothing back: the folder is let go of all the same.
        """
        if not self._closing:
            self._closing = True
            self._put(None)
        await asyncio.shield(self._writer.closed)

    def _write(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        return self._queue(True, function, args)

    def _read(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        return self._queue(False, function, args)

    def _queue(
        self, writes: bool, function: Callable[..., Any], args: tuple[Any, ...]
    ) -> asyncio.Future[Any]:
        if self._closing:
            raise StoreError("The store is closed.")
        future = self._future()
        self._put((writes, function, args, future))
        return future
