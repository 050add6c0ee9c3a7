"""A runtime with its HTTP server in this process: real sockets, tools that a test holds in its hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from hermes_core import http
from hermes_core.config import Config
from hermes_core.errors import ToolError
from hermes_core.hookspecs import hookimpl
from hermes_core.plugins import Plugins
from hermes_core.runtime import Runtime
from hermes_core.store import Store
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import ScriptedModel
from hermes_core.tools import AsyncTool, JobContext, Program, async_tool
from hermes_jobs.plugin import JobsPlugin

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ENVIRON = {"CALLBACKS": SECRET, "TOKEN": "a-token-of-some-length"}
WITH_CALLBACKS = {"jobs": {"callbacks": {"secret_env": "CALLBACKS", "allow_private": True}}}


class Hands:
    """Three async tools: `echo` ends at once, `hold` when it is let go, `fail` badly."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.go = asyncio.Event()

    @hookimpl
    def hermes_async_tools(self) -> Iterable[AsyncTool]:
        @async_tool
        async def echo(text: str = "") -> str:
            """Say it again."""
            self.begun.append(text)
            return text

        @async_tool
        async def hold(context: JobContext, name: str, said: str = "") -> str:
            """Wait to be let go."""
            self.begun.append(name)
            if said:
                context.output(said)
            context.progress(0.5, "half way")
            await self.go.wait()
            return "let go"

        @async_tool
        async def fail(context: JobContext, said: str = "") -> str:
            """Do not succeed."""
            if said:
                context.output(said)
            raise ToolError("It went wrong.")

        @async_tool
        def command(line: str) -> Program:
            """Run a line."""
            return Program(("/bin/sh", "-c", line))

        return (echo, hold, fail, command)


class Kept:
    """A store that is not closed with the runtime that uses it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def close(self) -> None:
        """Stays open."""


class Inside:
    """`async with Inside(folder) as house: await house.client.get("/jobs/…")`."""

    def __init__(
        self,
        folder: Path,
        *,
        plugins: Iterable[object] = (),
        config: Mapping[str, Any] | None = None,
        store: Any = None,
    ) -> None:
        self.hands = Hands()
        self.store: Any = store or MemoryStore()
        tables: dict[str, Any] = {
            "runtime": {"data_dir": str(folder)},
            "model": {"provider": "scripted"},
            "http": {"port": 0},
        }
        for name, table in (config or {}).items():
            tables[name] = {**tables.get(name, {}), **table}
        self.config = Config.of(tables, ENVIRON)
        loaded = Plugins(self.config)
        loaded.add("scripted", ScriptedModel(()))
        loaded.add("hands", self.hands)
        loaded.add("jobs", JobsPlugin())
        for number, plugin in enumerate(plugins):
            loaded.add(f"extra{number}", plugin)
        self.plugins = loaded
        self._ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.runtime = Runtime(
            self.config,
            adapters=(),
            doors=(http.serve,),
            on_ready=self._ready.set_result,
            plugins=loaded,
            store=Kept(self.store),
        )
        self.client: httpx.AsyncClient
        self.url = ""
        self._run: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.runtime.__aenter__()
        self._run = asyncio.create_task(self.runtime.run())
        either: set[asyncio.Future[Any]] = {self._run, self._ready}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self._run.done():
            await self.runtime.__aexit__(None, None, None)
            self._run.result()
        self.url = self._ready.result().removeprefix("web ")
        self.client = httpx.AsyncClient(base_url=self.url, trust_env=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.client.aclose()
        self.runtime.stop()
        assert self._run is not None
        await self._run
        await self.runtime.__aexit__(kind, error, trace)

    async def start(self, tool: str, key: str = "k", **more: Any) -> httpx.Response:
        """POST /jobs."""
        arguments = more.pop("arguments", {})
        body = {"tool": tool, "arguments": arguments, **more}
        return await self.client.post("/jobs", json=body, headers={"Idempotency-Key": key})

    async def job(self, tool: str, key: str = "k", **arguments: Any) -> str:
        """Start one, and give its id."""
        answer = await self.start(tool, key, arguments=arguments)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["job_id"])

    async def until(self, id_: str, *states: str) -> dict[str, Any]:
        """Wait until the job is in one of these states."""
        async with asyncio.timeout(20):
            while True:
                facts = (await self.client.get(f"/jobs/{id_}")).json()
                if facts["status"] in states:
                    return dict(facts)
                await asyncio.sleep(0.01)

    async def until_begun(self, name: str) -> None:
        """Wait until a tool was called with this."""
        async with asyncio.timeout(20):
            while name not in self.hands.begun:
                await asyncio.sleep(0.005)


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The problem that this answer is (RFC 9457)."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["cache-control"] == "no-store"
    body: dict[str, Any] = answer.json()
    assert body["status"] == status
    assert {"type", "title", "detail"} <= set(body)
    return body
