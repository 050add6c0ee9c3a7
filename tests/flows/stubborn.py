"""A plugin of which nothing lets itself be ended: what STUBBORN names there hangs, and makes the file STUBBORN_UP."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from pathlib import Path
from typing import Any

from hermes_core.adapter import Adapter, AdapterFactory, Gateway
from hermes_core.commands import Command, Context, command
from hermes_core.config import ModelSettings
from hermes_core.hookspecs import hookimpl
from hermes_core.job import Job
from hermes_core.messages import Said, ToolCall
from hermes_core.models import Delta, Model, ModelFactory, Request, Stop, Text
from hermes_core.testing.platform import FakePlatform
from hermes_core.tools import AsyncTool, JobContext, Tool, async_tool, tool

FOREVER = 600.0


def wanted(what: str) -> bool:
    """Whether this is to hang; then it is up."""
    if what not in os.environ["STUBBORN"].split(","):
        return False
    with Path(os.environ["STUBBORN_UP"]).open("a") as file:
        file.write(f"{what}\n")
    return True


async def swallow() -> None:
    """Never end."""
    while True:
        try:
            await asyncio.sleep(FOREVER)
        except asyncio.CancelledError:
            continue


async def in_a_thread() -> None:
    """Wait for a thread that goes on."""
    while True:
        try:
            await asyncio.to_thread(time.sleep, FOREVER)
        except asyncio.CancelledError:
            continue


class StubbornModel:
    """Calls what a message names: a tool, or the start of a job."""

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        if wanted("stream"):
            await swallow()
        last = request.items[-1]
        names = {spec.name for spec in request.tools}
        if isinstance(last, Said) and last.text in names:
            arguments = '{"idempotency_key": "k"}' if last.text.startswith("start_") else "{}"
            yield ToolCall("c1", last.text, arguments)
        else:
            yield Text("ok")
        yield Stop("end")

    async def aclose(self) -> None:
        if wanted("model"):
            await swallow()


class StubbornAdapter(FakePlatform):
    """Connects, and stays."""

    async def run(self, gateway: Gateway) -> None:
        gateway.ready()
        if wanted("adapter"):
            await swallow()


class Stubborn:
    """The plugin."""

    @hookimpl
    def hermes_models(self) -> Iterable[ModelFactory]:
        def open_model(settings: ModelSettings) -> Model:
            return StubbornModel()

        return [ModelFactory("stubborn", open_model)]

    @hookimpl
    def hermes_adapters(self) -> Iterable[AdapterFactory]:
        def open_adapter(options: Mapping[str, Any]) -> Adapter:
            return StubbornAdapter("stubborn")

        return [AdapterFactory("stubborn", open_adapter)]

    @hookimpl
    def hermes_async_tools(self) -> Iterable[AsyncTool]:
        @async_tool
        async def job(context: JobContext) -> None:
            """Run as a job for ever."""
            if wanted("job"):
                await swallow()
            if wanted("job in a thread"):
                await in_a_thread()

        return [job]

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        @tool
        async def work() -> str:
            """Run for ever."""
            if wanted("tool"):
                await swallow()
            return "done"

        @tool
        def block() -> str:
            """Run in a thread for ever."""
            if wanted("thread"):
                time.sleep(FOREVER)
            return "done"

        return [work, block]

    @hookimpl
    async def hermes_turn_ended(self) -> None:
        if wanted("thread of its own"):
            threading.Thread(target=time.sleep, args=(FOREVER,), name="mine").start()
        if wanted("hook"):
            await swallow()
        if wanted("loop"):
            time.sleep(FOREVER)

    @hookimpl
    async def hermes_job_event(self, job: Job) -> None:
        if wanted("job's hook"):
            await swallow()

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        @command("hang")
        async def hang(context: Context) -> None:
            """Never answer."""
            if wanted("command"):
                await swallow()

        return [hang]
