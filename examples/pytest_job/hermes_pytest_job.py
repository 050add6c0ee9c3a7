"""Runs a project's tests as a job: the agent goes on talking, and is told "412 passed, 3 failed (path)"."""

import re
import sys
from pathlib import Path
from typing import Annotated

import msgspec

from hermes_core.errors import ToolError
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Role
from hermes_core.tools import AsyncTool, Program, async_tool

_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)\b")
_BROKEN = re.compile(r"^(?:FAILED|ERROR) ([^\s:]+)", re.MULTILINE)


class PytestSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[plugins.pytest_job]`: where the project is."""

    project: Annotated[str, msgspec.Meta(min_length=1)] = "."


def summary(code: int | None, text: str) -> str:
    """One line about a run that ended, made of the end of its output."""
    counts = {kind.rstrip("s"): number for number, kind in _COUNT.findall(text.rstrip().rpartition("\n")[2])}
    said = [f"{counts[kind]} {kind}" for kind in ("passed", "failed", "error") if kind in counts]
    broken = list(dict.fromkeys(_BROKEN.findall(text)))
    more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
    where = f" ({broken[0]}{more})" if broken else ""
    return ", ".join(said) + where if said else f"no tests ran (exit code {code})"


class PytestJobPlugin:
    Settings = PytestSettings

    def __init__(self, settings: PytestSettings) -> None:
        self._project = Path(settings.project).expanduser()

    @hookimpl
    def hermes_async_tools(self) -> list[AsyncTool]:
        # Exit code 1 says that tests failed, and that is what was to be found out: the job is done.
        @async_tool("tests", deadline="1h", role=Role.ADMIN, done_codes=(0, 1), summary=summary)
        def tests(path: str = "") -> Program:
            """Run the project's tests with pytest.

            Args:
                path: A file or folder below the project, or a node id; empty for all.
            """
            if path.startswith("-"):
                raise ToolError("That is an option, and not a path.")
            own = self._project / ".venv" / "bin" / "python"
            python = str(own) if own.exists() else sys.executable
            words = (python, "-m", "pytest", "-q", "-rfE", "--color=no", *([path] if path else []))
            return Program(words, cwd=str(self._project), output_limit=1_000_000)

        return [tests]
