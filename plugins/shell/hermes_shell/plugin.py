"""What `hermes` loads: the tools `run_command` and `start_command`, and a sentence of the system prompt on them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from hermes_core.checks import Check, Finding
from hermes_core.config import Config
from hermes_core.errors import ConfigError, HermesError
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Address, Role
from hermes_core.tools import AsyncTool, Program, Tool, async_tool, tool

__all__ = ["ShellPlugin", "ShellSettings"]

_LONGEST: Final = 3600.0  # seconds that a blocking command may take
_USUAL: Final = ("git", "grep", "find", "python3")  # programs that a model reaches for first
_SECRET: Final = re.compile(
    r"(?:^|_)(?:TOKEN|KEY|SECRET|CREDENTIAL)S?$|PASSWORD|PASSWD|^HERMES__", re.IGNORECASE
)

Seconds = Annotated[float, msgspec.Meta(gt=0, le=_LONGEST)]


class ShellSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[plugins.shell]`; the README says what each key means."""

    approval: Literal["ask", "never"] = "ask"
    cwd: str = ""
    timeout: Seconds = 60.0
    output_limit: Annotated[int, msgspec.Meta(ge=1000)] = 20_000
    job_output_limit: Annotated[int, msgspec.Meta(ge=1000)] = 1_000_000
    hide: tuple[str, ...] = ()


class ShellPlugin:
    """Lets owners and admins have the agent run commands on this machine."""

    Settings = ShellSettings

    def __init__(self, settings: ShellSettings) -> None:
        self._settings = settings
        self._hidden: tuple[str, ...] = settings.hide
        self._approval = _command if settings.approval == "ask" else False
        self._folder = Path(settings.cwd).expanduser() if settings.cwd else Path.cwd()
        if not self._folder.is_dir():
            raise ConfigError("plugins.shell.cwd is no folder.", "Name one that exists, or leave it out.")

    @hookimpl
    def hermes_configured(self, config: Config) -> None:
        """See the hook."""
        named = set(config.sources.variables())
        self._hidden = (*self._settings.hide, *named, *(f"{name}_FILE" for name in named))

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        """See the hook."""
        settings, folder = self._settings, self._folder

        # The deadline of the tool itself never counts: each program brings its own.
        @tool("run_command", deadline=settings.timeout, role=Role.ADMIN, approval=self._approval)
        def run_command(command: str, timeout: Seconds = settings.timeout) -> Program:
            """Run a command with /bin/sh on the agent's machine and wait for it.

            Gives stdout and stderr together, and the exit code unless it is 0. There is no terminal
            and nothing to read on stdin. Each call starts in the same folder. What the command leaves
            running in the background is ended with it.

            Args:
                command: What to run, as one would type it.
                timeout: Seconds until it is stopped with all that it started.
            """
            return Program(
                ("/bin/sh", "-c", command),
                cwd=str(folder),
                env=dict.fromkeys(_secrets(self._hidden)),
                output_limit=settings.output_limit,
                deadline=timeout,
            )

        return [run_command]

    @hookimpl
    def hermes_async_tools(self) -> Iterable[AsyncTool]:
        """See the hook."""
        settings, folder = self._settings, self._folder

        @async_tool("command", role=Role.ADMIN, approval=self._approval)
        def command(command: str) -> Program:
            """Run a command with /bin/sh on the agent's machine, in the background.

            For what takes longer than a minute or so; for the rest there is run_command. Stdout and
            stderr are kept together. There is no terminal and nothing to read on stdin. It starts in
            the same folder as run_command, and goes on also when the agent itself is restarted.

            Args:
                command: What to run, as one would type it.
            """
            return Program(
                ("/bin/sh", "-c", command),
                cwd=str(folder),
                env=dict.fromkeys(_secrets(self._hidden)),
                output_limit=settings.job_output_limit,
            )

        return [command]

    @hookimpl
    def hermes_checks(self) -> Iterable[Check]:
        """See the hook."""

        async def look() -> Finding:
            if not os.access("/bin/sh", os.X_OK):
                raise HermesError("There is no /bin/sh, which runs the commands.", "Install a shell.")
            missing = [name for name in _USUAL if shutil.which(name) is None]
            lacks = f"; not on PATH: {', '.join(missing)}" if missing else ""
            return Finding(f"commands run with /bin/sh in {self._folder}{lacks}")

        return [Check("shell", look)]

    @hookimpl
    def hermes_system_prompt(self, prompt: str, address: Address) -> str:
        """See the hook. The sentence is the same for the whole run."""
        sentence = (
            f"Commands given to run_command and start_command start in the folder {self._folder} on the "
            "machine that you run on."
        )
        return f"{prompt}\n\n{sentence}".lstrip()


def _command(arguments: Mapping[str, Any]) -> str:
    """What people are asked about: the command, and nothing around it."""
    return str(arguments["command"])


def _secrets(hide: Iterable[str]) -> list[str]:
    """Names of variables that a command does not get: what looks like a secret, and what the config hides."""
    hidden = frozenset(hide)
    return [name for name in os.environ if name in hidden or _SECRET.search(name)]
