"""`hermes plugins install` and `remove`: plugins come into this environment, and leave it."""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from hermes_core.cli.common import load_config, overrides, print_line, say
from hermes_core.errors import ConfigError

if TYPE_CHECKING:
    from hermes_core.approvals import Approval

__all__ = ["INSTALL", "REMOVE"]

_SECONDS: Final = 600.0


class _Command(NamedTuple):
    """A command of the group."""

    NAME: tuple[str, ...]
    HELP: str
    arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


class _Progress:
    """Steps as lines on stderr; on a terminal also what pip does at the moment, in a line that is replaced."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def step(self, line: str) -> None:
        """A step begins."""
        self._clear()
        say(line)

    def tell(self, line: str) -> None:
        """A line of pip."""
        if self._live and line.strip():
            shown = "".join(one for one in line.strip() if one.isprintable())[:70]
            sys.stderr.write(f"\r\x1b[2K  {time.monotonic() - self._began:.0f} s  {shown}")
            sys.stderr.flush()

    def _clear(self) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def _time_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        default=f"{_SECONDS:.0f}",
        help="how long it may take at most (default: 10m)",
    )


def _install_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="WHAT", help="a name, a folder, a wheel or a git URL")
    parser.add_argument(
        "-e",
        "--editable",
        action="store_true",
        help="a folder: what is changed there counts at the next start",
    )
    parser.add_argument(
        "--allow-downgrade", action="store_true", help="an older version may take the place of a newer one"
    )
    _time_argument(parser)


def _install(options: argparse.Namespace) -> int:
    """Install a plugin; it is listed then, and not enabled (P4)."""
    load_config(options)
    from hermes_core.packages import Options, install, look

    how = Options(_seconds(options.timeout), options.allow_downgrade, options.editable)
    with _Progress() as progress:
        done = install(options.what, how, progress.step, progress.tell)
    names = ", ".join(done.plugins)
    if not done.new:
        print_line(f"{done.package} {done.version} is installed already.")
        return 0
    for one in done.changes[:-1]:
        print_line(f"{one.name} {one.version}" + (f" (was {one.old})" if one.old else ""))
    was = next((one.old for one in done.changes if one.name == done.package and one.old), None)
    print_line(
        f"{done.package} {done.version} is installed" + (f" (was {was})" if was else "") + f": {names}"
    )
    config = load_config(options)
    for name in done.plugins:
        if not config.enabled(name):
            print_line(
                f"It is not enabled. To see what it registers, and enable it: hermes plugins enable {name}"
            )
        elif more := config.unapproved(name, look(name, options.config, overrides(options)).registers):
            print_line(f"It registers more than was approved ({', '.join(more)}), and does not run until you")
            print_line(f"have looked at that: hermes plugins enable {name}")
    return 0


def _remove_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the plugin, or the package that brings it")
    _time_argument(parser)


def _remove(options: argparse.Namespace) -> int:
    """Remove a plugin's package, and forget what was approved for it."""
    config = load_config(options)
    from hermes_core.approvals import change
    from hermes_core.packages import remove

    def leave(names: tuple[str, ...]) -> Callable[[], None]:
        """What was approved goes first: a plugin that is left when this is cut off is one that is off."""
        for name in names:
            if name in config.named() and config.enabled(name):
                place = config.place(f"plugins.{name}") or config.place(f"adapters.{name}")
                raise ConfigError(
                    f"{place} enables {name}, and without its package nothing would start.",
                    f"Take what it says of {name} out first.",
                )
        approved = {
            name: config.approvals.plugins[name] for name in names if name in config.approvals.plugins
        }
        for name in approved:
            change(config.runtime.data_dir, name, lambda now: None)

        def undo() -> None:
            for name, approval in approved.items():
                change(config.runtime.data_dir, name, functools.partial(_as_before, approval))

        return undo

    with _Progress() as progress:
        gone = remove(options.name, _seconds(options.timeout), progress.step, progress.tell, leave)
    print_line(f"{gone.package} is removed. What it needed is still installed.")
    return 0


def _as_before(before: Approval, now: Approval | None) -> Approval:
    return before


def _seconds(text: str) -> float:
    from hermes_core.config import duration

    try:
        seconds = duration(text)
    except ValueError as error:
        raise ConfigError(f"--timeout {text[:40]}: {error}.") from error
    if seconds <= 0:
        raise ConfigError("--timeout must be longer than nothing.")
    return seconds


INSTALL: Final = _Command(
    ("plugins", "install"),
    "install a plugin from a name, folder, wheel or git URL",
    _install_arguments,
    _install,
)
REMOVE: Final = _Command(
    ("plugins", "remove"), "take a plugin's package out again", _remove_arguments, _remove
)
