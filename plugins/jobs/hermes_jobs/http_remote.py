"""Remote: a Job API on another server, driven as an async tool with the rules of every other one (H, J1).

The job here has the id that is the idempotency key there. So a job that is begun again after a restart,
which a remote one always may be, finds the same job there and goes on watching it. A stop is handed on,
and the end is the true one that the other server gives (J5). When this program ends, the job there goes on.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

import msgspec

from hermes_core.errors import HermesError, ToolError
from hermes_core.job import JobState
from hermes_core.messages import Role
from hermes_core.tools import AsyncTool, JobContext, async_tool

__all__ = ["remote_tool"]

TIMEOUT: Final = 30.0  # seconds for one request
FIRST_PAUSE: Final = 0.5  # seconds until a request that failed is made again; doubled each time
LONGEST_PAUSE: Final = 60.0
POLL: Final = 2.0  # seconds between two looks, where the server does not say
STOPPING: Final = 30.0  # seconds in which a server that was asked to stop a job must be reached
RESULT_LIMIT: Final = 256 * 1024  # characters of output that are fetched
AGAIN: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})

_Context = "_context"  # no parameter of a model can have this name


def remote_tool(
    base_url: str,
    name: str | None = None,
    /,
    *,
    tool: str | None = None,
    token_env: str = "",
    deadline: str | float | None = None,
    role: Role = Role.USER,
) -> Callable[[Callable[..., Any]], AsyncTool]:
    """Make an `AsyncTool` of a coroutine function whose parameters and docstring describe what is done elsewhere.

    Its body never runs. `base_url` is what stands before `/jobs`; `tool` what the other server calls it
    (the same name, if left out). `token_env` names the environment variable that holds its token.
    """

    def make(function: Callable[..., Any]) -> AsyncTool:
        local = async_tool(
            name or function.__name__, deadline=deadline, idempotent=True, role=role
        )(function)
        if local.process or local.context is not None:
            raise HermesError(
                f"Remote tool {local.name!r}: nothing of it runs here.", "Leave Program and JobContext out."
            )
        url, there = base_url.rstrip("/"), tool or local.name

        async def run(**given: Any) -> str:
            context: JobContext = given.pop(_Context)
            token = os.environ.get(token_env, "").strip() if token_env else ""
            if token_env and not token:
                raise ToolError(f"The environment variable {token_env} is not set.")
            body = {"tool": there, "arguments": msgspec.to_builtins(given)}
            return await _Remote(url, token, body, context).run()

        return dataclasses.replace(local, function=run, context=_Context)

    return make


class _Remote:
    """One job there."""

    def __init__(self, url: str, token: str, body: dict[str, Any], context: JobContext) -> None:
        import httpx  # only who drives a remote server needs it

        self._httpx = httpx
        self._url = url
        self._body = body
        self._context = context
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.AsyncClient(headers=headers, timeout=TIMEOUT)
        self._id = ""

    async def run(self) -> str:
        """From the start to the true end; a cancellation on a person's wish, or at the deadline, stops it there."""
        watching = asyncio.create_task(self._watch())
        stopping: asyncio.Task[None] | None = None
        try:
            while True:
                try:
                    await asyncio.wait({watching, *([stopping] if stopping else [])}, return_when="FIRST_COMPLETED")
                except asyncio.CancelledError as wish:
                    if not wish.args or wish.args[0] == "close":
                        raise  # this program ends, and the job there goes on
                    stopping = stopping or asyncio.create_task(self._stop())
                if watching.done():
                    return watching.result()
                if stopping is not None and stopping.done():
                    stopping.result()
                    await asyncio.shield(watching)
        finally:
            for task in (watching, stopping):
                if task is not None:
                    task.cancel()
            await self._client.aclose()
