"""Plugins as strangers install them: a distribution in a folder on the path, found by its entry point."""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path

import pytest

__all__ = ["HEAD", "Foreign"]

HEAD = """\
import asyncio, re, subprocess, time

from hermes_core.commands import Command, Context, command
from hermes_core.hookspecs import Answer, hookimpl
from hermes_core.messages import Entry
from hermes_core.tools import Tool, async_tool, tool

"""


class Foreign:
    """One installed plugin `name`, whose package `hermes_NAME` has the files that `write` puts there.

    `more` are further lines of its entry points.
    """

    def __init__(self, folder: Path, name: str, more: str = "") -> None:
        self.name = name
        self.package = f"hermes_{name}"
        self.folder = folder
        info = folder / f"{self.package}-1.0.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: hermes-{name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[hermes]\n{name} = {self.package}:Plugin\n{more}")
        (info / "RECORD").write_text("")

    def write(self, plugin: str, **modules: str) -> None:
        """The package's own module, and further ones by name."""
        place = self.folder / self.package
        place.mkdir(exist_ok=True)
        for module, text in {"__init__": plugin, **modules}.items():
            (place / f"{module}.py").write_text(HEAD + textwrap.dedent(text))

    def on_path(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have it found, and forgotten again after the test."""
        monkeypatch.syspath_prepend(str(self.folder))
        importlib.invalidate_caches()
        for module in [one for one in sys.modules if one.partition(".")[0] == self.package]:
            del sys.modules[module]
