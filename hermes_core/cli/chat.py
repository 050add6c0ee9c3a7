"""`hermes chat`: a conversation in the terminal, or over a pipe."""

from __future__ import annotations

import argparse
import sys

from hermes_core.cli.common import load_config, log_options

NAME: tuple[str, ...] = ("chat",)
HELP = "talk to the agent in this terminal, or over a pipe: one message a line"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--name", metavar="NAME", help="the conversation to be in; each name is one of its own"
    )
    log_options(parser, "in hermes.log in the data folder")


def run(options: argparse.Namespace) -> int:
    """Start the terminal adapter alone and stay until the conversation is left or the input ends.

    The terminal belongs to the conversation: the log goes to a file, and Ctrl+C to the adapter.
    """
    config = load_config(options)
    from hermes_core.cli.logs import chosen, log_to_file

    log_to_file(chosen(config, options), config)
    from hermes_core.cli.serving import serve

    piped = sys.stdin is None or not sys.stdin.isatty()
    own = {} if options.name is None else {"name": options.name}
    return serve(config, adapters=("terminal",), options={"terminal": own}, interruptible=piped)
