"""The tree of commands and their options, and the reading of a command line.

What people get wrong is answered in two lines: what is wrong, and the nearest right word or where
the help is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final, NoReturn, Protocol

import hermes_core
from hermes_core.cli import (
    chat,
    config_show,
    control,
    conversations,
    doctor,
    init,
    jobs,
    pair,
    plugins_check,
    plugins_info,
    plugins_install,
    plugins_list,
    plugins_reload,
    plugins_switch,
    run,
    scaffold,
)

__all__ = ["COMMANDS", "GROUPS", "Command", "parse"]


class Command(Protocol):
    """What each command's module has: `NAME` is its words on the command line."""

    @property
    def NAME(self) -> tuple[str, ...]:  # noqa: N802 - a module's constant
        """Its words on the command line."""

    @property
    def HELP(self) -> str:  # noqa: N802 - a module's constant
        """One line about it."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options."""

    def run(self, options: argparse.Namespace) -> int:
        """Do it; gives the exit code. `HermesError` for what went wrong."""


COMMANDS: Final[tuple[Command, ...]] = (
    run,
    chat,
    config_show,
    plugins_list,
    plugins_info,
    plugins_install.INSTALL,
    plugins_install.REMOVE,
    plugins_switch.ENABLE,
    plugins_switch.DISABLE,
    plugins_reload,
    plugins_check,
    scaffold.PLUGIN,
    scaffold.ADAPTER,
    jobs.LIST,
    jobs.SHOW,
    jobs.STOP,
    control.LIST,
    control.SET,
    control.RESET,
    pair.LIST,
    pair.APPROVE,
    pair.REVOKE,
    conversations.LIST,
    conversations.SHOW,
    conversations.EXPORT,
    init,
    doctor,
)
"""Every command, in the order in which the help lists them."""

GROUPS: Final = {
    "adapters": "packages for chat platforms",
    "config": "what is set, and where it comes from",
    "conversations": "what was said, and what waits",
    "jobs": "what runs outside of turns",
    "control": "what is changed about commands and tools",
    "pair": "who may talk to the agent",
    "plugins": "the packages that are installed",
}
"""Words that need a second one; without it the first command of the group is meant."""


class _Parser(argparse.ArgumentParser):
    """Errors in two lines and with exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line, and leave."""
        self.exit(2, f"{self.prog}: {message}\nSee: {self.prog} --help\n")


def parse(argv: Sequence[str]) -> tuple[Command, argparse.Namespace]:
    """The command that is meant and its options; leaves the process for `--help`, `--version` and errors."""
    words = _complete(list(argv))
    parser = _Parser(prog="hermes", description="One agent on several chat platforms.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"hermes {hermes_core.__version__}")
    top = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    groups = {}
    for command in COMMANDS:
        *group, name = command.NAME
        place = top
        if group:
            help_ = GROUPS[group[0]]
            if group[0] not in groups:
                inner = top.add_parser(
                    group[0], help=help_, description=help_.capitalize() + ".", allow_abbrev=False
                )
                groups[group[0]] = inner.add_subparsers(title="commands", metavar="COMMAND", required=True)
            place = groups[group[0]]
        own = place.add_parser(
            name, help=command.HELP, description=command.HELP.capitalize() + ".", allow_abbrev=False
        )
        _common(own)
        command.arguments(own)
        own.set_defaults(command=command, parser=own)
    options, strange = parser.parse_known_args(words)
    if strange:
        options.parser.error(f"{strange[0][:60]!r} does not belong here")
    return options.command, options


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="the config file; by default $HERMES_CONFIG, ./hermes.toml, the user's",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting for this start, e.g. model.provider=demo",
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks; the same as HERMES_DEBUG=1")


def _complete(words: list[str]) -> list[str]:
    """Put in what may be left out: the second word of a group. Leaves for a word that no command has."""
    tops = list(dict.fromkeys(command.NAME[0] for command in COMMANDS))
    if not words or words[0] in ("-h", "--help", "--version"):
        return words
    if words[0] not in tops:
        _leave([], words[0], tops)
    if words[0] in GROUPS:
        seconds = [command.NAME[1] for command in COMMANDS if command.NAME[0] == words[0]]
        if len(words) == 1 or (words[1].startswith("-") and words[1] not in ("-h", "--help")):
            return [words[0], seconds[0], *words[1:]]
        if not words[1].startswith("-") and words[1] not in seconds:
            _leave(words[:1], words[1], seconds)
    return words


def _leave(before: list[str], word: str, known: list[str]) -> NoReturn:
    import difflib  # only an error needs it

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    call = " ".join(["hermes", *before])
    hint = (
        f"Did you mean: {call} {near[0]}?" if near else f"There are: {', '.join(known)}. See: {call} --help"
    )
    print(f"{call}: there is no command {word[:60]!r}.\n{hint}", file=sys.stderr)  # noqa: T201
    raise SystemExit(2)
