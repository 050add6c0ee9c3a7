"""`hermes control list`, `set` and `reset`: what is changed about commands and tools, here or everywhere.

A Hermes that runs knows of a change from the next command or turn on; none needs to run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hermes_core.cli.common import debugging, load_config, print_json, print_line
from hermes_core.errors import HermesError

if TYPE_CHECKING:
    from hermes_core.config import Config
    from hermes_core.rules import Rules

__all__ = ["LIST", "RESET", "SET"]


class _Command(NamedTuple):
    """A command of the group."""

    NAME: tuple[str, ...]
    HELP: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON: a list, one object for each rule")


def _list(options: argparse.Namespace) -> int:
    """Print every rule."""
    rules = _rules(load_config(options)).listing()
    if options.json:
        print_json(
            [
                {
                    "at": place,
                    "kind": kind[:-1],
                    "of": name,
                    "enabled": rule.enabled,
                    "name": rule.name or None,
                    "role": rule.role or None,
                }
                for place, kind, name, rule in rules
            ]
        )
        return 0
    for place, kind, name, rule in rules:
        print_line(f"{_shown(kind, name)} {_where(place)}: {rule}")
    if not rules:
        print_line("Nothing was changed.")
    return 0


def _thing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("thing", metavar="NAME", help="/COMMAND or TOOL, as its plugin calls it")
    parser.add_argument("--at", metavar="ADDRESS", help="one conversation; without it, everywhere")


def _set_arguments(parser: argparse.ArgumentParser) -> None:
    _thing(parser)
    parser.add_argument("--enabled", choices=("yes", "no"), help="whether it is there")
    parser.add_argument("--name", metavar="NEW", help="what it is called")
    parser.add_argument("--role", choices=("user", "admin", "owner"), help="who may use it")


def _set(options: argparse.Namespace) -> int:
    """Change something about a command or tool."""
    config = load_config(options)
    keys: dict[str, Any] = {
        "enabled": None if options.enabled is None else options.enabled == "yes",
        "name": options.name.removeprefix("/") if options.name else None,
        "role": options.role,
    }
    if all(value is None for value in keys.values()):
        raise HermesError("Nothing is to be changed.", "Give --enabled, --name or --role.")
    place, kind, name = _meant(options)
    known = _known(config, kind, debugging(options))
    if name not in known:
        import difflib

        near = difflib.get_close_matches(name, known, 1)
        hint = f"Did you mean {_shown(kind, near[0])}?" if near else "See: hermes plugins list"
        raise HermesError(f"There is no {kind[:-1]} {_shown(kind, name)}.", hint)
    if keys["name"] in known:
        raise HermesError(
            f"There is a {kind[:-1]} {_shown(kind, keys['name'])} already.", "Choose another name."
        )
    rule = _rules(config).change(place, kind, name, **keys)
    print_line(f"{_shown(kind, name)} {_where(place)}: {rule}")
    return 0


def _reset(options: argparse.Namespace) -> int:
    """Let a command or tool be as its plugin made it."""
    place, kind, name = _meant(options)
    if not _rules(load_config(options)).reset(place, kind, name):
        said = f"Nothing was changed about {_shown(kind, name)} {_where(place)}."
        raise HermesError(said, "See: hermes control list")
    print_line(f"{_shown(kind, name)} {_where(place)}: as its plugin made it")
    return 0


def _meant(options: argparse.Namespace) -> tuple[str, str, str]:
    """Place, kind and name."""
    from hermes_core.messages import Address
    from hermes_core.rules import EVERYWHERE

    place = EVERYWHERE if options.at is None else str(Address.parse(options.at))
    kind = "commands" if options.thing.startswith("/") else "tools"
    return place, kind, options.thing.removeprefix("/")


def _known(config: Config, kind: str, debug: bool) -> list[str]:
    from hermes_core.cli.logs import log_nowhere
    from hermes_core.plugins import load

    if not debug:
        log_nowhere()
    plugins = load(config)
    return list(plugins.tools) if kind == "tools" else [one.name for one in plugins.commands.all()]


def _rules(config: Config) -> Rules:
    from hermes_core.rules import Rules

    return Rules(config.runtime.data_dir)


def _shown(kind: str, name: str) -> str:
    return f"/{name}" if kind == "commands" else name


def _where(place: str) -> str:
    from hermes_core.rules import EVERYWHERE

    return "everywhere" if place == EVERYWHERE else f"at {place}"


LIST: Final = _Command(
    ("control", "list"), "list what is changed about commands and tools", _list_arguments, _list
)
SET: Final = _Command(
    ("control", "set"),
    "switch a command or tool off or on, rename it, say who may use it",
    _set_arguments,
    _set,
)
RESET: Final = _Command(
    ("control", "reset"), "let a command or tool be as its plugin made it", _thing, _reset
)
