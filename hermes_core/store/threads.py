"""The two threads of the SQLite store: one that writes, one that reads.

Theory of operation. What is asked for goes into one queue, in the order of the calls. The writer
takes all that waits there, runs the writes in one transaction (a group commit), hands the reads of
the same batch to the reader, and takes what came meanwhile. It never waits for a batch to grow: a
lone write is committed at once, and while a commit waits for the disk the next batch gathers by
itself. All results of a batch reach the event loop in one call, in order.

A read runs after the batch in which it stands, on a connection of the reader's own. So it sees every
write that was queued before it (and possibly a later one, but never a part of one), works while the
disk is full, and the writers never wait for a long history.

A write that does not fit (a constraint, bad data) fails alone. A fault of the disk or file fails the
whole batch: the transaction is rolled back, everyone hears of it once, and the next call tries anew.
Nothing is tried again on its own account, so nothing spins (D7). The writer keeps its connection: a
new one might recover, from a log that could not be flushed, what everyone was told had failed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from hermes_core.errors import StoreError
from hermes_core.store.faults import breaks_batch, translate
from hermes_core.store.lock import FolderLock
from hermes_core.store.schema import migrate
from hermes_core.store.writes import Writes

__all__ = ["Reader", "Task", "Writer"]

_log: Final = logging.getLogger(__name__)

_BATCH: Final = 1024  # calls; so that the first of a flood does not wait for the last
_BUSY: Final = 0.25  # seconds to wait for another program's lock before it is reported

Task = tuple[bool, Callable[..., Any], tuple[Any, ...], "asyncio.Future[Any]"]
"""Whether it writes, a method of `Writes` or a function of `rows`, its arguments, who waits."""

_Outcome = tuple["asyncio.Future[Any]", Any, BaseException | None]


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_BUSY, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA temp_store = MEMORY")  # no other file that could meet a full disk
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        connection.execute("PRAGMA cache_size = -16384")
    except BaseException:
        connection.close()
        raise
    return connection


def _deliver(outcomes: Iterable[_Outcome]) -> None:
    for future, value, error in outcomes:
        if future.done():
            continue  # its await was cancelled; the write stands
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
            future.exception()  # it is in the log: asyncio need not complain if nobody awaits it


def _report(what: str, error: BaseException, level: int = logging.WARNING) -> None:
    """One line for what people can do something about; with the place in the code for what they cannot."""
    expected = isinstance(error, StoreError | OSError) or breaks_batch(error)
    code = getattr(error, "sqlite_errorname", type(error).__name__)
    level = level if expected else logging.WARNING
    _log.log(level, "%s: %s (%s)", what, error, code, exc_info=None if expected else error)


class _Worker:
    """A thread with a queue of tasks; `None` ends it."""

    def __init__(self, name: str, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._path = path
        self._loop = loop
        # A daemon: a program that dies without closing its store must not hang on it.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        raise NotImplementedError

    def _tell(self, call: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:
            _log.warning(
                "The event loop was closed before its store; what was queued is committed all the same."
            )


class Reader(_Worker):
    """Runs reads one after the other, each in a transaction of its own."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__("hermes-store-reader", path, loop)
        self._connection: sqlite3.Connection | None = None

    def _run(self) -> None:
        while (task := self.tasks.get()) is not None:
            _, function, args, future = task
            value, error = self._read(function, args)
            self._tell(_deliver, ((future, value, error),))
            del task, function, args, future, value, error
        self._close()

    def _read(self, function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, StoreError | None]:
        try:
            if self._connection is None:
                self._connection = _connect(self._path)
            self._connection.execute("BEGIN")
            value = function(self._connection, *args)
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - not swallowed: it goes to who awaits, and the thread lives on
            _report("A read failed", error)
            self._close()
            return None, translate(error)
        return value, None

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class Writer(_Worker):
    """Has the folder's lock, the only connection that writes, and the reader."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__("hermes-store-writer", folder / "hermes.db", loop)
        self.opened: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.commits = 0
        self._folder = folder
        self._reader = Reader(self._path, loop)
        self._writes: Writes | None = None

    def _run(self) -> None:
        lock: FolderLock | None = None
        try:
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = FolderLock(self._folder)
                # Made here, because SQLite would make it, and the files beside it, readable for others.
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
                migrate(self._connected().connection)
            except (OSError, sqlite3.Error, StoreError) as error:
                # whoever opens it is told; above it stands the one line that a person reads
                _report(f"{self._folder} could not be opened as a store", error, logging.INFO)
                self._tell(_deliver, ((self.opened, None, translate(error)),))
                return
            self._reader.start()
            self._tell(_deliver, ((self.opened, None, None),))
            while self._round():
                pass
            self._reader.join()
        finally:
            self._disconnect()
            if lock is not None:
                lock.release()
            self._tell(_deliver, ((self.closed, None, None),))

    def _round(self) -> bool:
        """One batch, and whether another may follow. Afterwards the idle thread keeps nobody's words in memory."""
        batch, last = self._take()
        writes = [task for task in batch if task[0]]
        if writes:
            self._tell(_deliver, self._commit(writes))
        for task in batch:
            if not task[0]:
                self._reader.tasks.put(task)
        if last:
            self._reader.tasks.put(None)
        return not last

    def _take(self) -> tuple[list[Task], bool]:
        """All that waits, at least one; and whether nothing will follow."""
        batch: list[Task] = []
        get = self.tasks.get
        task = get()
        try:
            while task is not None:
                batch.append(task)
                if len(batch) == _BATCH:
                    return batch, False
                task = get(block=False)
        except queue.Empty:
            return batch, False
        return batch, True

    def _commit(self, batch: list[Task]) -> list[_Outcome]:
        """Run these writes in one transaction. A fault of the disk is the fault of all of them."""
        outcomes: list[_Outcome] = []
        refused: Exception | None = None
        try:
            writes = self._connected()
            writes.cursor.execute("BEGIN IMMEDIATE")
            for _, function, args, future in batch:
                try:
                    outcomes.append((future, function(writes, *args), None))
                except Exception as error:  # not swallowed: it goes to who awaits, the others go on
                    if breaks_batch(error) or not writes.connection.in_transaction:
                        raise
                    outcomes.append((future, None, translate(error)))
                    refused = error
            writes.cursor.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - the same for all of them
            self._roll_back()
            _report(f"{len(batch)} writes failed", error)
            return [(future, None, translate(error)) for *_, future in batch]
        self.commits += 1
        if refused is not None:
            count = sum(error is not None for *_, error in outcomes)
            _report(f"{count} of {len(batch)} writes were refused, this one last", refused)
        return outcomes

    def _roll_back(self) -> None:
        if self._writes is None:
            return  # not even a connection came about
        self._writes.forget()
        try:
            if self._writes.connection.in_transaction:
                self._writes.connection.rollback()
        except sqlite3.Error:
            self._disconnect()  # which takes back what is open

    def _connected(self) -> Writes:
        if self._writes is None:
            self._writes = Writes(_connect(self._path))
        return self._writes

    def _disconnect(self) -> None:
        writes, self._writes = self._writes, None
        if writes is not None:
            writes.connection.close()
