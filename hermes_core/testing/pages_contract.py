"""PagesContract: what stands on the pages of a plugin is what its code has.

    class TestPages(PagesContract):
        how_to = ROOT / "docs/how-to/pigeon.md"
        package = ROOT / "adapters/pigeon/hermes_pigeon"
        settings = PigeonPlugin.Settings

A page has a table of settings with the head `| key | default | meaning |`. At its end, below "When something", it has
one of what may be said, with … for what differs from time to time. The README beside the package has a table of
its modules, or names each file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import msgspec

__all__ = ["PagesContract"]


class PagesContract:
    """Three tests; see the head of this module.

    `elsewhere`: texts in the table of troubles that others say, or that the code makes of parts. `unset`: how the
    page shows the default of a setting that is empty.
    """

    how_to: ClassVar[Path]
    package: ClassVar[Path]
    settings: ClassVar[type[msgspec.Struct]]
    elsewhere: ClassVar[frozenset[str]] = frozenset()
    unset: ClassVar[str] = '`""`'

    def page(self) -> str:
        """The how-to."""
        return self.how_to.read_text(encoding="utf-8")

    def code(self) -> str:
        """All of the package; texts that go over several lines are one."""
        whole = "".join(one.read_text(encoding="utf-8") for one in sorted(self.package.glob("*.py")))
        return re.sub(r'"\s*\n\s*f?"', "", whole)

    def test_every_setting_stands_on_the_page_with_its_default(self) -> None:
        """With nothing beside them in the same table."""
        settings = self.settings()
        given = {one.name: getattr(settings, one.name) for one in msgspec.structs.fields(settings)}
        given.pop("secrets", None)
        wanted = {name: self._default(value) for name, value in given.items()}
        assert self._listed() == wanted

    def _listed(self) -> Mapping[str, str]:
        table = self.page().partition("| default | meaning |")[2].partition("\n\n")[0]
        return dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table, re.MULTILINE))

    def _default(self, value: Any) -> str:
        if value == "":
            return self.unset
        return f"`{value:g}`" if isinstance(value, float) else f"`{msgspec.json.encode(value).decode()}`"

    def test_every_message_in_the_table_of_troubles_is_one_that_is_said(self) -> None:
        """So whoever looks for what he read finds it."""
        quoted = re.findall(r"^\| `([^`/]+)`", self.page().partition("## When something")[2], re.MULTILINE)
        assert len(quoted) >= 5
        code = self.code()
        ours = [one for one in quoted if one not in self.elsewhere]
        assert [one for one in ours if not all(part in code for part in one.split("…"))] == []

    def test_the_readme_names_every_module(self) -> None:
        """And none that is not there."""
        modules = {one.stem for one in self.package.glob("*.py")} - {"__init__"}
        readme = (self.package.parent / "README.md").read_text(encoding="utf-8")
        named = re.findall(r"^\| `(\w+)` \||`(\w+)\.py`", readme, re.MULTILINE)
        assert {row or file for row, file in named} == modules
