"""Package: a plugin as its author has it, a folder or an installed distribution, ready to be looked at."""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from hermes_core.errors import PackageError

__all__ = ["Package", "packages"]


_LINK: Final = re.compile(r"\]\(([^):#\s]+\.md)")


class Package(msgspec.Struct, frozen=True):
    """One plugin of a distribution: `name` and `value` are those of its entry point.

    `folder` is the project's, where it is there; `sources` the files of its code, without tests;
    `readme` its text, with that of the pages it leads to. `said` is what the project says of itself:
    `name`, `version`, `description`, `requires`, `python`.
    """

    name: str
    value: str
    said: Mapping[str, Any]
    readme: str
    sources: tuple[Path, ...]
    folder: Path | None = None

    @property
    def module(self) -> str:
        """The module that the entry point names."""
        return self.value.partition(":")[0]

    def tests(self) -> tuple[Path, ...]:
        """The files of its tests."""
        return () if self.folder is None else tuple(sorted(self.folder.glob("tests/**/test_*.py")))


def packages(what: str) -> list[Package]:
    """The plugins of a folder, or of the installed plugin or package of this name; `PackageError` for neither.

    A folder is put on the import path, so that its code can be loaded without being installed.
    """
    folder = Path(what).expanduser()
    if folder.is_dir():
        return _of_folder(folder.resolve())
    for point in importlib.metadata.entry_points(group="hermes"):
        if point.dist is not None and what in (point.name, point.dist.name):
            source = _source(point.dist)
            found = _of_folder(source) if source is not None else list(_of_distribution(point.dist))
            return [one for one in found if what in (one.name, point.dist.name)]
    raise PackageError(
        f"{what[:100]}: there is no such folder, and no plugin of that name is installed.",
        "See: hermes plugins list",
    )


def _of_folder(folder: Path) -> list[Package]:
    file = folder / "pyproject.toml"
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
    except FileNotFoundError as error:
        raise PackageError(
            f"{folder.name}: this folder is no package: it has no pyproject.toml.", "See: hermes plugins new"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PackageError(f"{folder.name}/pyproject.toml: {error}.", "It must be TOML.") from error
    points = project.get("entry-points", {}).get("hermes", {})
    if not points:
        raise PackageError(
            f"{folder.name}: this is no plugin: its pyproject.toml has no entry point in the group “hermes”.",
            'Write [project.entry-points.hermes] and NAME = "module:Class" below it.',
        )
    root = folder / "src" if (folder / "src").is_dir() else folder
    sys.path.insert(0, str(root))
    readme = folder / _readme(project)
    said = {
        "name": project.get("name", ""),
        "version": project.get("version", ""),
        "description": project.get("description", ""),
        "requires": project.get("dependencies", []),
        "python": project.get("requires-python", ""),
    }
    return [
        Package(
            name,
            value,
            said,
            _told(readme) if readme.is_file() else "",
            _sources(root, value.partition(":")[0]),
            folder,
        )
        for name, value in points.items()
    ]


def _readme(project: Mapping[str, Any]) -> str:
    written = project.get("readme", "README.md")
    return str(written.get("file", "README.md") if isinstance(written, dict) else written)


def _told(readme: Path) -> str:
    """Its text, and that of the pages beside it that it leads to."""
    text = readme.read_text(encoding="utf-8")
    linked = {(readme.parent / one).resolve() for one in _LINK.findall(text)}
    return "\n".join([text, *(page.read_text(encoding="utf-8") for page in sorted(linked) if page.is_file())])


def _sources(root: Path, module: str) -> tuple[Path, ...]:
    top = root / module.partition(".")[0]
    if top.is_dir():
        return tuple(sorted(top.rglob("*.py")))
    return (top.with_suffix(".py"),) if top.with_suffix(".py").is_file() else ()


def _source(distribution: importlib.metadata.Distribution) -> Path | None:
    """The folder of an editable installation."""
    text = distribution.read_text("direct_url.json")
    if text is None:
        return None
    told = json.loads(text)
    if not told.get("dir_info", {}).get("editable"):
        return None
    folder = Path(unquote(urlsplit(told["url"]).path))
    return folder if folder.is_dir() else None


def _of_distribution(distribution: importlib.metadata.Distribution) -> Iterator[Package]:
    said = distribution.metadata.json
    about = {
        "name": distribution.name,
        "version": distribution.version,
        "description": said.get("summary", ""),
        "requires": list(distribution.requires or ()),
        "python": said.get("requires_python", ""),
    }
    files = [Path(str(one.locate())) for one in distribution.files or () if one.suffix == ".py"]
    for point in distribution.entry_points:
        if point.group == "hermes":
            top = point.value.partition(":")[0].partition(".")[0]
            own = [file for file in files if top in (file.stem, *file.parts[-6:-1])]
            yield Package(point.name, point.value, about, str(said.get("description", "")), tuple(own))
