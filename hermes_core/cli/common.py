"""What the commands share: the config of a command line, and lines that go to people."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from hermes_core.errors import ConfigError, HermesError

if TYPE_CHECKING:
    from hermes_core.config import Config

__all__ = [
    "debugging",
    "load_config",
    "log_options",
    "overrides",
    "print_json",
    "print_line",
    "say",
    "unwritten",
]


def debugging(options: argparse.Namespace) -> bool:
    """Whether tracebacks are wanted."""
    return options.debug or os.environ.get("HERMES_DEBUG", "") not in ("", "0")


def log_options(parser: argparse.ArgumentParser, where: str) -> None:
    """Declare `--log-level` and `--log-json`; `where` says where the log of this command goes."""
    parser.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help=f"how much to log {where} (default: [log] level, warning)",
    )
    parser.add_argument(
        "--log-json", action="store_true", help="log one JSON object a line; the same as [log] format"
    )


def load_config(options: argparse.Namespace) -> Config:
    """The config that `--config` and `--set` ask for; the environment is this process's."""
    from hermes_core.config import Config

    return Config.load(options.config, overrides=overrides(options))


def overrides(options: argparse.Namespace) -> dict[str, str]:
    """What every `--set` says, by dotted key."""
    found: dict[str, str] = {}
    for setting in options.set:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(
                f"command line: --set {key[:60]}: a value is missing.", "Write --set section.key=value."
            )
        found[key.strip()] = value
    return found


def print_line(line: str = "") -> None:
    """One line of a command's result, on stdout."""
    _print(line)


def print_json(value: Any) -> None:
    """A command's result for programs, on stdout."""
    _print(json.dumps(value, indent=2, ensure_ascii=False))


def _print(text: str) -> None:
    try:
        print(text)  # noqa: T201 - the command line's output
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritten(error) from error


def unwritten(error: OSError) -> HermesError:
    """What to say where the output takes nothing."""
    return HermesError(f"the output cannot be written: {error.strerror or error}.")


def say(line: str) -> None:
    """One line beside a command's result, on stderr."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201
