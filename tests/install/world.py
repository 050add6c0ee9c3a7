"""A real environment to install into, real wheels made on the spot, and the real command line. No network."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import site
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Called", "World", "wheel"]

CODE = '''
from hermes_core.commands import command
from hermes_core.hookspecs import hookimpl

def handler(context):
    """Greet."""
    return "hello"

class Plugin:
    @hookimpl
    def hermes_commands(self):
        return [command(name)(handler) for name in {names!r}]
'''


class Called(NamedTuple):
    """What a call of `hermes` said, and its exit code."""

    code: int
    out: str
    err: str


class World:
    """An environment that sees what this one has, and a data folder; everything is gone with `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.venv = folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.venv)], check=True)
        self.python = self.venv / "bin" / "python"
        self.site = next((self.venv / "lib").glob("python*")) / "site-packages"
        outer = [path for path in site.getsitepackages() if Path(path).is_dir()]
        lines = [f"import site; site.addsitedir({path!r})\n" for path in outer]
        (self.site / "outer.pth").write_text("".join(lines))
        self.links = folder / "links"
        self.links.mkdir()

    def environ(self, **more: str) -> dict[str, str]:
        """Nothing of pip's settings on this machine counts, and no index is asked."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "HERMES"))}
        return {
            **kept,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.links),
            "PIP_NO_CACHE_DIR": "1",
            "HERMES__RUNTIME__DATA_DIR": str(self.folder / "data"),
            **more,
        }

    def words(self, *words: str) -> list[str]:
        return [str(self.python), "-m", "hermes_core", *words]

    def hermes(self, *words: str, typed: str = "", **environ: str) -> Called:
        """Call `hermes` there."""
        done = subprocess.run(
            self.words(*words),
            input=typed,
            capture_output=True,
            text=True,
            timeout=100,
            cwd=self.folder,
            env=self.environ(**environ),
            check=False,
        )
        return Called(done.returncode, done.stdout, done.stderr)

    def installed(self) -> dict[str, str]:
        """The distributions in this environment itself, by name."""
        found = {}
        for one in self.site.glob("*.dist-info"):
            name, version = one.name.removesuffix(".dist-info").rsplit("-", 1)
            found[name] = version
        return found

    def files(self) -> set[str]:
        """Every file in the environment's site-packages, to see that nothing changed."""
        return {
            str(one.relative_to(self.site))
            for one in self.site.rglob("*")
            if one.is_file() and "__pycache__" not in one.parts
        }

    def clear(self) -> None:
        """Take everything out that tests put in."""
        for one in self.site.iterdir():
            if one.name != "outer.pth":
                shutil.rmtree(one) if one.is_dir() else one.unlink()
        for folder in (self.folder / "data", self.venv / ".hermes-install", self.links):
            shutil.rmtree(folder, ignore_errors=True)
        self.links.mkdir()
        (self.folder / "hermes.toml").unlink(missing_ok=True)


def wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    *,
    requires: Sequence[str] = (),
    plugin: str | None = None,
    commands: Sequence[str] = ("greet",),
    code: str | None = None,
    metadata: Mapping[str, str] | None = None,
    more: Mapping[str, str] | None = None,
) -> Path:
    """Write a wheel; with `plugin` it has an entry point of that name and brings these commands.

    `more` are further files by their path.
    """
    stem = name.replace("-", "_")
    info = f"{stem}-{version}.dist-info"
    headers = {"Metadata-Version": "2.1", "Name": name, "Version": version, **(metadata or {})}
    lines = [
        *(f"{key}: {value}" for key, value in headers.items()),
        *(f"Requires-Dist: {one}" for one in requires),
    ]
    files = {
        **(more or {}),
        f"{stem}.py": (code or CODE.format(names=tuple(commands))) if plugin else "",
        f"{info}/METADATA": "\n".join(lines) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if plugin:
        files[f"{info}/entry_points.txt"] = f"[hermes]\n{plugin} = {stem}:Plugin\n"
    record = "".join(f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in files.items())
    path = folder / f"{stem}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(file, text)
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
