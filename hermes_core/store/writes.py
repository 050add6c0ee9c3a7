"""Every write of the SQLite store, as it happens inside the writer's transaction.

A write is one method. Where it is a single statement, SQLite takes that statement back if it fails;
where it is several, `atomic` puts a savepoint around them. So a write that fails leaves nothing
behind, and its neighbours in the same transaction stand.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

import msgspec

from hermes_core.errors import StoreError
from hermes_core.messages import Address, Entry, EntryState, Item, Outgoing, Step, When, encode
from hermes_core.store import Admission, ConversationRecord, Ending
from hermes_core.store.rows import decode_entry, final_text, record_of

__all__ = ["Writes"]

_M = TypeVar("_M", bound=Callable[..., Any])

_KNOWN_IDS: Final = 50_000  # conversations whose row id is kept in memory


def atomic(method: _M) -> _M:
    """All statements of `method`, or none: a savepoint around it. These do not nest."""

    @functools.wraps(method)
    def guarded(self: Writes, *args: Any) -> Any:
        self.cursor.execute("SAVEPOINT one")
        try:
            result = method(self, *args)
            self.cursor.execute("RELEASE one")
        except BaseException:
            self.take_back()
            raise
        return result

    return cast("_M", guarded)


class Writes:
    """The writes, on one connection that is inside a transaction while they run."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.cursor = connection.cursor()
        self._ids: dict[Address, int] = {}

    def forget(self) -> None:
        """The transaction was rolled back: what was known from within it may not be so."""
        self._ids.clear()

    def take_back(self) -> None:
        """Undo to the savepoint; where not even that works, give up the whole transaction."""
        self.forget()
        if not self.connection.in_transaction:
            return  # SQLite has rolled everything back by itself
        try:
            self.cursor.execute("ROLLBACK TO one")
            self.cursor.execute("RELEASE one")
        except sqlite3.Error:
            self.connection.rollback()

    # -- entries

    def admit(self, entry: Entry) -> Admission:
        conversation = self._ids.get(entry.address)
        if conversation is None:
            return self._admit_first(entry)
        return self._admit(conversation, entry)

    @atomic
    def _admit_first(self, entry: Entry) -> Admission:
        return self.admit_within(entry)

    def admit_within(self, entry: Entry) -> Admission:
        """`admit` as a part of a larger write; only inside `atomic`."""
        return self._admit(self._conversation(entry.address), entry)

    def _admit(self, conversation: int, entry: Entry) -> Admission:
        cursor = self.cursor.execute(
            "INSERT INTO entries (conversation, id, note, body) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (conversation, id) DO NOTHING",
            (conversation, entry.id, _starts_nothing(entry), encode(entry)),
        )
        if cursor.rowcount:
            assert cursor.lastrowid is not None
            return Admission(msgspec.structs.replace(entry, seq=cursor.lastrowid), fresh=True)
        seq, body = cursor.execute(
            "SELECT seq, body FROM entries WHERE conversation = ? AND id = ?", (conversation, entry.id)
        ).fetchone()
        return Admission(decode_entry(seq, body), fresh=False)

    def amend(self, entry: Entry) -> bool:
        row = self.cursor.execute(
            "SELECT seq, body FROM entries WHERE conversation = (SELECT id FROM conversations WHERE address = ?)"
            " AND id = ? AND state = 'waiting' AND turn IS NULL",
            (str(entry.address), entry.id),
        ).fetchone()
        if row is None:
            return False
        seq, body = row
        amended = msgspec.structs.replace(
            decode_entry(seq, body),
            text=entry.text,
            attachments=entry.attachments,
            when=entry.when,
            quote=entry.quote,
            parked=entry.parked,
        )
        self.cursor.execute(
            "UPDATE entries SET body = ?, note = ? WHERE seq = ?",
            (encode(amended), _starts_nothing(amended), seq),
        )
        return True

    @atomic
    def settle(
        self, address: Address, ids: Sequence[str], state: EntryState, outgoing: Outgoing | None
    ) -> None:
        if state is EntryState.WAITING:
            raise StoreError("An entry can only be settled as used, handled, refused or cancelled.")
        known = self._find(address)
        if known is not None:
            self.cursor.executemany(
                "UPDATE entries SET state = ? WHERE conversation = ? AND id = ? AND state = 'waiting' AND turn IS NULL",
                ((state.value, known, id_) for id_ in ids),
            )
        if outgoing is not None:
            self._post(outgoing)

    # -- turns

    @atomic
    def start_turn(self, address: Address, turn: int, items: Sequence[Item], entries: Sequence[str]) -> None:
        conversation = self._conversation(address)
        self.cursor.execute(
            "UPDATE conversations SET turns = ? WHERE id = ? AND turns < ?", (turn, conversation, turn)
        )
        if not self.cursor.rowcount:
            raise StoreError(f"Turn {turn} cannot start: a later one, or itself, was started before.")
        if self._running(conversation) is not None:
            raise StoreError(f"Turn {turn} cannot start: another one runs in this conversation.")
        self.cursor.execute(
            "INSERT INTO turns (conversation, epoch, number)"
            " SELECT id, epoch, turns FROM conversations WHERE id = ?",
            (conversation,),
        )
        self._add_items(conversation, items)
        self._take(conversation, turn, entries)

    def plan(self, address: Address, turn: int, step: Step) -> None:
        self.cursor.execute(
            "UPDATE turns SET planned = ? WHERE conversation = ? AND number = ? AND end IS NULL",
            (encode(step), self._find(address), turn),
        )
        if not self.cursor.rowcount:
            raise _not_running(turn)

    @atomic
    def append(self, address: Address, turn: int, items: Sequence[Item], entries: Sequence[str]) -> None:
        conversation, _ = self._must_run(address, turn)
        if items:
            self._add_items(conversation, items)
            self.cursor.execute(
                "UPDATE turns SET planned = NULL WHERE conversation = ? AND end IS NULL", (conversation,)
            )
        self._take(conversation, turn, entries)

    def halt(self, address: Address, turn: int) -> None:
        self.cursor.execute(
            "UPDATE turns SET halted = 1 WHERE conversation = ? AND number = ? AND end IS NULL",
            (self._find(address), turn),
        )

    @atomic
    def finish(self, ending: Ending) -> None:
        turn = ending.turn
        conversation, epoch = self._must_run(ending.address, turn)
        if ending.reply is not None:
            self._count_reply(conversation, ending.reply)
        self.cursor.execute("DELETE FROM running_items WHERE conversation = ?", (conversation,))
        self.cursor.execute(
            "UPDATE turns SET end = ?, reply = ?, final = ?, items = ?, planned = NULL"
            " WHERE conversation = ? AND end IS NULL",
            (ending.end.value, ending.reply, final_text(ending), encode(ending.items), conversation),
        )
        self.cursor.executemany(
            "UPDATE entries SET state = 'used', turn = ? WHERE conversation = ? AND id = ? AND state = 'waiting'",
            ((turn, conversation, id_) for id_ in ending.used),
        )
        self.cursor.execute(
            "UPDATE entries SET turn = NULL WHERE conversation = ? AND turn = ? AND state = 'waiting'",
            (conversation, turn),
        )
        if ending.context_from is not None:
            self.cursor.execute(
                "UPDATE conversations SET context_from = ? WHERE id = ? AND epoch = ?",
                (ending.context_from, conversation, epoch),
            )
        if ending.outgoing is not None:
            self._post(ending.outgoing)

    def _count_reply(self, conversation: int, reply: int) -> None:
        self.cursor.execute(
            "UPDATE conversations SET replies = ? WHERE id = ? AND replies < ?", (reply, conversation, reply)
        )
        if not self.cursor.rowcount:
            raise StoreError(f"Reply {reply} is there already.")

    # -- conversations

    @atomic
    def reset(self, address: Address) -> ConversationRecord:
        conversation = self._conversation(address)
        self.cursor.execute("UPDATE conversations SET epoch = epoch + 1 WHERE id = ?", (conversation,))
        return record_of(self.connection, address)

    @atomic
    def set_busy(self, address: Address, busy: When | None) -> None:
        self.cursor.execute(
            "UPDATE conversations SET busy = ? WHERE id = ?",
            (None if busy is None else busy.value, self._conversation(address)),
        )

    # -- outbox

    @atomic
    def post(self, outgoing: Outgoing) -> bool:
        return self._post(outgoing)

    def sending(self, key: str) -> None:
        self.cursor.execute("UPDATE outbox SET state = 'sending' WHERE key = ? AND state = 'waiting'", (key,))

    @atomic
    def sent(self, key: str, platform_ids: Sequence[str]) -> None:
        self.cursor.execute(
            "UPDATE outbox SET state = 'sent', platform_ids = ? WHERE key = ? AND state IN ('waiting', 'sending')",
            (encode(platform_ids), key),
        )
        if self.cursor.rowcount and platform_ids:
            self.cursor.executemany(
                "INSERT OR REPLACE INTO platform_messages (conversation, id, outbox)"
                " SELECT conversation, ?, seq FROM outbox WHERE key = ?",
                ((id_, key) for id_ in platform_ids),
            )

    def unsent(self, key: str) -> None:
        self.cursor.execute("UPDATE outbox SET state = 'waiting' WHERE key = ? AND state = 'sending'", (key,))

    def undeliverable(self, key: str, reason: str) -> None:
        self.cursor.execute(
            "UPDATE outbox SET state = 'undeliverable', reason = ? WHERE key = ? AND state IN ('waiting', 'sending')",
            (reason, key),
        )

    # -- parts

    def _find(self, address: Address) -> int | None:
        """The row of this conversation, if there is one."""
        known = self._ids.get(address)
        if known is None:
            row = self.cursor.execute(
                "SELECT id FROM conversations WHERE address = ?", (str(address),)
            ).fetchone()
            if row is None:
                return None
            known = self._remember(address, row[0])
        return known

    def _conversation(self, address: Address) -> int:
        """The row of this conversation, made if need be; only inside `atomic`."""
        known = self._find(address)
        if known is None:
            self.cursor.execute("INSERT INTO conversations (address) VALUES (?)", (str(address),))
            assert self.cursor.lastrowid is not None
            known = self._remember(address, self.cursor.lastrowid)
        return known

    def _remember(self, address: Address, row: int) -> int:
        if len(self._ids) >= _KNOWN_IDS:
            self._ids.clear()
        self._ids[address] = row
        return row

    def _running(self, conversation: int | None) -> tuple[int, int] | None:
        """Number and epoch of the turn that runs here."""
        row: tuple[int, int] | None = self.cursor.execute(
            "SELECT number, epoch FROM turns WHERE conversation = ? AND end IS NULL", (conversation,)
        ).fetchone()
        return row

    def _must_run(self, address: Address, turn: int) -> tuple[int, int]:
        """Row of the conversation and epoch of the turn; `StoreError` where this turn does not run."""
        conversation = self._find(address)
        running = self._running(conversation)
        if conversation is None or running is None or running[0] != turn:
            raise _not_running(turn)
        return conversation, running[1]

    def _add_items(self, conversation: int, items: Sequence[Item]) -> None:
        self.cursor.executemany(
            "INSERT INTO running_items (conversation, body) VALUES (?, ?)",
            ((conversation, encode(item)) for item in items),
        )

    def _take(self, conversation: int, turn: int, entries: Sequence[str]) -> None:
        self.cursor.executemany(
            "UPDATE entries SET turn = ? WHERE conversation = ? AND id = ? AND state = 'waiting' AND turn IS NULL",
            ((turn, conversation, id_) for id_ in entries),
        )

    def _post(self, outgoing: Outgoing) -> bool:
        conversation = self._ids.get(outgoing.address)
        if conversation is None:
            if self.cursor.execute("SELECT 1 FROM outbox WHERE key = ?", (outgoing.key,)).fetchone():
                return False  # and no conversation is made for it
            conversation = self._conversation(outgoing.address)
        self.cursor.execute(
            "INSERT INTO outbox (key, conversation, body) VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING",
            (outgoing.key, conversation, encode(outgoing)),
        )
        return bool(self.cursor.rowcount)


def _not_running(turn: int) -> StoreError:
    return StoreError(f"Turn {turn} does not run in this conversation.")


def _starts_nothing(entry: Entry) -> bool:
    """It is read with its conversation, not at a start."""
    return entry.parked or entry.when is When.AT_REPLY
