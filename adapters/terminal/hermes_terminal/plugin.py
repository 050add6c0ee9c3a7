"""The plugin: offers the adapter `terminal`. Light: what draws is imported when there is a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from hermes_core.adapter import Adapter, AdapterFactory
from hermes_core.hookspecs import hookimpl
from hermes_terminal.pipe import PipeAdapter, Streams
from hermes_terminal.seat import PLATFORM, Seat

__all__ = ["TerminalPlugin"]


class TerminalPlugin:
    """A conversation in the terminal, or over a pipe where stdin or stdout is none."""

    class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        """`[adapters.terminal]`. `history`: keep what was typed in the data folder. `markdown`: render it."""

        history: bool = True
        markdown: bool = True

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or self.Settings()

    @hookimpl
    def hermes_adapters(self) -> Iterable[AdapterFactory]:
        """The one adapter of this package."""
        return [AdapterFactory(PLATFORM, self._open)]

    def _open(self, options: Mapping[str, Any]) -> Adapter:
        """Options: `name` of the conversation (main), `data_dir` (a folder; without it no history is kept)."""
        seat = Seat.of(str(options.get("name") or "main"))
        streams = Streams.standard()
        if not _drawable(streams):
            return PipeAdapter(seat, streams)
        from hermes_terminal.chat import ChatAdapter

        data_dir = options.get("data_dir")
        kept = Path(data_dir) / "terminal" / "typed.jsonl" if data_dir and self._settings.history else None
        return ChatAdapter(seat, sys.stdin, sys.stdout, history=kept, markdown=self._settings.markdown)


def _drawable(streams: Streams) -> bool:
    """Whether both ends are a terminal in which the cursor can be moved."""
    ends = (streams.stdin, streams.stdout)
    return os.environ.get("TERM") != "dumb" and all(end is not None and os.isatty(end) for end in ends)
