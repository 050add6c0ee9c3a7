"""`hermes chat`: a conversation in the terminal, or over a pipe."""

from __future__ import annotations

import argparse
import sys

from hermes_core.cli.common import load_config

NAME: tuple[str, ...] = ("chat",)
HELP = "talk to the agent in this terminal, or over a pipe: one message a line"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--name", metavar="NAME", help="the conversation to be in; each name is one of its own"
    )
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="warning",
        help="how much to log in hermes.log in the data folder (default: warning)",
    )


def run(options: argparse.Namespace) -> int:
    """Start the terminal adapter alone and stay until the conversation is left or the input ends.

    The terminal belongs to the conversation: the log goes to a file, and Ctrl+C to the adapter.
    """
    config = load_config(options)
    from hermes_core.cli.logs import log_to_file

    log_to_file(options.log_level, config)
    from hermes_core.cli.serving import serve

    piped = sys.stdin is None or not sys.stdin.isatty()
    own = {} if options.name is None else {"name": options.name}
    return serve(config, adapters=("terminal",), options={"terminal": own}, interruptible=piped)
