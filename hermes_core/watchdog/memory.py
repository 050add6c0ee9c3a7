"""Memory: says which plugin was at work while the program grew (P2, case 53).

No call is measured and no allocation is traced, so it costs the ways of messages nothing; it is told from
how much memory the program has at each look, and from who worked since the last one. So it names who was
at work most while it grew, not who holds what; where several were, it names them all. What grows slowly
beside much else, or outside of any call, is said without a name. It stops nobody.
"""

from __future__ import annotations

import contextlib
import logging
import os
from typing import Final

from hermes_core.plugins import Culprit, Work

__all__ = ["Memory"]

log = logging.getLogger("hermes.watchdog")

MIB: Final = 1024 * 1024
NOISE: Final = 1 * MIB  # from one look to the next
SHORT: Final = 0.005  # seconds of a call in which not much memory can be taken
CLEARLY: Final = 4.0  # times as long at work as all others together


class Memory:
    """Looks at the memory of this process (Linux; elsewhere it sees nothing); a growth by `step` bytes is said."""

    def __init__(self, step: int) -> None:
        self._step = step
        self._page = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
        self._file: int | None = None
        with contextlib.suppress(OSError):
            self._file = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._last = self.resident()
        self._grown: dict[tuple[str, ...], int] = {}

    def close(self) -> None:
        """Look no more."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def resident(self) -> int:
        """Bytes that this process has in memory; 0 where that is not known."""
        if self._file is None:
            return 0
        return int(os.pread(self._file, 100, 0).split()[1]) * self._page

    def grows(self) -> bool:
        """Whether it is worth asking who is at work."""
        return self.resident() - self._last >= NOISE

    def look(self, work: Work, running: Culprit | None) -> tuple[str, ...]:
        """Take note of what has grown since the last look; gives the plugins that the log has just named.

        `work`: what plugins did since then. `running`: whose code the event loop is in.
        """
        resident = self.resident()
        grown, self._last = resident - self._last, resident
        if grown < 0:  # given back: whoever had taken it is not held to it
            self._grown = {key: kept for key, had in self._grown.items() if (kept := had + grown) > 0}
        if grown < NOISE:
            return ()
        key = _likely(work, running)
        total = self._grown[key] = self._grown.get(key, 0) + grown
        if total < self._step:
            return ()
        del self._grown[key]
        who = (
            "one of these plugins: "
            if len(key) > 1
            else "plugin "
            if key
            else "the program without any plugin"
        )
        where = f" ({running.place})" if running is not None and running.plugins == key else ""
        log.error(
            "memory grew by %d MiB, to %d MiB, during the work of %s%s",
            total // MIB,
            resident // MIB,
            who + ", ".join(key),
            where,
        )
        return key


def _likely(work: Work, running: Culprit | None) -> tuple[str, ...]:
    """Whose code it is in; or who did clearly more than all others, and everybody who is not done yet."""
    if running is not None and len(running.plugins) == 1:
        return running.plugins
    ended = {name: seconds for name, seconds in work.ended.items() if seconds >= SHORT}
    most = max(ended.values(), default=0.0)
    if most > CLEARLY * (sum(ended.values()) - most):
        ended = {name: seconds for name, seconds in ended.items() if seconds == most}
    return tuple(sorted({*ended, *work.running}))
