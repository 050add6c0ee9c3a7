"""The memory files: lines that begin with "- ", one for everything and one for each conversation."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import Final

from hermes_core.errors import ToolError
from hermes_core.messages import Address

__all__ = ["MemoryFile", "MemoryFolder"]

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9.-]+")


class MemoryFile:
    """One file that people may edit by hand; what is no line of memory is kept as it stands."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self._limit = limit

    def text(self) -> str:
        """What stands in it; "" where there is none or it cannot be read as text."""
        try:
            return self.path.read_text("utf-8", errors="replace").strip()
        except FileNotFoundError:
            return ""

    def lines(self) -> list[str]:
        """The remembered lines, without their dashes."""
        return [line[2:].strip() for line in self.text().splitlines() if line.startswith("- ")]

    def add(self, line: str) -> None:
        """Remember one line. `ToolError` where it is empty, or the file would grow over its limit."""
        words = " ".join(line.split())
        if not words:
            raise ToolError("There is nothing to remember.", "Give a line of text.")
        text = f"{self.text()}\n- {words}\n".lstrip()
        if len(text) > self._limit:
            raise ToolError(
                f"The memory is full ({self._limit} characters).", "Forget something first: /memory forget NUMBER"
            )
        self._write(text)

    def forget(self, number: int) -> str | None:
        """Take out the remembered line with this number, counted from 1; gives it, or None."""
        rows = self.text().splitlines()
        places = [index for index, row in enumerate(rows) if row.startswith("- ")]
        if not 1 <= number <= len(places):
            return None
        gone = rows.pop(places[number - 1])
        self._write("\n".join(rows) + "\n" if rows else "")
        return gone[2:].strip()

    def _write(self, text: str) -> None:
        """Replace the file as a whole: a crash leaves the old one or the new one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".memory-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self.path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise


class MemoryFolder:
    """All memory files below one folder."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit

    def everywhere(self) -> MemoryFile:
        """The file that every conversation sees."""
        return MemoryFile(self._folder / "MEMORY.md", self._limit)

    def of(self, address: Address) -> MemoryFile:
        """The file of one conversation; its name can be read, and is unlike that of any other address."""
        text = str(address)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        name = _UNSAFE.sub("-", text)[:80].strip("-.")
        return MemoryFile(self._folder / "conversations" / f"{name}-{digest}.md", self._limit)
