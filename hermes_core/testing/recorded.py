"""Recorded: what a platform really sent, kept in a file and played back to an adapter in a test.

A recording has one JSON object a line: `after`, the seconds since the one before, and `payload`. It is
made with a `Recorder` in a run against the real platform, looked over by its author, and kept beside the
tests. The fixture `recorded` reads it: `for payload in recorded("mention.jsonl")`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from hermes_core.config import Secrets
from hermes_core.config.sources import looks_secret

__all__ = ["Recorder", "payloads", "replay"]

MASK: Final = "***"


class Recorder:
    """Appends payloads to `file`, one line each, without secrets.

    Taken out is what `secrets` knows, what has the shape of a token, and the value of each key that is
    called like a secret. `names` replaces texts wherever they stand, for people and places that are not to
    be kept. `clock` gives seconds.
    """

    def __init__(
        self,
        file: Path,
        secrets: Secrets | None = None,
        names: Mapping[str, str] = MappingProxyType({}),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._file = file
        self._secrets = secrets or Secrets()
        self._names = names
        self._clock = clock
        self._last: float | None = None

    def note(self, payload: Any) -> None:
        """Append one payload: anything that JSON can hold."""
        now = self._clock()
        after = 0.0 if self._last is None else now - self._last
        self._last = now
        line = json.dumps({"after": round(after, 3), "payload": self._clean(payload)}, ensure_ascii=False)
        with self._file.open("a", encoding="utf-8") as out:
            out.write(line + "\n")

    def _clean(self, value: Any, key: str = "") -> Any:
        if isinstance(value, Mapping):
            return {str(name): self._clean(inner, str(name)) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._clean(inner, key) for inner in value]
        if value is not None and not isinstance(value, bool) and looks_secret(key):
            return MASK
        if isinstance(value, str):
            for name, other in self._names.items():
                value = value.replace(name, other)
            return self._secrets.hide(value)
        return value


def payloads(file: Path) -> Iterator[Any]:
    """The payloads of a recording, in their order; `ValueError` names the line that is none."""
    for _, payload in _lines(file):
        yield payload


async def replay(file: Path) -> AsyncIterator[Any]:
    """The payloads with the pauses that were between them; in virtual time that takes none."""
    for after, payload in _lines(file):
        await asyncio.sleep(after)
        yield payload


def _lines(file: Path) -> Iterator[tuple[float, Any]]:
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                said = json.loads(line)
                yield float(said["after"]), said["payload"]
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{file.name}, line {number}: this is no recorded payload") from error
