"""The tables of the SQLite store, as numbered migrations.

Theory of operation. `PRAGMA user_version` is the number of the last migration that a file has seen.
`migrate` applies what is missing, in order, each in one transaction together with its number, so a
crash between two leaves a file of a known version. A migration that was ever released is never
edited; a change is a new one at the end. A file of a later version than this program knows is
refused before anything is written.

What the tables cost: every operation of the store finds its rows through a primary key or one of
the indexes below. Three of them are partial, so that what is unfinished (waiting entries, the
running turn, unsent messages) is found without touching the years of finished rows beside it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from hermes_core.errors import StoreError

__all__ = ["MIGRATIONS", "Migration", "migrate", "version"]

Migration = tuple[str, ...]
"""The statements of one step, run in order within one transaction."""

_FIRST: Final[Migration] = (
    """
    CREATE TABLE conversations (
        id INTEGER PRIMARY KEY,
        address TEXT NOT NULL UNIQUE,
        epoch INTEGER NOT NULL DEFAULT 0,
        turns INTEGER NOT NULL DEFAULT 0,
        replies INTEGER NOT NULL DEFAULT 0,
        context_from INTEGER NOT NULL DEFAULT 0,
        busy TEXT
    )
    """,
    # `turn` is the turn that has taken the entry; with state 'waiting' it is that of the running one.
    """
    CREATE TABLE entries (
        seq INTEGER PRIMARY KEY,
        conversation INTEGER NOT NULL REFERENCES conversations (id),
        id TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'waiting'
            CHECK (state IN ('waiting', 'used', 'handled', 'refused', 'cancelled')),
        turn INTEGER,
        body TEXT NOT NULL,
        UNIQUE (conversation, id)
    )
    """,
    "CREATE INDEX entries_waiting ON entries (conversation, turn, seq) WHERE state = 'waiting'",
    # `final` is the text of reply number `reply`, as people saw it. A running turn has no `end`.
    """
    CREATE TABLE turns (
        conversation INTEGER NOT NULL REFERENCES conversations (id),
        epoch INTEGER NOT NULL,
        number INTEGER NOT NULL,
        end TEXT CHECK (end IN ('completed', 'interrupted', 'failed')),
        reply INTEGER,
        planned TEXT,
        final TEXT,
        items TEXT NOT NULL DEFAULT '[]',
        PRIMARY KEY (conversation, epoch, number)
    )
    """,
    "CREATE UNIQUE INDEX turns_running ON turns (conversation) WHERE end IS NULL",
    "CREATE UNIQUE INDEX turns_replies ON turns (conversation, reply) WHERE reply IS NOT NULL",
    # What a running turn has gathered so far, a row each, so that adding to it costs no rewriting.
    """
    CREATE TABLE running_items (
        position INTEGER PRIMARY KEY,
        conversation INTEGER NOT NULL REFERENCES conversations (id),
        body TEXT NOT NULL
    )
    """,
    "CREATE INDEX running_items_of ON running_items (conversation, position)",
    """
    CREATE TABLE outbox (
        seq INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        conversation INTEGER NOT NULL REFERENCES conversations (id),
        state TEXT NOT NULL DEFAULT 'waiting'
            CHECK (state IN ('waiting', 'sending', 'sent', 'undeliverable')),
        body TEXT NOT NULL,
        platform_ids TEXT,
        reason TEXT
    )
    """,
    "CREATE INDEX outbox_unsent ON outbox (conversation, seq) WHERE state IN ('waiting', 'sending')",
)

# A turn that was being stopped when the program died ends at the next start; it does not go on (I1).
_HALTED: Final[Migration] = ("ALTER TABLE turns ADD COLUMN halted INTEGER NOT NULL DEFAULT 0",)

# By which ids a platform keeps what was sent, so that a native reply finds the text it answers (T3).
_PLATFORM_IDS: Final[Migration] = (
    """
    CREATE TABLE platform_messages (
        conversation INTEGER NOT NULL REFERENCES conversations (id),
        id TEXT NOT NULL,
        outbox INTEGER NOT NULL REFERENCES outbox (seq),
        PRIMARY KEY (conversation, id)
    ) WITHOUT ROWID
    """,
)

# Notes start nothing (A3), so a start need not read them: they are read with their conversation.
_NOTES: Final[Migration] = (
    "ALTER TABLE entries ADD COLUMN note INTEGER NOT NULL DEFAULT 0",
    "UPDATE entries SET note = 1 WHERE state = 'waiting' AND json_extract(body, '$.when') = 'at_reply'",
    "CREATE INDEX entries_open ON entries (conversation, seq) WHERE state = 'waiting' AND turn IS NULL AND note = 0",
    "CREATE INDEX entries_notes ON entries (conversation, seq) WHERE state = 'waiting' AND turn IS NULL AND note = 1",
)

# A job stands by itself: its address may be one that no conversation has (HTTP). `body` holds what never changes.
_JOBS: Final[Migration] = (
    """
    CREATE TABLE jobs (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        address TEXT NOT NULL,
        key TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'queued'
            CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled', 'timed_out', 'lost')),
        body TEXT NOT NULL,
        started REAL,
        ended REAL,
        progress TEXT NOT NULL DEFAULT '',
        fraction REAL,
        summary TEXT NOT NULL DEFAULT '',
        result TEXT NOT NULL DEFAULT '',
        cut INTEGER NOT NULL DEFAULT 0,
        stop INTEGER NOT NULL DEFAULT 0,
        runs INTEGER NOT NULL DEFAULT 0,
        UNIQUE (address, key)
    )
    """,
    "CREATE INDEX jobs_of ON jobs (address, number)",
    "CREATE INDEX jobs_open ON jobs (number) WHERE state IN ('queued', 'running')",
)

# The callbacks of ended jobs: a row comes in with the end of its job, so that a crash loses none.
_DELIVERIES: Final[Migration] = (
    """
    CREATE TABLE deliveries (
        job TEXT PRIMARY KEY REFERENCES jobs (id),
        due REAL NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'delivered', 'given_up')),
        said TEXT NOT NULL DEFAULT ''
    )
    """,
    "CREATE INDEX deliveries_due ON deliveries (due) WHERE state = 'waiting'",
)

# What ended jobs put out is removed some day. `size`: bytes that it takes, 0 when all of it is gone. Of jobs
# that ended before this was known, the size is not: 1 says that there may be something.
_PURGED: Final[Migration] = (
    "ALTER TABLE jobs ADD COLUMN size INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE jobs ADD COLUMN purged REAL",
    "UPDATE jobs SET size = 1 WHERE ended IS NOT NULL",
    "CREATE INDEX jobs_kept ON jobs (ended, size) WHERE size > 0 AND purged IS NULL",
    "CREATE INDEX jobs_purged ON jobs (id) WHERE size > 0 AND purged IS NOT NULL",
)

MIGRATIONS: Final[tuple[Migration, ...]] = (
    _FIRST,
    _HALTED,
    _PLATFORM_IDS,
    _NOTES,
    _JOBS,
    _DELIVERIES,
    _PURGED,
)
"""Number n is at index n - 1."""


def version(connection: sqlite3.Connection) -> int:
    """The number of the last migration that this file has seen; 0 for an empty file."""
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return found


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring the file to the version of this program; `StoreError` where it is a later one already.

    The connection must be in autocommit mode. A migration that fails leaves the file at the version
    before it, and its `sqlite3.Error` goes to the caller.
    """
    found = version(connection)
    if found > len(migrations):
        raise StoreError(
            f"The data was written by a later version of Hermes (schema {found}, this one knows {len(migrations)}).",
            "Install that version again, or give this one a data folder of its own.",
        )
    for number, statements in enumerate(migrations[found:], found + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
