"""Typed: what was typed before, kept in a file, and the commands that a beginning may become."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from hermes_core.adapter import KnownCommand
from hermes_terminal.clean import one_line

__all__ = ["CommandCompleter", "TypedHistory"]

_KEPT: Final = 1000  # entries; the file is cut to them when it has twice as many


class TypedHistory(History):
    """One JSON string per line, the latest last, readable by its owner only.

    History is a comfort: a file that cannot be read or written is a history that is not kept, never
    a chat that does not work. Two chats may append to one file.
    """

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def load_history_strings(self) -> Iterable[str]:
        """The latest first. Lines that are no JSON string (a half-written one) are left out."""
        try:
            lines = self._file.read_text("utf-8", "replace").splitlines()
            if len(lines) > 2 * _KEPT:
                self._shorten(lines[-_KEPT:])
        except OSError:
            return
        for line in reversed(lines[-_KEPT:]):
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, str):
                yield entry

    def store_string(self, string: str) -> None:
        """Append one entry."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, (json.dumps(string) + "\n").encode())
            finally:
                os.close(handle)
        except OSError:
            return

    def _shorten(self, lines: list[str]) -> None:
        fresh = self._file.with_suffix(f".{os.getpid()}")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")
        fresh.replace(self._file)


class CommandCompleter(Completer):
    """Completes the name of a command at the beginning of what is typed."""

    def __init__(self, commands: Callable[[], Iterable[KnownCommand]]) -> None:
        self._commands = commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Every command whose name or alias begins with what stands after the slash."""
        before = document.text_before_cursor
        if not before.startswith("/") or any(letter.isspace() for letter in before):
            return
        begun = before[1:].lower()
        for command in self._commands():
            name = next((one for one in (command.name, *command.aliases) if one.startswith(begun)), None)
            if name is not None:
                yield Completion(
                    f"/{name} ",
                    start_position=-len(before),
                    display=one_line(command.usage),
                    display_meta=one_line(command.help),
                )
