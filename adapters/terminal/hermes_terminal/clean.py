"""What may reach a terminal: text in which no character commands it.

A model writes whatever it was talked into, and a terminal obeys what it reads: escape sequences move
the cursor, change the title, write the clipboard. So every control character is shown as a picture
of itself, and characters that turn the reading direction around become a replacement mark.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

__all__ = ["clean", "one_line"]

_KEPT: Final = "\n\t"


def _replacements() -> dict[int, str]:
    table = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in _KEPT}
    table[0x0D] = ""  # half of a line end; alone it would let text write over what stands there
    table[0x7F] = "\u2421"
    for start, stop in (
        (0x80, 0xA0),  # C1: one of them is a whole escape sequence's beginning
        (0x202A, 0x202F),  # embeddings and overrides of direction
        (0x2066, 0x206A),  # isolates
        (0xD800, 0xE000),  # lone surrogates cannot be encoded
        (0xFFF9, 0xFFFC),  # interlinear annotation
    ):
        table.update(dict.fromkeys(range(start, stop), "\ufffd"))
    table[0x2028] = table[0x2029] = "\n"
    return table


_TABLE: Final = MappingProxyType(_replacements())


def clean(text: str) -> str:
    """`text` without control characters but newline and tab.

    Each character is replaced by itself alone, so the pieces of a stream can be cleaned one by one.
    """
    return text.translate(_TABLE)


def one_line(text: str) -> str:
    """`text` cleaned and on one line, for names and notices."""
    return " ".join(clean(text).split())
