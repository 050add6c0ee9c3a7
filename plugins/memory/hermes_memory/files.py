"""The memory files: lines that begin with "- ", one file for everything and one for each conversation."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hermes_core.errors import ToolError
from hermes_core.messages import Address

__all__ = ["MemoryFile", "MemoryFolder"]

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9.-]+")
_DASH: Final = "- "


class MemoryFile:
    """One file that people may edit by hand; what is no line of memory is kept as it stands, byte for byte.

    `ToolError` where the disk does not give or take it; then the file is as it was.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self._limit = limit

    def text(self) -> str:
        """What stands in it, "" where there is none. Bytes that are no UTF-8 are shown as a mark."""
        text = self._read().encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return text.rstrip().lstrip("\r\n")

    def lines(self) -> list[str]:
        """The remembered lines, without their dashes."""
        return [row[len(_DASH) :].strip() for row in self.text().splitlines() if row.startswith(_DASH)]

    def add(self, line: str) -> None:
        """Remember one line. `ToolError` where it is empty, or the file would grow over its limit."""
        words = " ".join(line.encode("utf-8", "replace").decode().split())
        if not words:
            raise ToolError("There is nothing to remember.", "Give a line of text.")
        text = self._read()
        if text and not text.endswith("\n"):
            text += "\n"
        text += f"{_DASH}{words}\n"
        if len(text) > self._limit:
            raise ToolError(
                f"The memory is full: it holds {self._limit} characters.",
                "Forget something first, with /memory forget NUMBER",
            )
        self._write(text)

    def forget(self, number: int) -> str | None:
        """Take out the remembered line with this number, counted from 1; gives it, or None."""
        rows = self._read().splitlines(keepends=True)
        places = [index for index, row in enumerate(rows) if row.startswith(_DASH)]
        if not 1 <= number <= len(places):
            return None
        gone = rows.pop(places[number - 1])
        self._write("".join(rows))
        return gone[len(_DASH) :].encode("utf-8", "replace").decode().strip()

    def _read(self) -> str:
        with _plainly("read"):
            try:
                return self.path.read_bytes().decode("utf-8", "surrogateescape")
            except FileNotFoundError:
                return ""

    def _write(self, text: str) -> None:
        """Replace the file as a whole: a crash leaves the old one or the new one."""
        with _plainly("written"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            target = self.path.resolve()  # a link stays a link
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=".memory-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(text.encode("utf-8", "surrogateescape"))
                    file.flush()
                    os.fsync(file.fileno())
                if target.exists():
                    shutil.copymode(target, name)
                Path(name).replace(target)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise


@contextlib.contextmanager
def _plainly(what: str) -> Iterator[None]:
    """What the disk refuses, in words for people: without a path."""
    try:
        yield
    except OSError as error:
        raise ToolError(
            f"The memory cannot be {what}: {error.strerror or type(error).__name__}.", "Nothing was changed."
        ) from error


class MemoryFolder:
    """All memory files below one folder; `limit` is in characters, for each file."""

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
        name = _UNSAFE.sub("-", text)[:80].strip("-.") or "conversation"
        return MemoryFile(self._folder / "conversations" / f"{name}-{digest}.md", self._limit)
