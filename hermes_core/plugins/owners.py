"""Owners: which plugin a piece of running code belongs to, told by the files that its package has.

Nothing is looked at before somebody asks: a plugin that behaves costs nothing here. Code of the house
is nobody's; code of a library is attributed to whoever called it.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import importlib.util
import inspect
import os
import sys
import types
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

import hermes_core
from hermes_core.plugins.brought import Brought

__all__ = ["Culprit", "Ground", "Owners", "ground", "home", "place"]

_HOUSE: Final = str(Path(hermes_core.__file__).parent)
_TESTING: Final = str(Path(hermes_core.__file__).parent / "testing")
_STEP: Final = asyncio.Handle._run.__code__  # what the event loop runs stands inside of this one


class Culprit(msgspec.Struct, frozen=True):
    """Whose code stands in a frame: `plugins` is empty for the house itself, and has several names only
    where they share the code. `place` is file, line and function; `inside` is where it went from there."""

    plugins: tuple[str, ...]
    place: str
    inside: str = ""

    def __str__(self) -> str:
        who = f"plugin {' or '.join(self.plugins)}" if self.plugins else "the program itself"
        return f"{who}, {self.place}" + (f" (inside {self.inside})" if self.inside else "")


class Ground(msgspec.Struct, frozen=True):
    """The files of one plugin: single ones, and all under some folders but not under the `libraries` in them."""

    files: frozenset[str]
    folders: tuple[str, ...]
    libraries: tuple[str, ...] = ()

    def holds(self, file: str) -> bool:
        """Whether this file belongs to the plugin."""
        return file in self.files or (_under(file, self.folders) and not _under(file, self.libraries))


def _under(file: str, folders: Iterable[str]) -> bool:
    return any(file.startswith(folder + os.sep) for folder in folders)


def ground(plugin: object | None, point: importlib.metadata.EntryPoint | None = None) -> Ground:
    """The files of the package that this plugin object comes from, and of the rest of its distribution.

    Either may be missing: an object that is not installed, an installed one that could not be made.
    """
    files: set[str] = set()
    folders: set[str] = set()
    module = plugin.__name__ if isinstance(plugin, types.ModuleType) else type(plugin).__module__
    module = module if plugin is not None else ""
    for name in {module, point.module if point is not None else module} - {""}:
        _add_package(name, files, folders)
    if point is not None and point.dist is not None:
        project = _editable(point.dist)
        if project:
            folders.add(project)
        else:
            files.update(_real(one.locate()) for one in point.dist.files or () if one.suffix == ".py")
    import sysconfig  # only who looks for a fault needs it

    installed = {_real(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")}
    libraries = tuple(one for one in installed if _under(one, folders))  # a .venv inside of the project
    return Ground(frozenset(files), tuple(folders), libraries)


def home(plugin: object) -> str:
    """The file of the module that this plugin object comes from, or nothing."""
    module = plugin.__name__ if isinstance(plugin, types.ModuleType) else type(plugin).__module__
    file = getattr(sys.modules.get(module), "__file__", None)
    return _real(file) if file is not None else ""


def _add_package(module: str, files: set[str], folders: set[str]) -> None:
    """The outermost package of `module` that has a file of its own (a namespace is shared with others)."""
    words = module.split(".")
    names = [".".join(words[: count + 1]) for count in range(len(words))]
    if words[0] == hermes_core.__name__:  # the kit brings plugins too: each is a module of its own
        names = names[-1:]
    for name in names:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None:
            real = _real(file)
            if hasattr(sys.modules[name], "__path__"):
                folders.add(str(Path(real).parent))
            else:
                files.add(real)
            return
    # not imported, as far as that goes: where would it be?
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(words[0])
        if spec is not None and spec.origin is not None and spec.has_location:
            real = _real(spec.origin)
            if spec.submodule_search_locations is None:
                files.add(real)
            else:
                folders.add(str(Path(real).parent))


class _Folder(msgspec.Struct):
    editable: bool = False


class _Origin(msgspec.Struct):
    """`direct_url.json` of an installed distribution, as far as it matters here."""

    url: str = ""
    dir_info: _Folder = msgspec.field(default_factory=_Folder)


def _editable(dist: importlib.metadata.Distribution) -> str:
    """The project's folder where it is installed as editable, else nothing."""
    try:
        origin = msgspec.json.decode(dist.read_text("direct_url.json") or "{}", type=_Origin)
    except (msgspec.MsgspecError, OSError):
        return ""
    if not origin.dir_info.editable:
        return ""
    return _real(urllib.parse.unquote(urllib.parse.urlsplit(origin.url).path))


def _real(file: object) -> str:
    return os.path.realpath(str(file))


class Owners:
    """Tells whose code stands in a frame, for the plugins that are loaded at this instant."""

    def __init__(
        self, loaded: Mapping[str, Brought], points: Mapping[str, importlib.metadata.EntryPoint]
    ) -> None:
        self._grounds = {name: ground(one.plugin, points.get(name)) for name, one in loaded.items()}
        self._entries: dict[types.CodeType, tuple[str, ...]] = {}
        for name, one in loaded.items():
            for code in _entries(one):
                self._entries[code] = (*self._entries.get(code, ()), name)

    def of(self, file: str) -> tuple[str, ...]:
        """The plugins that have this file: several where they come from one package."""
        real = _real(file)
        return tuple(name for name, one in self._grounds.items() if one.holds(real))

    def culprit(self, innermost: types.FrameType) -> Culprit:
        """Whose code runs here: the first that is not a library's, seen from the innermost frame outwards."""
        first = place(innermost)
        shared: tuple[str, ...] = ()
        where = first
        for frame in outwards(innermost):
            here = first if frame is innermost else place(frame)
            if _of_house(frame.f_code.co_filename):
                where = where if shared else here
                break
            names = self.of(frame.f_code.co_filename)
            if not names:
                continue
            # a package may bring several plugins: whose entry is it that led here?
            exact = self._entries.get(frame.f_code, ())
            if not shared:
                shared, where = names, here
            if len(names) == 1 or exact:
                shared = exact or names
                break
        return Culprit(shared, where, first if where != first else "")


def outwards(frame: types.FrameType | None) -> Iterator[types.FrameType]:
    """This frame and the ones around it, as far as the event loop's own."""
    while frame is not None and frame.f_code is not _STEP:
        yield frame
        frame = frame.f_back


def place(frame: types.FrameType) -> str:
    """File, line and function; the file without the way to it, which is nobody's business in a chat (X2)."""
    code = frame.f_code
    file = Path(code.co_filename)
    name = f"{file.parent.name}/{file.name}" if file.stem == "__init__" else file.name
    return f"{name}:{frame.f_lineno} in {code.co_qualname}"


def _of_house(file: str) -> bool:
    return file.startswith(_HOUSE + os.sep) and not file.startswith(_TESTING + os.sep)


def _entries(brought: Brought) -> Iterator[types.CodeType]:
    """The code by which a plugin is entered: its hooks, handlers and tools."""
    functions = [
        *(one.function for one in brought.hooks.values()),
        *(one.handler for one in brought.commands),
        *(one.function for one in brought.tools),
        *(one.function for one in brought.async_tools),
    ]
    for function in functions:
        code = getattr(inspect.unwrap(function), "__code__", None)
        if isinstance(code, types.CodeType):
            yield code
