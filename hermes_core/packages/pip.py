"""Pip: runs pip for this environment, within a time, and says in plain words why it failed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from hermes_core.errors import PackageError

__all__ = ["Pip", "TookTooLong", "explained"]

_ALWAYS: Final = (
    "--no-input",
    "--disable-pip-version-check",
    "--no-color",
    "--retries",
    "2",
    "--timeout",
    "15",
)
_GRACE: Final = 2.0  # seconds between asking pip to end and ending it
_KEEP: Final = 400  # lines of its output


class TookTooLong(PackageError):
    """Pip was ended before it was done."""


class Pip:
    """The pip of this environment, or one that can work on it: a `pip` or `uv` on the PATH.

    Together its calls have `seconds`; `PackageError` when they are over. `tell` gets each line that pip
    writes, while it works.
    """

    def __init__(self, seconds: float, tell: Callable[[str], None]) -> None:
        self._command = _found()
        self._seconds = seconds
        self._until = time.monotonic() + seconds
        self._tell = tell

    def run(self, words: Sequence[str], what: str, held: Sequence[int] = ()) -> None:
        """Run one command of pip to its end. `what` names the package in errors.

        The descriptors `held` stay open as long as pip runs, whatever becomes of this process: a lock on
        one says that the environment is still being changed.
        """
        call = [*self._command, words[0], *_ALWAYS, *words[1:]]
        if words[0] == "uninstall":  # it knows neither index nor time limits
            call = [*self._command, words[0], *_ALWAYS[:3], *words[1:]]
        try:
            child = subprocess.Popen(
                call,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=tuple(held),
            )
        except OSError as error:
            raise PackageError(f"pip cannot be started: {error.strerror or error}.") from error
        try:
            lines = self._read(child)
        except BaseException:
            _end(child)
            raise
        if lines is None:
            _end(child)
            raise TookTooLong(
                f"{what}: it took longer than {self._seconds:g} s and was given up; nothing was changed.",
                "Is the package index reachable? A longer time: --timeout 30m",
            )
        if child.wait():
            raise explained(what, lines)

    def _read(self, child: subprocess.Popen[bytes]) -> list[str] | None:
        """Its lines, the last few hundred; None when the time is over."""
        assert child.stdout is not None
        lines: list[str] = []
        rest = b""
        with child.stdout, selectors.DefaultSelector() as selector:
            selector.register(child.stdout, selectors.EVENT_READ)
            while True:
                left = self._until - time.monotonic()
                if left <= 0 or not selector.select(left):
                    return None
                piece = os.read(child.stdout.fileno(), 65536)
                if not piece:
                    return lines
                *whole, rest = (rest + piece).split(b"\n")
                for line in whole:
                    text = line.decode("utf-8", "replace").rstrip()
                    lines = [*lines[-_KEEP:], text]
                    self._tell(text)


def _found() -> tuple[str, ...]:
    if importlib.util.find_spec("pip") is not None:
        return (sys.executable, "-m", "pip")
    if (uv := shutil.which("uv")) is not None:
        return (uv, "tool", "run", "pip", "--python", sys.executable)
    if (pip := shutil.which("pip")) is not None:
        return (pip, "--python", sys.executable)
    raise PackageError(
        "There is no pip in this environment, and neither pip nor uv on the PATH.",
        f"Put it there: {sys.executable} -m ensurepip",
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE)
            break
    with contextlib.suppress(ProcessLookupError):  # what it started and did not wait for
        os.killpg(child.pid, signal.SIGKILL)


_UNREACHED: Final = re.compile(
    r"Failed to establish a new connection|Name or service not known|Temporary failure in name resolution"
    r"|Connection refused|Network is unreachable|connection broken|ConnectTimeout|ProxyError|Max retries exceeded"
)
_SILENT: Final = re.compile(r"[Rr]ead timed out|ReadTimeout")
_WORDS: Final[tuple[tuple[re.Pattern[str], str, str], ...]] = (
    (_SILENT, "the package index did not answer in time.", "Try again later; nothing was changed."),
    (
        _UNREACHED,
        "the package index cannot be reached.",
        "Check the network and pip's settings (pip config list).",
    ),
    (
        re.compile(r"No space left on device"),
        "the disk is full.",
        "Free some space, and try again; nothing was changed.",
    ),
    (
        re.compile(r"externally-managed-environment"),
        "this Python belongs to the operating system.",
        "Install Hermes into an environment of its own: python3 -m venv FOLDER",
    ),
    (
        re.compile(
            r"[Ww]heel .*is invalid|BadZipFile|not a zip file|has an invalid wheel|is not a valid wheel filename"
        ),
        "the wheel is broken.",
        "Build it or download it again.",
    ),
    (
        re.compile(r"is not a supported wheel on this platform"),
        "the wheel is for another Python or another system.",
        "Take the one for this machine, or name the package.",
    ),
    (
        re.compile(r"requires a different Python: (.*)"),
        "it is for another version of Python: {0}.",
        "Look for another version of the package.",
    ),
    (
        re.compile(r"No matching distribution found for (.+)"),
        "there is no package {0} that fits, where pip looks for it.",
        "Check the name and the version; nothing was changed.",
    ),
    (
        re.compile(r"(fatal: .+|git clone .* did not run successfully)"),
        "git does not give it: {0}.",
        "Check the URL, and that git may read it.",
    ),
    (
        re.compile(r"Cannot find command 'git'"),
        "there is no git on the PATH.",
        "Install git, or name a folder or a wheel.",
    ),
)


def explained(what: str, lines: Sequence[str]) -> PackageError:
    """The error for what pip wrote before it failed."""
    text = "\n".join(lines)
    if "ResolutionImpossible" in text or "conflict is caused by" in text:
        return PackageError(f"{what}: {_conflict(lines)}", "Nothing was changed.")
    for pattern, said, advice in _WORDS:
        found = pattern.search(text)
        if found is not None:
            return PackageError(
                f"{what}: {said.format(*(one.rstrip('.') for one in found.groups()))}", advice
            )
    if "subprocess-exited-with-error" in text or "Failed to build" in text or "BackendUnavailable" in text:
        return PackageError(f"{what}: it cannot be built: {_cause(lines)}.", "Nothing was changed.")
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return PackageError(f"{what}: {(errors or ['pip failed'])[-1][:300]}", "Nothing was changed.")


def _conflict(lines: Sequence[str]) -> str:
    at = next((n for n, line in enumerate(lines) if "conflict is caused by" in line), None)
    if at is None:
        return "its requirements contradict each other."
    needs = []
    for line in lines[at + 1 :]:
        if not line.strip():
            break
        needs.append(line.strip())
    return f"what it needs does not go together: {'; '.join(needs)}."


def _cause(lines: Sequence[str]) -> str:
    """The last line of a traceback or message of a build, which pip indents."""
    inner = [line.strip() for line in lines if line.startswith("      ") and line.strip()]
    plain = [line for line in inner if not line.startswith(("[end of output]", "note:", "hint:"))]
    return (plain or ["its build step failed"])[-1][:300].rstrip(".")
