"""`hermes plugins reload`: another version of one plugin, in the program that runs."""

from __future__ import annotations

import argparse

from hermes_core.cli.common import load_config, print_line
from hermes_core.errors import HermesError

NAME: tuple[str, ...] = ("plugins", "reload")
HELP = "load a plugin anew in the program that runs, which goes on meanwhile"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", metavar="NAME", help="the plugin")


def run(options: argparse.Namespace) -> int:
    """Ask the program that has this data folder, and print what it did. `HermesError` where the old version goes on."""
    config = load_config(options)
    from hermes_core.control import ask

    try:
        print_line(ask(config.runtime.data_dir, "reload", name=options.name))
    except ProcessLookupError:
        raise HermesError(
            f"No program runs with the data folder {config.runtime.data_dir}.",
            "The next start loads every plugin as it is installed then.",
        ) from None
    return 0
