"""Spool: what a job writes, in one file of bounded size that only grows (J10).

Shared by the runtime and by the keeper, which is started without site-packages: nothing here but
light parts of the standard library. The file holds the beginning as it comes; of what goes beyond it
the end is kept in memory and written when all is over, behind a mark that says how much is missing.
So whoever has read up to some byte can always read on from there.
"""

from __future__ import annotations

import os

__all__ = ["MARK", "Spool"]

MARK = "\n[… {} bytes left out …]\n"


class Spool:
    """Keeps at most `limit` bytes in the file `path`, half of them from the beginning and half from the end.

    A disk that takes no more is as good as a limit: what it did not take counts as left out.
    """

    def __init__(self, path: str, limit: int) -> None:
        self.written = 0
        self.cut = 0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._head = (limit + 1) // 2
        self._tail_limit = limit // 2
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """Take more in."""
        room = self._head - self.written
        if room > 0:
            taken = self._write(data[:room])
            if taken < min(room, len(data)):
                self._head = self.written  # a full disk: from here on only the end is kept
            data = data[taken:]
        self._tail += data
        over = len(self._tail) - self._tail_limit
        if over > 0:
            del self._tail[:over]
            self._dropped += over

    @property
    def overflowing(self) -> bool:
        """Whether something was left out already."""
        return self._dropped > 0

    def close(self) -> None:
        """Write the end of it and let the file go; afterwards `written` and `cut` are final."""
        tail = bytes(self._tail)
        if self._dropped:
            begin = 0  # a character that the cut went through is left out whole
            while begin < min(3, len(tail)) and tail[begin] & 0xC0 == 0x80:
                begin += 1
            self.cut = self._dropped + begin
            tail = MARK.format(self.cut).encode() + tail[begin:]
        taken = self._write(tail)
        if taken < len(tail):
            self.cut += len(tail) - taken
        self._tail.clear()
        os.close(self._file)

    def _write(self, data: bytes) -> int:
        taken = 0
        while taken < len(data):
            try:
                taken += os.write(self._file, data[taken:])
            except OSError:
                break
        self.written += taken
        return taken
