"""Tables as aligned text, for platforms that have none (case 37)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hermes_core.markup.characters import width
from hermes_core.markup.tree import Inline, Table, plain_text

__all__ = ["aligned"]

_GAP = "  "


def aligned(table: Table) -> str:
    """The table as lines of fixed-width text, without trailing blanks; a ruler stands below the header.

    Columns are as wide as their widest cell on a screen (CJK and emoji take two places). A line break in
    a cell makes the row higher. Markup in cells is left out, the address of a link is not.
    """
    rows = [[_lines(cell) for cell in row] for row in (table.header, *table.rows)]
    columns = len(table.aligns)
    widths = [max(width(line) for row in rows for line in row[column]) for column in range(columns)]
    found = []
    for index, row in enumerate(rows):
        for line in itertools.zip_longest(*row, fillvalue=""):
            cells = zip(line, widths, table.aligns, strict=True)
            found.append(_GAP.join(_padded(*cell) for cell in cells).rstrip())
        if index == 0:
            found.append(_GAP.join("─" * max(columns_, 1) for columns_ in widths))
    return "\n".join(found)


def _lines(cell: Sequence[Inline]) -> list[str]:
    return [line.strip().replace("\t", " ") for line in plain_text(cell).split("\n")]


def _padded(text: str, columns: int, align: str) -> str:
    missing = columns - width(text)
    left = {"right": missing, "center": missing // 2}.get(align, 0)
    return " " * left + text + " " * (missing - left)
