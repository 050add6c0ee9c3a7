"""Kept: small files that another run reads. They survive the process, not the machine, and are never needed.

What stands in them is a comfort: a file that cannot be read begins anew, one that cannot be written costs what
it would have given, and either costs one line in the log.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TypeVar

import msgspec

__all__ = ["read", "write"]

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
