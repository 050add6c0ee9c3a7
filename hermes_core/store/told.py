"""Told: what was said in a conversation, read for the command line beside the program that has the database."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

import msgspec

from hermes_core.messages import Address, Entry, Item, Outgoing
from hermes_core.store import ConversationRecord
from hermes_core.store.rows import decode_entry, notes, record_of, waiting

__all__ = ["Summary", "Told", "ToldTurn", "summaries", "told"]

_ITEM: Final[msgspec.json.Decoder[Item]] = msgspec.json.Decoder(Item)
_ITEMS: Final = msgspec.json.Decoder(tuple[Item, ...])
_OUTGOING: Final = msgspec.json.Decoder(Outgoing)


class Summary(msgspec.Struct, frozen=True):
    """A conversation in one line: counts, and when its latest entry came in (seconds since 1970)."""

    address: Address
    replies: int
    turns: int
    running: bool
    waiting: int
    notes: int
    unsent: int
    last: float | None = None


class ToldTurn(msgspec.Struct, frozen=True):
    """A turn with the entries that it used; `epoch` counts /new. `end` is None while it runs."""

    epoch: int
    number: int
    end: str | None
    reply: int | None
    entries: tuple[Entry, ...]
    items: tuple[Item, ...]


class Told(msgspec.Struct, frozen=True):
    """All of one conversation; `aside` are commands, and what was refused or cancelled, as pairs of state and entry."""

    record: ConversationRecord
    turns: tuple[ToldTurn, ...]
    waiting: tuple[Entry, ...]
    notes: tuple[Entry, ...]
    unsent: tuple[Outgoing, ...]
    aside: tuple[tuple[str, Entry], ...]


def summaries(connection: sqlite3.Connection) -> list[Summary]:
    """Every conversation, the one with the newest entry first."""
    open_ = "SELECT conversation, count(*) FROM entries WHERE state = 'waiting' AND turn IS NULL AND note = "
    grouped = " GROUP BY conversation"
    waits = dict(connection.execute(f"{open_}0{grouped}").fetchall())
    noted = dict(connection.execute(f"{open_}1{grouped}").fetchall())
    unsent = dict(
        connection.execute(
            "SELECT conversation, count(*) FROM outbox WHERE state IN ('waiting', 'sending') GROUP BY conversation"
        ).fetchall()
    )
    running = {row[0] for row in connection.execute("SELECT conversation FROM turns WHERE end IS NULL")}
    newest = dict(
        connection.execute(
            "SELECT conversation, json_extract(body, '$.arrived') FROM entries"
            " WHERE seq IN (SELECT max(seq) FROM entries GROUP BY conversation)"
        ).fetchall()
    )
    found = [
        Summary(
            Address.parse(address),
            replies,
            turns,
            id_ in running,
            waits.get(id_, 0),
            noted.get(id_, 0),
            unsent.get(id_, 0),
            newest.get(id_),
        )
        for id_, address, replies, turns in connection.execute(
            "SELECT id, address, replies, turns FROM conversations ORDER BY address"
        )
    ]
    return sorted(found, key=lambda one: one.last or 0.0, reverse=True)


def told(connection: sqlite3.Connection, address: Address, epochs: bool, limit: int | None) -> Told | None:
    """One conversation: its latest `limit` turns, of the present epoch or of all; None where there is none."""
    row = connection.execute(
        "SELECT id, epoch FROM conversations WHERE address = ?", (str(address),)
    ).fetchone()
    if row is None:
        return None
    id_, epoch = row
    used: dict[int, list[Entry]] = {}
    aside: list[tuple[str, Entry]] = []
    for turn, state, seq, body in connection.execute(
        "SELECT turn, state, seq, body FROM entries WHERE conversation = ?"
        " AND (turn IS NOT NULL OR state != 'waiting') ORDER BY seq",
        (id_,),
    ):
        if turn is not None:
            used.setdefault(turn, []).append(decode_entry(seq, body))
        else:
            aside.append((state, decode_entry(seq, body)))
    turns = connection.execute(
        "SELECT epoch, number, end, reply, items FROM turns WHERE conversation = ? AND epoch >= ?"
        " ORDER BY epoch DESC, number DESC LIMIT ?",
        (id_, 0 if epochs else epoch, -1 if limit is None else limit),
    ).fetchall()
    unsent = connection.execute(
        "SELECT body FROM outbox WHERE conversation = ? AND state IN ('waiting', 'sending') ORDER BY seq",
        (id_,),
    )
    return Told(
        record_of(connection, address),
        tuple(_turn(connection, id_, used, *row) for row in reversed(turns)),
        tuple(one for one in waiting(connection, address) if one.at_reply is None),
        tuple(notes(connection, address)),
        tuple(_OUTGOING.decode(body) for (body,) in unsent),
        tuple(aside),
    )


def _turn(
    connection: sqlite3.Connection,
    id_: int,
    used: dict[int, list[Entry]],
    epoch: int,
    number: int,
    *rest: Any,
) -> ToldTurn:
    end, reply, items = rest
    if end is None:  # what a running turn has so far stands in rows of its own
        rows = connection.execute(
            "SELECT body FROM running_items WHERE conversation = ? ORDER BY position", (id_,)
        )
        gathered = tuple(_ITEM.decode(body) for (body,) in rows)
    else:
        gathered = _ITEMS.decode(items)
    return ToldTurn(epoch, number, end, reply, tuple(used.get(number, ())), gathered)
