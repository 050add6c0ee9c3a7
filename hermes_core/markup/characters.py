"""What a reader takes for one character, how wide it is, and how platforms count.

Graphemes and widths come from wcwidth (Unicode's own tables, a C core), imported by the first call
that meets anything but ASCII.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["graphemes", "utf8", "utf16", "width"]


def graphemes(text: str) -> Iterable[str]:
    """`text` cut between the characters that a reader sees: never inside an emoji, a flag or an accent."""
    if text.isascii():
        return text
    from wcwidth import iter_graphemes

    return iter_graphemes(text)


def width(text: str) -> int:
    """Columns that one line of `text` takes in a fixed-width font: CJK and emoji take two."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    columns = wcswidth(text)
    return columns if columns >= 0 else len(text)


def utf16(text: str) -> int:
    """UTF-16 code units, as Telegram counts the offsets of entities."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf8(text: str) -> int:
    """Bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
