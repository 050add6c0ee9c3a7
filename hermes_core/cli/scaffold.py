"""`hermes plugins new` and `hermes adapters new`: a package to begin with, which works and passes the kit at once."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from hermes_core.cli.common import print_line

__all__ = ["ADAPTER", "PLUGIN"]


class _Command(NamedTuple):
    """A command of the group."""

    NAME: tuple[str, ...]
    HELP: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="its name: a-z, 0-9 and _")
    parser.add_argument(
        "--into", metavar="FOLDER", default=".", help="where its folder is made (default: here)"
    )


def _new(kind: str) -> Callable[[argparse.Namespace], int]:
    def run(options: argparse.Namespace) -> int:
        """Write the files, and say what comes next."""
        from hermes_core.packages.scaffold import needed_for_tests, scaffold

        folder = scaffold(kind, options.name, Path(options.into))
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                print_line(str(path))
        lacks, install = needed_for_tests(kind)
        if lacks:
            print_line(f"Its tests need {' and '.join(lacks)}: {install}")
        print_line(f"To test it:    cd {folder} && pytest")
        print_line(f"To check it:   hermes plugins check {folder}")
        print_line(f"To install it: hermes plugins install --editable {folder}")
        return 0

    return run


PLUGIN: Final = _Command(
    ("plugins", "new"), "begin a plugin: a folder with code and tests", _arguments, _new("plugin")
)
ADAPTER: Final = _Command(
    ("adapters", "new"),
    "begin an adapter: a folder with code, a fake platform and tests",
    _arguments,
    _new("adapter"),
)
