"""Output: what a process writes, in bounded memory: its beginning and its end."""

from __future__ import annotations

__all__ = ["Output"]


class Output:
    """Keeps at most `limit` bytes, half of them from the beginning and half from the end."""

    def __init__(self, limit: int) -> None:
        self._head_limit = (limit + 1) // 2
        self._tail_limit = limit // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self.received = 0

    def add(self, data: bytes) -> None:
        """Take more in, dropping from the middle."""
        self.received += len(data)
        room = self._head_limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        over = len(self._tail) - self._tail_limit
        if over > 0:
            del self._tail[:over]
            self._dropped += over

    def read(self) -> tuple[str, int]:
        """The text, with a mark where something is missing, and the number of missing bytes.

        Bytes that are not UTF-8 become U+FFFD. A character that the cut went through is left out whole.
        """
        if not self._dropped:
            return (self._head + self._tail).decode(errors="replace"), 0
        head = self._head[: _whole(self._head)]
        begin = 0
        while begin < min(3, len(self._tail)) and self._tail[begin] & 0xC0 == 0x80:
            begin += 1
        tail = self._tail[begin:]
        cut = self._dropped + len(self._head) - len(head) + begin
        mark = f"\n[… {cut} bytes left out …]\n"
        return head.decode(errors="replace") + mark + tail.decode(errors="replace"), cut


def _whole(data: bytearray) -> int:
    """The length of `data` without a character that only begins at its end."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        wanted = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return len(data) - back if wanted > back else len(data)
    return len(data)
