"""`hermes run`: every enabled adapter, until a signal says stop."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from hermes_core.cli.common import debugging, load_config, log_options, say

if TYPE_CHECKING:
    from hermes_core.runtime import Door

NAME: tuple[str, ...] = ("run",)
HELP = "start every enabled adapter and serve until stopped"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    log_options(parser, "on stderr")


def run(options: argparse.Namespace) -> int:
    """Serve; one line on stderr when all adapters are up or have failed for good."""
    config = load_config(options)
    from hermes_core.cli.logs import chosen, log_to_stderr
    from hermes_core.cli.serving import serve

    log_to_stderr(chosen(config, options), config.secrets, debugging(options))
    doors: list[Door] = []
    if config.given("http"):
        from hermes_core import http  # a start without a server does without its libraries

        http.check(config)
        doors.append(http.serve)
    return serve(config, on_ready=lambda names: say(f"ready: {names}"), doors=doors)
