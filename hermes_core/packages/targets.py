"""Targets: what a person wants to be installed, as pip wants to be told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec
from packaging.requirements import InvalidRequirement, Requirement

from hermes_core.errors import PackageError

__all__ = ["Target", "target"]

_GIT: Final = re.compile(r"git\+|git@|ssh://|git://|(?:https?|file)://\S+\.git(?:@|#|/?\Z)")
_SHORT: Final = re.compile(r"(?P<user>[\w.-]+)@(?P<host>[\w.-]+):(?P<path>.+)")


class Target(msgspec.Struct, frozen=True):
    """`kind` is name, folder, wheel or git; `spec` is what pip is given for it; `written` what the person wrote."""

    kind: str
    spec: str
    written: str


def target(written: str) -> Target:
    """What `written` means: a git URL, a wheel, a folder, or a name with versions; `PackageError` for none of them."""
    text = written.strip()
    if _GIT.match(text):
        return Target("git", _git(text), written)
    if "://" in text:
        raise PackageError(
            f"{_shown(text)}: this is no git URL.",
            "Write git+https://…, or download the wheel and name the file.",
        )
    path = Path(text).expanduser()
    if text.endswith(".whl"):
        if not path.is_file():
            raise PackageError(f"{text}: there is no such file.", "Check the name of the wheel.")
        return Target("wheel", str(path.resolve()), written)
    if path.is_dir() and (_is_path(text) or not _is_name(text) or _is_project(path)):
        if not _is_project(path):
            raise PackageError(
                f"{text}: this folder is no Python package.",
                "It needs a pyproject.toml: hermes plugins new NAME",
            )
        return Target("folder", str(path.resolve()), written)
    if _is_path(text) or not _is_name(text):
        raise PackageError(
            f"{_shown(text)}: there is no such folder, and it is no name of a package either.",
            "Write a name (hermes-greet), a folder (./greet), a wheel (greet-1.0-py3-none-any.whl) or a git URL.",
        )
    return Target("name", text, written)


def _git(text: str) -> str:
    short = _SHORT.fullmatch(text)
    if short is not None:
        return f"git+ssh://{short['user']}@{short['host']}/{short['path']}"
    return text if text.startswith("git+") else f"git+{text}"


def _is_project(path: Path) -> bool:
    return (path / "pyproject.toml").is_file() or (path / "setup.py").is_file()


def _is_path(text: str) -> bool:
    return text.startswith((".", "/", "~")) or "/" in text


def _is_name(text: str) -> bool:
    try:
        return Requirement(text).url is None and not text.startswith("-")
    except InvalidRequirement:
        return False


def _shown(text: str) -> str:
    """A URL may have a password in it."""
    return re.sub(r"://[^/@\s]*@", "://", text)[:200]
