"""`hermes doctor`: looks at everything that a run needs, and says what to do about what is broken."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hermes_core.cli.common import debugging, load_config, print_json, print_line

if TYPE_CHECKING:
    from hermes_core.cli.checkup import Owned, Result
    from hermes_core.config import Config

NAME: tuple[str, ...] = ("doctor",)
HELP = "check config, data, model, platforms and plugins, and say what to do"

_SIGNS = {"ok": "ok", "warning": "look", "broken": "BROKEN"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--offline", action="store_true", help="leave out what needs the network: model and platforms"
    )
    parser.add_argument("--json", action="store_true", help="as JSON: a list, one object for each check")


def run(options: argparse.Namespace) -> int:
    """Check everything side by side; 1 where something is broken. Changes nothing, also beside a running Hermes."""
    import asyncio

    from hermes_core.errors import ConfigError

    try:
        config = load_config(options)
    except ConfigError as error:
        return report([_broken("config", error)], as_json=options.json)
    from hermes_core.cli.checkup import checkup, patience
    from hermes_core.cli.logs import log_nowhere

    if not debugging(options):
        log_nowhere()

    async def look() -> list[Result]:
        checks, faults = await gathered(config, offline=options.offline)
        with patience(checks):
            return [*await checkup(checks), *faults]

    return report(asyncio.run(look()), config, as_json=options.json)


async def gathered(config: Config, *, offline: bool = False) -> tuple[list[Owned], list[Result]]:
    """Every check that there is for this config, and what is broken so much that it has none."""
    from hermes_core.cli.checkup import Owned
    from hermes_core.cli.surroundings import looks, of_adapters, of_model, of_plugins
    from hermes_core.errors import ConfigError
    from hermes_core.plugins import load

    try:
        plugins = load(config)
    except ConfigError as error:
        return looks(config), [_broken("plugins", error)]
    checks = looks(config, plugins)
    checks += of_plugins(plugins, config)
    given = [] if offline else await plugins.each_by_name("hermes_checks")
    checks += [Owned(name, check) for name, brought in given for check in brought or ()]
    checks += of_adapters(plugins, config, {owned.plugin for owned in checks}, offline=offline)
    if not offline:
        checks.append(of_model(plugins, config))
    return checks, []


def report(results: list[Result], config: Config | None = None, *, as_json: bool = False) -> int:
    """Print the results without any secret; gives the exit code."""
    import msgspec

    from hermes_core.checks import Level

    hide = config.secrets.hide if config is not None else str
    results = [msgspec.structs.replace(one, text=hide(one.text), advice=hide(one.advice)) for one in results]
    broken = sum(one.level is Level.BROKEN for one in results)
    if as_json:
        shown = [msgspec.to_builtins(one) for one in results]
        print_json([{key: one[key] for key in one if key != "unset"} for one in shown])
        return 1 if broken else 0
    for line in lines(results):
        print_line(line)
    warnings = sum(one.level is Level.WARNING for one in results)
    print_line()
    print_line(
        f"{broken} broken, {warnings} to look at, {len(results) - broken - warnings} well."
        if broken or warnings
        else "All is well."
    )
    return 1 if broken else 0


def lines(results: list[Result]) -> list[str]:
    """One line for each result, and its advice below."""
    width = max((len(one.name) for one in results), default=0)
    shown: list[str] = []
    for one in results:
        shown.append(f"{_SIGNS[one.level]:<6}  {one.name:<{width}}  {one.text}")
        if one.advice:
            shown.append(f"{'':<6}  {'':<{width}}  → {one.advice}")
    return shown


def _broken(name: str, error: Exception) -> Result:
    from hermes_core.checks import Level
    from hermes_core.cli.checkup import Result
    from hermes_core.errors import HermesError

    assert isinstance(error, HermesError)
    return Result(name, None, Level.BROKEN, error.message, error.advice)
