"""`docs/reference/store.md` has every table and column of the database, and no other."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from hermes_core.store.schema import migrate

PAGE = (Path(__file__).parents[2] / "docs/reference/store.md").read_text(encoding="utf-8")


def documented() -> dict[str, list[str]]:
    tables = {}
    for name, text in re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL):
        first = re.findall(r"^\| (`.+?) \| .+\|$", text, re.MULTILINE)
        tables[name] = [column for cell in first for column in re.findall(r"`(\w+)`", cell)]
    return tables


def test_every_table_and_column_is_documented_and_every_documented_one_exists() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        names = [
            row[0]
            for row in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            )
        ]
        real = {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for name in names}
    assert {name: sorted(columns) for name, columns in documented().items()} == {
        name: sorted(columns) for name, columns in real.items()
    }
