"""Packages of npm for a test: there within a minute, or one line that says why not."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["NotInstalled", "install"]

LONGEST: Final = 60.0  # seconds for everything; npm's own patience is many minutes
SETTINGS: Final = {  # in the environment, because a package's own script may call npm again
    "npm_config_audit": "false",
    "npm_config_fetch_retries": "1",
    "npm_config_fetch_retry_maxtimeout": "2000",
    "npm_config_fetch_retry_mintimeout": "500",
    "npm_config_fetch_timeout": "10000",
    "npm_config_fund": "false",
    "npm_config_prefer_offline": "true",
    "npm_config_update_notifier": "false",
}
AROUND: Final = (
    "code ",
    "errno ",
    "syscall ",
    "A complete log",
    "Log files were not",
)  # lines that say nothing


class NotInstalled(Exception):
    """The packages are not there; the text is one line."""


def install(folder: Path, packages: Sequence[str], longest: float = LONGEST, **settings: str) -> Path:
    """Install into `folder/node_modules`, once: a mark says that it was completed.

    `NotInstalled` after `longest` seconds at the latest, with nothing of npm left running. `settings` are
    npm's own, for the environment.
    """
    modules, mark = folder / "node_modules", folder / "complete"
    if mark.exists():
        return modules
    process = subprocess.Popen(
        ["npm", "install", "--prefix", str(folder), *packages],
        env={**os.environ, **SETTINGS, **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, said = process.communicate(timeout=longest)
        why = _why(said, process.returncode)
    except subprocess.TimeoutExpired:
        why = f"not done after {longest:g} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
    if why:
        raise NotInstalled(f"npm could not install {' '.join(packages)}: {why}")
    mark.touch()
    return modules


def _why(said: str, code: int) -> str:
    """What npm says of its failure, on one line; empty where there was none."""
    lines = (line.removeprefix("npm error ").strip() for line in said.splitlines() if "npm error " in line)
    telling = next((line for line in lines if line and not line.startswith(AROUND)), f"exit code {code}")
    return telling if code else ""
