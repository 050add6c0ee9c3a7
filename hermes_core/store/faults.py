"""What SQLite and the file system complain of, in the words of `hermes_core.errors` (D7)."""

from __future__ import annotations

import sqlite3
from typing import Final

from hermes_core.errors import StoreError, StoreUnwritable

__all__ = ["breaks_batch", "translate"]

_PRIMARY: Final = 0xFF  # the low byte of an extended result code is the plain one

_LATER: Final = "Nothing was changed; please try again later."

_UNWRITABLE: Final = {
    sqlite3.SQLITE_FULL: "The disk is full.",
    sqlite3.SQLITE_READONLY: "The database is read-only.",
    sqlite3.SQLITE_PERM: "The database may not be written to.",
    sqlite3.SQLITE_CANTOPEN: "The database cannot be opened.",
    sqlite3.SQLITE_BUSY: "The database is locked by another program.",
    sqlite3.SQLITE_LOCKED: "The database is locked by another program.",
    sqlite3.SQLITE_PROTOCOL: "The database is locked by another program.",
    sqlite3.SQLITE_IOERR: "The disk does not take or give data.",
    sqlite3.SQLITE_NOMEM: "There is no memory left for the database.",
}
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def _code(error: BaseException) -> int | None:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & _PRIMARY


def breaks_batch(error: BaseException) -> bool:
    """Whether the fault is of the disk or file, and so of every write of the same transaction."""
    code = _code(error)
    return code in _UNWRITABLE or code in _DAMAGED


def translate(error: BaseException) -> StoreError:
    """A new error for whoever waits, with `error` as its cause; its text names no path or value."""
    if isinstance(error, StoreError):
        # One instance must not be raised in two tasks: each would write into its traceback.
        made: StoreError = type(error)(error.message, error.advice)
    elif (code := _code(error)) in _DAMAGED:
        made = StoreError(
            "The database file is damaged.", "Put it aside and bring back a backup; nothing was changed."
        )
    elif code in _UNWRITABLE:
        made = StoreUnwritable(_UNWRITABLE[code], _LATER)
    elif isinstance(error, OSError):
        made = StoreUnwritable("The data folder cannot be written to.", _LATER)
    elif isinstance(error, UnicodeError):
        made = StoreError("This holds characters that are not text.", "Nothing was stored.")
    else:
        made = StoreError("The store could not take or give this.", "Nothing was stored; the log says why.")
    made.__cause__ = error
    return made
