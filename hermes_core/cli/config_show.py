"""`hermes config show`: every effective setting and where it came from."""

from __future__ import annotations

import argparse
import json
from typing import Any

from hermes_core.cli.common import load_config, print_json, print_line

NAME: tuple[str, ...] = ("config", "show")
HELP = "show every setting, its value and where it comes from"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="as JSON: a list of key, value and origin")


def run(options: argparse.Namespace) -> int:
    """Print the settings in the order of the reference, secrets never (X2)."""
    config = load_config(options)
    from hermes_core.plugins.finding import check

    check(config)  # a setting that a start would refuse is not one
    settings, hide = config.origins(), config.secrets.hide
    if options.json:
        print_json(
            [
                {
                    "key": one.key,
                    "value": json.loads(hide(_written(one.value))),
                    "origin": one.origin,
                }
                for one in settings
            ]
        )
        return 0
    lines = [(f"{one.key} = {hide(_written(one.value))}", one.origin) for one in settings]
    width = min(60, max(len(line) for line, _ in lines))
    for line, origin in lines:
        print_line(f"{line:<{width}}  # {origin}")
    return 0


def _written(value: Any) -> str:
    """A value as JSON, without passwords in URLs."""
    import msgspec

    from hermes_core.config import masked

    return msgspec.json.encode(masked(value), enc_hook=str).decode()
