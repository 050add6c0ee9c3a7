"""Scaffold: the files of a new plugin or adapter, made from the templates that come with Hermes."""

from __future__ import annotations

import importlib.util
import keyword
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hermes_core.config import DEFAULT_PACKAGES, Config
from hermes_core.errors import PackageError
from hermes_core.plugins import load

__all__ = ["KINDS", "OURS", "TEST_MODULES", "needed_for_tests", "scaffold"]

KINDS: Final = ("plugin", "adapter")
TEST_MODULES: Final = {"plugin": ("pytest",), "adapter": ("pytest", "pytest_asyncio")}
"""What the tests of each kind import; the extra `testing` of Hermes brings all of it."""
OURS: Final = frozenset(
    {*(key.split(".")[1] for key in DEFAULT_PACKAGES), "discord", "httpmodel", "slack", "telegram"}
)
"""Names whose package comes with Hermes, installed or not."""
_TEMPLATES: Final = Path(__file__).parent / "templates"
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{1,29}")


def scaffold(kind: str, name: str, parent: Path) -> Path:
    """Write the package `hermes_NAME` into a new folder `parent/NAME`; gives that folder.

    All of it is there when it returns, or nothing. `PackageError` for a name that cannot be one, and for
    a folder that is there already.
    """
    plain = name.replace("-", "_")
    if not _NAME.fullmatch(plain) or keyword.iskeyword(plain) or plain in ("core", "testing"):
        raise PackageError(
            f"{name[:60]!r} cannot be the name of {'an' if kind == 'adapter' else 'a'} {kind}.",
            "Use 2 to 30 of a-z, 0-9 and _, a letter first; it names the command, the module and the section.",
        )
    if plain in OURS:
        raise PackageError(f"{name!r} is the name of a package that comes with Hermes.", "Take another one.")
    if kind == "plugin" and (owner := load(Config()).commands.owner(plain)):  # its command has its name
        raise PackageError(
            f"{name!r} is the name of a command that comes with Hermes, of the plugin {owner}.",
            "Take another one.",
        )
    folder = parent / plain
    if folder.exists():
        raise PackageError(
            f"{folder}: this is there already.", "Take another name, or another place with --into."
        )
    try:
        parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{plain}-", dir=parent))
        try:
            for path, text in _files(kind, plain):
                file = made / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
            made.chmod(0o755)
            made.rename(folder)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
    except OSError as error:
        raise PackageError(f"{folder}: it cannot be written: {error.strerror or error}.") from error
    return folder


def needed_for_tests(kind: str) -> tuple[list[str], str]:
    """The packages that this environment lacks for the tests of this kind, and the line that installs them."""
    lacks = [one.replace("_", "-") for one in TEST_MODULES[kind] if importlib.util.find_spec(one) is None]
    return lacks, shlex.join([sys.executable, "-m", "pip", "install", "hermes-switchboard[testing]"])


def _files(kind: str, name: str) -> Iterator[tuple[str, str]]:
    """Path and text of every file."""
    root = _TEMPLATES / kind
    for template in sorted(root.rglob("*.txt")):
        path = template.relative_to(root).as_posix().removesuffix(".txt")
        yield _named(path, name), _sorted(_named(template.read_text(encoding="utf-8"), name))


def _named(text: str, name: str) -> str:
    words = {
        "zzname": name,
        "Zzname": "".join(part.capitalize() for part in name.split("_")),
        "ZZNAME": name.upper(),
        "zzdash": name.replace("_", "-"),
    }
    return re.sub("|".join(words), lambda found: words[found[0]], text)


def _sorted(text: str) -> str:
    """Imports of our packages in their order, which depends on the name."""
    lines = text.split("\n")
    begin = 0
    while begin < len(lines):
        end = begin
        while end < len(lines) and lines[end].startswith("from hermes_"):
            end += 1
        lines[begin:end] = sorted(lines[begin:end])
        begin = max(end, begin + 1)
    return "\n".join(lines)
