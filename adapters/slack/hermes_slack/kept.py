"""Kept: small files that another run reads. They survive the process, not the machine, and are never needed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, TypeVar

import msgspec

__all__ = ["read", "write"]

log = logging.getLogger("hermes.slack")
_T = TypeVar("_T")


def read(path: Path | None, type_: type[_T]) -> _T | None:
    """What was written there; None where there is nothing, or nothing that can be read, which is reported."""
    if path is None or not path.exists():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=type_)
    except (OSError, msgspec.DecodeError) as error:
        log.warning("%s of a former run cannot be read: %s", path.name, type(error).__name__)
        return None


def write(path: Path | None, value: Any) -> None:
    """Put `value` in the place of what was there, whole or not at all."""
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(value))
        beside.replace(path)
    except OSError as error:
        log.warning("%s cannot be written: %s", path.name, error.strerror)
