"""Kept: small files that another run reads. They survive the process, not the machine, and are never needed.

A file is one value, or lines of values that are put to its end one by one. What stands in them is a comfort: a
file that cannot be read begins anew, one that cannot be written costs what it would have given, and either costs
one line in the log.
"""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import TypeVar

import msgspec

__all__ = ["append", "lines", "read", "write"]

log = logging.getLogger("hermes.writing")

T = TypeVar("T")


def read(path: Path | None, kind: type[T], nothing: T) -> T:
    """What was written there; `nothing` where there is no file, or none that can be read."""
    if path is None or not path.exists():
        return nothing
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        log.warning("%s cannot be read and begins anew: %s", path.name, type(error).__name__)
        return nothing


def write(path: Path | None, content: object) -> bool:
    """Put `content` in the place of what was there, whole or not at all; False: the disk did not take it."""
    if path is None:
        return True
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.new")
        fresh.write_bytes(msgspec.json.encode(content))
        fresh.replace(path)
    except OSError as error:
        log.warning("%s cannot be written: %s", path.name, error.strerror or type(error).__name__)
        return False
    return True


def lines(path: Path | None, kind: type[T]) -> list[T]:
    """What was appended there, in its order; a line that a crash cut off, or that is something else, is passed over."""
    if path is None or not path.exists():
        return []
    try:
        written = path.read_bytes().splitlines()
    except OSError as error:
        log.warning("%s cannot be read and begins anew: %s", path.name, type(error).__name__)
        return []
    found: list[T] = []
    unread = 0
    for line in filter(None, written):
        try:
            found.append(msgspec.json.decode(line, type=kind))
        except msgspec.DecodeError:
            unread += 1
    if unread:
        log.warning("%s: %d lines cannot be read and are passed over", path.name, unread)
    return found


def append(path: Path | None, content: object) -> None:
    """Put a line to the end, in one step of its own: what was cut off before it is another line.

    `OSError`: the disk did not take it, or not all of it.
    """
    if path is None:
        return
    line = b"\n" + msgspec.json.encode(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        if file.write(line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
