"""`hermes pair list`, `approve` and `revoke`: who may talk to the agent besides those whom the config names.

A Hermes that runs knows of a change from the next message on; none needs to run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from hermes_core.cli.common import load_config, print_json, print_line
from hermes_core.errors import HermesError

if TYPE_CHECKING:
    from hermes_core.config import Config
    from hermes_core.people import People

__all__ = ["APPROVE", "LIST", "REVOKE"]

_ROLES: Final = ("user", "admin", "owner")


class _Command(NamedTuple):
    """A command of the group."""

    NAME: tuple[str, ...]
    HELP: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON: one object")


def _list(options: argparse.Namespace) -> int:
    """Print whom the config names, who was let in or put out, and who waits."""
    from hermes_core.messages import Role

    config = load_config(options)
    people, askers, locked = _people(config).listing()
    if options.json:
        print_json(
            {
                "config": {
                    "owners": list(config.access.owners),
                    "admins": list(config.access.admins),
                    "allow": list(config.access.allow),
                },
                "people": [
                    {"id": one.id, "role": one.role.name.lower(), "name": one.name, "since": one.since}
                    for one in people
                ],
                "pending": [{"id": one.id, "name": one.name, "expires": one.expires} for one in askers],
                "locked_until": locked or None,
            }
        )
        return 0
    for key in ("owners", "admins", "allow"):
        named = getattr(config.access, key)
        if named:
            print_line(f"{key} in the config: {', '.join(named)}")
    for one in people:
        word = "put out" if one.role is Role.NOBODY else one.role.name.lower()
        print_line(f"{one.id}  {word}  since {_when(one.since)}  {one.name}".rstrip())
    for asker in askers:
        print_line(f"{asker.id}  waits, code good until {_when(asker.expires)}  {asker.name}".rstrip())
    if locked:
        print_line(f"Too many wrong codes: none is looked at until {_when(locked)}.")
    if not people and not askers:
        print_line("Nobody was let in, and nobody waits. Whoever writes to the agent gets a code for you.")
    return 0


def _approve_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "who", metavar="CODE", help="the code that the person was given; or the person, as PLATFORM:ID"
    )
    parser.add_argument(
        "--role", choices=_ROLES, default="user", help="what the person may do (default: user)"
    )


def _approve(options: argparse.Namespace) -> int:
    """Let in who was given this code, or the person that is named."""
    from hermes_core.messages import Role
    from hermes_core.people import is_person

    people, role = _people(load_config(options)), Role[options.role.upper()]
    person = people.let_in(options.who, role) if is_person(options.who) else people.approve(options.who, role)
    name = f" ({person.name})" if person.name else ""
    print_line(f"{person.id}{name} is let in as {options.role}, from the next message on.")
    return 0


def _revoke_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("who", metavar="ADDRESS", help="the person, as PLATFORM:ID")


def _revoke(options: argparse.Namespace) -> int:
    """Put a person out at once, also one whom a pattern in `allow` lets in."""
    from hermes_core.people import is_person

    config, person = load_config(options), options.who
    if not is_person(person):
        raise HermesError(f"{person[:60]!r} is no person.", "Write PLATFORM:ID; see: hermes pair list")
    people = _people(config)
    if near := people.like(person):
        raise HermesError(f"{person} is an address and no person.", f"Did you mean {near}?")
    for key in ("owners", "admins"):
        if person in getattr(config.access, key):
            raise HermesError(
                f"{person} is named in the config, [access] {key}.", "Take it out there, and start again."
            )
    before = people.revoke(person)
    print_line(
        f"{person} is put out." if before else f"{person} was not let in here, and will not be served."
    )
    return 0


def _people(config: Config) -> People:
    from hermes_core.people import People

    return People(config.runtime.data_dir)


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


LIST: Final = _Command(
    ("pair", "list"), "list who was let in or put out, and who waits", _list_arguments, _list
)
APPROVE: Final = _Command(
    ("pair", "approve"), "let in the person who was given this code", _approve_arguments, _approve
)
REVOKE: Final = _Command(("pair", "revoke"), "put a person out, at once", _revoke_arguments, _revoke)
