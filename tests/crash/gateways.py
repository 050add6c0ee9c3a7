"""Gateway processes as the test holds them: started, killed, and seen to be dead."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

import hermes_core

__all__ = ["Gateways", "Life"]

ROOT = Path(__file__).parents[2]
MARK = "HERMES_CRASH_TEST"
_PATIENCE = 15.0  # seconds for what takes milliseconds on an idle machine


class Life:
    """One gateway process, held by a handle that no other process can get."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended = asyncio.Event()
        self._handle = os.pidfd_open(pid)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._handle, self._died)

    def _died(self) -> None:
        self._loop.remove_reader(self._handle)
        os.close(self._handle)
        self.ended.set()

    async def end(self, number: int = signal.SIGKILL) -> None:
        """Signal it and wait until it is dead, its files and locks let go."""
        if not self.ended.is_set():
            signal.pidfd_send_signal(self._handle, number)
        async with asyncio.timeout(_PATIENCE):
            await self.ended.wait()

    async def lives(self, seconds: float) -> bool:
        """Let it live this long; False where it ended by itself."""
        try:
            async with asyncio.timeout(seconds):
                await self.ended.wait()
        except TimeoutError:
            return True
        return False


class Gateways:
    """Starts gateways, one after the other. `log` has what they wrote to stderr."""

    def __init__(self, folder: Path, port: int, tables: Mapping[str, Any], *, lookup: bool = True) -> None:
        self.log = folder / "log"
        self.mark = os.urandom(8).hex()
        self._settings = folder / "settings.json"
        given = {"port": port, "lookup": lookup, "marks": str(folder / "marks"), "tables": tables}
        self._settings.write_bytes(msgspec.json.encode(given))
        self._nursery: subprocess.Popen[bytes] | None = None
        self._alone: list[subprocess.Popen[bytes]] = []

    async def __aenter__(self) -> Self:
        self._nursery = self._start("--nursery")
        return self

    async def __aexit__(self, *error: object) -> None:
        for process in (self._nursery, *self._alone):
            if process is not None:
                process.kill()
                process.communicate(timeout=_PATIENCE)

    def _start(self, *options: str) -> subprocess.Popen[bytes]:
        paths = [str(ROOT), str(Path(hermes_core.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.crash.gateway", *options, str(self._settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, MARK: self.mark, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            )

    async def start(self, *, whole: bool = False) -> Life:
        """A new gateway, forked from the nursery; `whole`: a new interpreter instead."""
        if whole:
            process = self._start()
            self._alone.append(process)
            return Life(process.pid)
        assert self._nursery is not None
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.write(b".")
        self._nursery.stdin.flush()
        async with asyncio.timeout(_PATIENCE):
            return Life(int(await asyncio.to_thread(self._nursery.stdout.readline)))

    async def stop(self, life: Life) -> int:
        """End a gateway that was started whole as an operator would; gives its exit code."""
        await life.end(signal.SIGTERM)
        return next(one for one in self._alone if one.pid == life.pid).wait(_PATIENCE)

    def others(self) -> list[str]:
        """Command lines of all living processes that gateways started, tools and their shims."""
        ours = {one.pid for one in (self._nursery, *self._alone) if one is not None}
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) not in ours:
                try:
                    if f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                        found.append(f"{folder.name}: {(folder / 'cmdline').read_bytes()!r}")
                except OSError:
                    continue  # gone meanwhile, or not ours to look at
        return found

    async def nothing_left(self, seconds: float) -> list[str]:
        """Wait until nothing that gateways started lives; gives what still does after that time."""
        until = asyncio.get_running_loop().time() + seconds
        while (found := self.others()) and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(0.01)
        return found
