"""The process that the crash tests kill: the real runtime with the real store, model plugin and tools.

`python -m tests.crash.gateway SETTINGS` runs one until SIGTERM; SETTINGS is a JSON object as in
`Given`. With `--nursery` it imports everything, then forks a gateway for each line on stdin and prints
its process id: a start without the interpreter's own, so that thousands of kills take minutes. Nothing
outlives the test: a gateway gets SIGKILL when its parent dies, the nursery ends with its stdin.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

import hermes_core.store.sqlite  # noqa: F401 - see above
import hermes_openai.model  # noqa: F401 - a nursery has imported what its gateways need
from hermes_core.commands import Command, Context, Rest, command
from hermes_core.config import Config
from hermes_core.errors import HermesError
from hermes_core.hookspecs import hookimpl
from hermes_core.plugins import load
from hermes_core.processes import Program
from hermes_core.runtime import Runtime
from hermes_core.tools import Tool, tool
from tests.crash.wire import WirePlugin

__all__ = ["CrashPlugin", "Given", "main"]

_PARENT_DEATH_SIGNAL = 1


class Given(msgspec.Struct):
    """What a gateway is given: the platform's port and whether it can be asked, where `mark` writes, its config."""

    port: int
    lookup: bool
    marks: str
    tables: dict[str, Any]


@command("echo")
async def echo(context: Context, text: Rest) -> str:
    """Say TEXT."""
    return f"echo {text}"


class CrashPlugin:
    """A command that answers, and a process tool that may run again."""

    def __init__(self, marks: str) -> None:
        self._marks = marks

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        """See the hook."""
        return [echo]

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        """See the hook."""

        @tool("mark", idempotent=True)
        def mark(call: str) -> Program:
            """Write a call down. Doing it twice does no harm."""
            return Program(("/bin/sh", "-c", f"echo {call} >> {self._marks}; sleep 0.01; echo marked"))

        return [mark]


async def _serve(given: Given) -> None:
    config = Config.of(given.tables)
    plugins = load(config)
    plugins.add("wire", WirePlugin(given.port, given.lookup))
    plugins.add("crash", CrashPlugin(given.marks))
    async with Runtime(config, adapters=["wire"], plugins=plugins) as runtime:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, runtime.stop)
        await runtime.run()


def _run(given: Given) -> int:
    """One gateway, from its start to SIGTERM; gives the exit code."""
    _die_with_parent()
    logging.basicConfig(level=logging.WARNING, format="%(process)d %(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(_serve(given))
    except HermesError as error:
        logging.error("%s", error)
        return 1
    return 0


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def _nursery(given: Given) -> None:
    """Fork a gateway for each line. The kernel buries the dead, because nobody here waits for them."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while os.read(0, 1):
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(2, 1)  # the pipe of the process ids is the nursery's
            code = 1
            try:
                code = _run(given)
            finally:
                logging.shutdown()
                os._exit(code)
        os.write(1, f"{child}\n".encode())


def main(arguments: list[str]) -> int:
    """The command line."""
    given = msgspec.json.decode(Path(arguments[-1]).read_bytes(), type=Given)
    if arguments[0] == "--nursery":
        _nursery(given)
        return 0
    return _run(given)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
