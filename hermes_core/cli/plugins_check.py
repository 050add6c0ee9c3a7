"""`hermes plugins check`: the conformance kit on a folder or an installed plugin (P5)."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
from typing import Any, Final

from hermes_core.cli.common import load_config, print_json, print_line
from hermes_core.errors import PackageError

NAME: tuple[str, ...] = ("plugins", "check")
HELP = "run the conformance kit on a folder or an installed plugin"

_SECONDS: Final = 330.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("what", metavar="WHAT", help="a folder, or the name of an installed plugin")
    parser.add_argument("--json", action="store_true", help="as JSON: an object with plugins and findings")


def run(options: argparse.Namespace) -> int:
    """Print what was found, one line each; 1 where there is something.

    The kit is for authors, and nothing of Hermes imports it: it runs in a process of its own.
    """
    load_config(options)
    words = [sys.executable, "-m", "hermes_core.testing.check"]
    if options.config:
        words += ["--config", options.config]
    for setting in options.set:
        words += ["--set", setting]
    answer = _ask([*words, "--", options.what])
    if answer["problem"]:
        raise PackageError(answer["problem"])
    if options.json:
        print_json({"plugins": answer["plugins"], "findings": answer["findings"]})
        return 1 if answer["findings"] else 0
    for one in answer["findings"]:
        print_line(f"{one['plugin']}: {one['text']}")
    names = ", ".join(answer["plugins"])
    count = len(answer["findings"])
    print_line(f"{names}: {count} finding{'' if count == 1 else 's'}" if count else f"{names}: all is well")
    return 1 if count else 0


def _ask(words: list[str]) -> Any:
    child = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        out, _ = child.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise PackageError(f"The check did not end within {_SECONDS:.0f} s and was ended.") from None
    finally:
        with contextlib.suppress(ProcessLookupError):  # also what it started and left behind
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    try:
        return json.loads(out)
    except ValueError:
        raise PackageError(f"Loading it ended the process (exit code {child.returncode}).") from None
