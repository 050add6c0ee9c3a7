"""Remove: takes a plugin's package out of the environment, unless something needs it."""

from __future__ import annotations

import difflib
import importlib.metadata
from collections.abc import Callable

from packaging.utils import canonicalize_name

from hermes_core.config import DEFAULT_PACKAGES
from hermes_core.errors import PackageError
from hermes_core.packages.conflicts import needed_by
from hermes_core.packages.environment import Environment
from hermes_core.packages.pip import Pip

__all__ = ["installed_as", "plugin_of", "remove"]


def installed_as(plugin: str) -> importlib.metadata.Distribution:
    """The distribution that brings this plugin, by the name of the plugin or its own; `PackageError` for none."""
    points = list(importlib.metadata.entry_points(group="hermes"))
    for point in points:
        if point.dist is not None and (
            point.name == plugin or canonicalize_name(point.dist.name) == canonicalize_name(plugin)
        ):
            return point.dist
    near = difflib.get_close_matches(plugin, [point.name for point in points], 1)
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


def remove(
    plugin: str, seconds: float, say: Callable[[str], None], tell: Callable[[str], None]
) -> tuple[str, ...]:
    """Uninstall what brings `plugin`; gives the names of the plugins that are gone with it.

    `PackageError` where other packages need it, or where it is one that Hermes comes with.
    """
    environment = Environment()
    with environment.changing() as held:
        pip = Pip(seconds, tell)
        finished = environment.finish(pip, held)
        if finished is not None:
            say(
                f"Finished the installation of {finished.package} {finished.version}, which had been cut off."
            )
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
        pip.run(("uninstall", "--yes", found.name), found.name, (held,))
        environment.done()
    return names
