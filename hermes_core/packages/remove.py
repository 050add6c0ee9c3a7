"""Remove: takes a plugin's package out of the environment, unless something needs it."""

from __future__ import annotations

import difflib
import importlib.metadata
from collections.abc import Callable

import msgspec
from packaging.utils import canonicalize_name

from hermes_core.config import DEFAULT_PACKAGES
from hermes_core.errors import PackageError
from hermes_core.packages.conflicts import needed_by
from hermes_core.packages.environment import Environment, Pending, uninterrupted
from hermes_core.packages.pip import Pip

__all__ = ["Removed", "installed_as", "plugin_of", "remove"]


def installed_as(plugin: str) -> importlib.metadata.Distribution:
    """The distribution that brings this plugin, by the name of the plugin or its own; `PackageError` for none."""
    points = list(importlib.metadata.entry_points(group="hermes"))
    for point in points:
        if point.dist is not None and (
            point.name == plugin or canonicalize_name(point.dist.name) == canonicalize_name(plugin)
        ):
            return point.dist
    near = difflib.get_close_matches(plugin, [point.name for point in points], 1, 0.7)
    raise PackageError(
        f"There is no plugin {plugin[:60]!r} installed.",
        f"Did you mean {near[0]!r}?" if near else "See: hermes plugins list",
    )


def plugin_of(package: importlib.metadata.Distribution, asked: str) -> str:
    """Which of its plugins is meant: the one of that name, or the only one; `PackageError` where it is open."""
    names = [point.name for point in package.entry_points if point.group == "hermes"]
    if asked in names:
        return asked
    if len(names) == 1:
        return names[0]
    raise PackageError(f"{package.name} brings several plugins.", f"Name one: {', '.join(names)}")


class Removed(msgspec.Struct, frozen=True):
    """What is gone: the package, and the plugins that it brought."""

    package: str
    plugins: tuple[str, ...]


def remove(
    plugin: str,
    seconds: float,
    say: Callable[[str], None],
    tell: Callable[[str], None],
    leave: Callable[[tuple[str, ...]], Callable[[], None]],
) -> Removed:
    """Uninstall what brings `plugin`.

    `leave` gets the names of the plugins that will be gone, right before anything is changed; it may raise
    instead, and gives what takes it back where pip refuses. `PackageError` where other packages need it, or
    where it is one that Hermes comes with. What was cut off before is finished first, and where that was this
    very removal, it is all there is to do.
    """
    environment = Environment()
    with environment.changing() as held:
        pip = Pip(seconds, tell)
        finished = environment.finish(pip, held, say)
        if finished is not None and finished.removes and finished.is_called(plugin):
            return Removed(finished.package, finished.plugins)
        found = installed_as(plugin)
        names = tuple(point.name for point in found.entry_points if point.group == "hermes")
        if any(key.split(".")[1] in names for key in DEFAULT_PACKAGES):
            raise PackageError(
                f"{found.name} comes with Hermes and cannot be removed.",
                f"It can be switched off: hermes plugins disable {names[0]}",
            )
        needs = needed_by(found.name, environment.have())
        if needs:
            raise PackageError(
                f"{found.name} cannot be removed: {', '.join(needs)} would no longer work.",
                "Remove what needs it first.",
            )
        say(f"Removing {found.name} {found.version} …")
        files = environment.files(found)
        pending = Pending(
            plugin, found.name, found.version, (found.name,), removes=True, files=files, plugins=names
        )
        with uninterrupted():
            _take_out(pending, environment, pip, held, leave(names))
    return Removed(pending.package, names)  # what was found can no longer be asked


def _take_out(
    pending: Pending, environment: Environment, pip: Pip, held: int, undo: Callable[[], None]
) -> None:
    environment.begin(pending)
    try:
        pip.run(("uninstall", "--yes", pending.package), pending.package, (held,))
    except PackageError as error:
        if environment.whole(pending):
            environment.done()
            undo()
            raise
        raise PackageError(  # the journal stays
            f"{pending.package} is removed by halves: pip did not come to its end.",
            f"To finish it: hermes {pending.again}",
        ) from error
    environment.done()
