"""`hermes plugins list`: what is installed, what of it is enabled, and what it brings."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hermes_core.cli.common import debugging, load_config, print_json, print_line, say
from hermes_core.errors import HermesError

if TYPE_CHECKING:
    from hermes_core.config import Config

NAME: tuple[str, ...] = ("plugins", "list")
HELP = "list the installed plugins, what each brings, and what is wrong with it"

_BRINGS = ("adapters", "models", "commands", "tools", "hooks")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="as JSON: a list, one object for each plugin")


def run(options: argparse.Namespace) -> int:
    """Print one line for each plugin; a plugin that failed says why below its line (P2, P4)."""
    config = load_config(options)
    hide = config.secrets.hide
    from hermes_core.cli.logs import log_nowhere
    from hermes_core.config import masked
    from hermes_core.packages import Environment
    from hermes_core.plugins import catalogue

    if not debugging(options):
        log_nowhere()
    plugins = sorted(catalogue(config), key=lambda one: one.name)
    running = _running(config)
    if options.json:
        print_json(
            [
                {
                    "name": one.name,
                    "package": one.package,
                    "version": one.version,
                    "enabled": one.enabled,
                    "problem": hide(one.problem) or running.get(one.name),
                    **{kind: list(getattr(one, kind)) for kind in _BRINGS},
                }
                for one in plugins
            ]
        )
        return 0
    cut_off = Environment().cut_off()
    if cut_off is not None:
        say(f"The {cut_off.what} was cut off. To finish it: hermes {masked(cut_off.again)}")
    width = max((len(one.name) for one in plugins), default=0)
    for one in plugins:
        state = "failed" if one.problem else "enabled" if one.enabled else "off"
        print_line(f"{one.name:<{width}}  {one.version or '-':<8}  {state:<7}  {one.package}".rstrip())
        for kind in _BRINGS:
            names = getattr(one, kind)
            if names:
                print_line(f"    {kind}: {', '.join(names)}")
        if one.problem:
            print_line(f"    problem: {hide(one.problem)}")
        elif one.name in running:
            print_line(f"    problem: {running[one.name]}")
    return 0


def _running(config: Config) -> dict[str, str]:
    """The problems of plugins in the program that runs with this data folder, if one does."""
    from hermes_core.control import ask

    try:
        problems: dict[str, str] = ask(config.runtime.data_dir, "plugins", patience=5.0)
    except (ProcessLookupError, HermesError):  # one that does not answer has its own troubles: its log tells
        return {}
    hide = config.secrets.hide
    return {name: f"in the program that runs: {hide(problem)}" for name, problem in problems.items()}
