"""Every read of the SQLite store, and how rows become values.

Each function runs inside one read transaction, so what it gives belongs together.
"""

from __future__ import annotations

import functools
import itertools
import logging
import operator
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from hermes_core.messages import Address, Entry, Item, Outgoing, Step, TurnEnd, TurnRecord, When
from hermes_core.store import ConversationRecord, Ending, OpenTurn, OpenWork

__all__ = [
    "conversations",
    "decode_entry",
    "final_text",
    "history",
    "open_work",
    "record_of",
    "replies",
    "waiting",
]

log = logging.getLogger("hermes.store")
_T = TypeVar("_T")

# Made once: to build a decoder for a union costs more than to decode an item with it.
_ENTRY: Final = msgspec.json.Decoder(Entry)
_ITEM: Final[msgspec.json.Decoder[Item]] = msgspec.json.Decoder(Item)
_ITEMS: Final = msgspec.json.Decoder(tuple[Item, ...])
_STEP: Final = msgspec.json.Decoder(Step)
_OUTGOING: Final = msgspec.json.Decoder(Outgoing)

_RECORDS: Final = "SELECT address, epoch, turns, replies, context_from, busy FROM conversations "


def decode_entry(seq: int, body: str) -> Entry:
    """The entry of a row; its place in the order is the row's."""
    return msgspec.structs.replace(_ENTRY.decode(body), seq=seq)


def final_text(ending: Ending) -> str | None:
    """What `replies` gives for this ending: the text as it was sent, else that of the last step."""
    if ending.reply is None:
        return None
    if ending.outgoing is not None:
        return ending.outgoing.text
    return next((item.text for item in reversed(ending.items) if isinstance(item, Step)), "")


def _record(row: Sequence[Any]) -> ConversationRecord:
    address, epoch, turns, number, context_from, busy = row
    return ConversationRecord(
        Address.parse(address), epoch, turns, number, context_from, None if busy is None else When(busy)
    )


def record_of(connection: sqlite3.Connection, address: Address) -> ConversationRecord:
    row = connection.execute(_RECORDS + "WHERE address = ?", (str(address),)).fetchone()
    return ConversationRecord(address) if row is None else _record(row)


def conversations(connection: sqlite3.Connection) -> list[ConversationRecord]:
    rows = connection.execute(_RECORDS + "ORDER BY address")
    return [_record(row) for row in rows]


def history(connection: sqlite3.Connection, address: Address) -> list[TurnRecord]:
    rows = connection.execute(
        "SELECT turns.number, turns.items, turns.end, turns.reply FROM conversations"
        " JOIN turns ON turns.conversation = conversations.id AND turns.epoch = conversations.epoch"
        " WHERE conversations.address = ? AND turns.number >= conversations.context_from AND turns.end IS NOT NULL"
        " ORDER BY turns.number",
        (str(address),),
    )
    # One decode per turn: between two of them the event loop's thread may go on.
    return [
        TurnRecord(number, _ITEMS.decode(items), TurnEnd(end), reply) for number, items, end, reply in rows
    ]


def replies(connection: sqlite3.Connection, address: Address, numbers: Sequence[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for number in numbers:
        row = connection.execute(
            "SELECT final FROM turns WHERE conversation = (SELECT id FROM conversations WHERE address = ?)"
            " AND reply = ?",
            (str(address), number),
        ).fetchone()
        if row is not None:
            found[number] = row[0]
    return found


def text_of(connection: sqlite3.Connection, address: Address, platform_id: str) -> str | None:
    row = connection.execute(
        "SELECT body FROM outbox JOIN platform_messages ON platform_messages.outbox = outbox.seq"
        " WHERE platform_messages.conversation = (SELECT id FROM conversations WHERE address = ?)"
        " AND platform_messages.id = ?",
        (str(address), platform_id),
    ).fetchone()
    return None if row is None else _OUTGOING.decode(row[0]).text


def waiting(connection: sqlite3.Connection, address: Address) -> list[Entry]:
    rows = connection.execute(
        "SELECT seq, body FROM entries WHERE conversation = (SELECT id FROM conversations WHERE address = ?)"
        " AND turn IS NULL AND state = 'waiting' ORDER BY seq",
        (str(address),),
    )
    return [decode_entry(seq, body) for seq, body in rows]


def notes(connection: sqlite3.Connection, address: Address) -> list[Entry]:
    rows = connection.execute(
        "SELECT seq, body FROM entries WHERE conversation = (SELECT id FROM conversations WHERE address = ?)"
        " AND state = 'waiting' AND turn IS NULL AND note = 1 ORDER BY seq",
        (str(address),),
    )
    return [decode_entry(seq, body) for seq, body in rows]


def open_work(connection: sqlite3.Connection) -> list[OpenWork]:
    """Reads the three partial indexes from end to end, and nothing that is finished or a waiting note.

    A row that cannot be read is named in the log and left where it is: one bad row must not keep every
    conversation from its start. A turn with such a row is ended, because nobody knows what it ran.
    """
    entries: dict[int, list[Entry]] = {}
    for conversation, seq, body in connection.execute(
        "SELECT conversation, seq, body FROM entries"
        " WHERE state = 'waiting' AND turn IS NULL AND note = 0 ORDER BY conversation, seq"
    ):
        entry = _readable(functools.partial(decode_entry, seq), body, f"entry {seq}")
        if entry is not None:
            entries.setdefault(conversation, []).append(entry)
    outbox = _grouped(
        connection.execute(
            "SELECT conversation, seq, state, body FROM outbox WHERE state IN ('waiting', 'sending')"
            " ORDER BY conversation, seq"
        )
    )
    running = {
        conversation: _open_turn(connection, conversation, number, planned, halted)
        for conversation, number, planned, halted in connection.execute(
            "SELECT conversation, number, planned, halted FROM turns WHERE end IS NULL ORDER BY conversation"
        ).fetchall()
    }
    found = [
        _work(connection, conversation, entries.get(conversation, ()), running.get(conversation), outbox)
        for conversation in entries.keys() | running.keys() | outbox.keys()
    ]
    return sorted(found, key=lambda work: str(work.conversation.address))


def _readable(read: Callable[[str], _T], body: str, what: str) -> _T | None:
    try:
        return read(body)
    except msgspec.MsgspecError as error:
        log.error("the stored %s cannot be read and is left out: %s", what, error)
        return None


def _grouped(rows: Iterable[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    return {key: [row[1:] for row in group] for key, group in itertools.groupby(rows, operator.itemgetter(0))}


def _open_turn(
    connection: sqlite3.Connection,
    conversation: int,
    number: int,
    planned: str | None,
    halted: int,
) -> OpenTurn:
    taken = connection.execute(
        "SELECT seq, body FROM entries WHERE conversation = ? AND turn = ? AND state = 'waiting' ORDER BY seq",
        (conversation, number),
    )
    entries = [
        entry
        for seq, body in taken
        if (entry := _readable(functools.partial(decode_entry, seq), body, f"entry {seq}")) is not None
    ]
    items = connection.execute(
        "SELECT body FROM running_items WHERE conversation = ? ORDER BY position", (conversation,)
    )
    kept = [_readable(_ITEM.decode, body, f"item of turn {number}") for (body,) in items]
    record = TurnRecord(number, tuple(item for item in kept if item is not None))
    plan = None if planned is None else _readable(_STEP.decode, planned, f"plan of turn {number}")
    whole = None not in kept and (planned is None or plan is not None)
    return OpenTurn(record, tuple(entries), plan, bool(halted) or not whole)


def _work(
    connection: sqlite3.Connection,
    conversation: int,
    entries: Sequence[Entry],
    turn: OpenTurn | None,
    outbox: dict[int, list[tuple[Any, ...]]],
) -> OpenWork:
    row = connection.execute(_RECORDS + "WHERE id = ?", (conversation,)).fetchone()
    unsent = [
        (state, msgspec.structs.replace(outgoing, seq=seq))
        for seq, state, body in outbox.get(conversation, ())
        if (outgoing := _readable(_OUTGOING.decode, body, f"message {seq}")) is not None
    ]
    return OpenWork(
        _record(row),
        tuple(entries),
        turn,
        tuple(outgoing for _, outgoing in unsent),
        frozenset(outgoing.key for state, outgoing in unsent if state == "sending"),
    )
