"""One run of a runtime with many jobs, for the stress test, which kills it.

`python stress_program.py FOLDER JOBS`: starts (or finds) the jobs, prints `all ended` when every one
has ended and every event was carried by a turn, and then waits to be killed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path

from hermes_core.config import Config
from hermes_core.hookspecs import hookimpl
from hermes_core.job import JobRequest
from hermes_core.messages import Author
from hermes_core.plugins import Plugins
from hermes_core.runtime import Runtime
from hermes_core.testing.model import ScriptedModel
from hermes_core.testing.platform import FakePlatform
from hermes_core.tools import AsyncTool, Program, async_tool


class Work:
    """Each job writes one line at its beginning and one at its end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def note(self, name: str, word: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(f"{word}\n")

    @hookimpl
    def hermes_async_tools(self) -> Iterable[AsyncTool]:
        @async_tool
        def process(name: str, seconds: float, code: int) -> Program:
            """Run a process."""
            path = self.folder / name
            script = f"echo begun >> {path}; sleep {seconds}; echo ended >> {path}; exit {code}"
            return Program(("/bin/sh", "-c", script))

        @async_tool
        async def once(name: str, seconds: float) -> str:
            """Run a function that may not be repeated."""
            self.note(name, "begun")
            await asyncio.sleep(seconds)
            self.note(name, "ended")
            return "well"

        @async_tool(idempotent=True)
        async def again(name: str, seconds: float) -> str:
            """Run a function that may be repeated."""
            self.note(name, "begun")
            await asyncio.sleep(seconds)
            self.note(name, "ended")
            return "well"

        return [process, once, again]


def request(platform: FakePlatform, number: int) -> JobRequest:
    """Job number `number`; 60% are processes, a tenth of which fail."""
    kind = ("process", "process", "process", "once", "again")[number % 5]
    name = f"{kind}-{number}"
    arguments: dict[str, object] = {"name": name, "seconds": 0.05 + (number * 37 % 100) / 100}
    if kind == "process":
        arguments["code"] = 3 if number % 10 == 0 else 0
    return JobRequest(platform.address(str(number % 4)), Author("ann"), kind, arguments, name, deadline=600.0)


async def main(folder: Path, count: int) -> None:
    """Run until killed."""
    runs = folder / "runs"
    runs.mkdir(exist_ok=True)
    platform = FakePlatform()
    plugins = Plugins()
    plugins.add("fake", platform)
    plugins.add("scripted", ScriptedModel(default=lambda request: ""))
    plugins.add("work", Work(runs))
    config = Config.of(
        {
            "runtime": {"data_dir": str(folder / "data")},
            "model": {"provider": "scripted"},
            "access": {"allow": ["*"]},
            "jobs": {"max_running": 3 + count // 40},
        }
    )
    async with Runtime(config, adapters=["fake"], plugins=plugins) as runtime:
        serving = asyncio.create_task(runtime.run())
        await platform.connected.wait()
        for number in range(count):
            await runtime.jobs.start(request(platform, number))
        store = runtime.services.store
        while await store.open_jobs() or await store.open_work():
            await asyncio.sleep(0.02)
        print("all ended", flush=True)
        await serving


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
