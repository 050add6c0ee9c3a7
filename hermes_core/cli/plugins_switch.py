"""`hermes plugins enable` and `disable`: what is kept beside the store, never in hermes.toml (P4)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from hermes_core.cli.common import load_config, overrides, print_line
from hermes_core.errors import ConfigError, PackageError

if TYPE_CHECKING:
    from hermes_core.config import Config

__all__ = ["DISABLE", "ENABLE"]


class _Command(NamedTuple):
    """A command of the group."""

    NAME: tuple[str, ...]
    HELP: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def _enable_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the plugin")
    parser.add_argument("--yes", action="store_true", help="approve what it registers without being asked")


def _enable(options: argparse.Namespace) -> int:
    """Show what the plugin registers, ask, and keep the answer."""
    config = load_config(options)
    from hermes_core.approvals import Approval, change, listed
    from hermes_core.cli.plugins_info import print_registered
    from hermes_core.packages import look
    from hermes_core.packages.remove import installed_as, plugin_of

    package = installed_as(options.name)
    name = plugin_of(package, options.name)
    _refuse_written(config, name, on=True)
    seen = look(name, options.config, overrides(options))
    if seen.problem:
        why = config.secrets.hide(seen.problem)
        raise PackageError(f"{name} cannot be enabled: {why}", f"See: hermes plugins info {name}")
    kept = config.approvals.plugins.get(name)
    more = config.approvals.beyond(name, seen.registers)
    if config.enabled(name) and not more and (kept is not None or _is_on_anyway(config, name)):
        print_line(f"{name} is enabled already.")
        return 0
    print_line(f"{name} {package.version} registers:")
    print_registered(seen)
    if seen.taken:
        print_line(f"    left out: {seen.taken}")
    if kept is not None and kept.approved and more:
        print_line(f"    new since it was approved ({kept.version}): {', '.join(more)}")
    if not options.yes and not _agreed(f"Enable {name}? [y/N] "):
        print_line(f"{name} stays off." if kept is None or not kept.enabled else f"{name} stays as it was.")
        return 1
    approval = Approval(True, package.name, package.version, listed(seen.registers))
    change(config.runtime.data_dir, name, lambda old: approval)
    print_line(f"{name} is enabled, from the next start on.")
    return 0


def _disable_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the plugin")


def _disable(options: argparse.Namespace) -> int:
    """Switch a plugin off; also one that comes with Hermes, or whose package is gone."""
    config = load_config(options)
    from hermes_core.approvals import Approval, change
    from hermes_core.packages.remove import installed_as, plugin_of

    name = options.name
    if name not in config.approvals.plugins:
        name = plugin_of(installed_as(name), name)
    _refuse_written(config, name, on=False)
    if not config.enabled(name):
        print_line(f"{name} is off already.")
        return 0

    def off(old: Approval | None) -> Approval:
        # what was approved is not asked again when it is switched on: only what is new is
        return Approval(False, *(() if old is None else (old.package, old.version, old.approved)))

    change(config.runtime.data_dir, name, off)
    print_line(f"{name} is off, from the next start on.")
    return 0


def _refuse_written(config: Config, name: str, *, on: bool) -> None:
    """`ConfigError` where somebody wrote the opposite: that goes before, and is not ours to change."""
    for table in ("adapters", "plugins"):
        key = f"{table}.{name}.enabled"
        place = config.place(key)
        if place and config.enabled(name) is not on:
            raise ConfigError(
                f"{place} says {key} = {'false' if on else 'true'}, and that goes before.",
                "Change it there, or take it out.",
            )


def _is_on_anyway(config: Config, name: str) -> bool:
    """Whether it is written, or comes with Hermes: nothing has to be approved."""
    from hermes_core.config import DEFAULT_PACKAGES

    tables = ("adapters", "plugins")
    return any(
        config.place(f"{one}.{name}.enabled") or DEFAULT_PACKAGES.get(f"{one}.{name}") for one in tables
    )


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("Nobody is here to be asked.", "To approve what is listed above: --yes")
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False


ENABLE: Final = _Command(
    ("plugins", "enable"), "show what a plugin registers, ask, and enable it", _enable_arguments, _enable
)
DISABLE: Final = _Command(
    ("plugins", "disable"), "switch a plugin off without removing it", _disable_arguments, _disable
)
