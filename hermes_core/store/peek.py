"""Peek: read the database of a data folder that another process has, and change nothing."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from hermes_core.store.faults import translate

__all__ = ["peek"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def peek(
    folder: Path,
    read: Callable[Concatenate[sqlite3.Connection, _P], _T],
    missing: _T,
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> _T:
    """What `read`, a function that reads of this package, finds in `folder`; `missing` where there is no such data.

    `StoreError` where it cannot be read.
    """
    path = folder / "hermes.db"
    if not path.is_file():
        return missing
    try:
        with contextlib.closing(_connect(path)) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'jobs'").fetchone():
                return missing  # written by an older version
            return read(connection, *args, **kwargs)
    except sqlite3.Error as error:
        raise translate(error) from error


def _connect(path: Path) -> Any:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)
