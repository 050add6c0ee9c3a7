"""Remote: a Job API on another server, driven as an async tool with the rules of every other one (H, J1).

The job here has the id that is the idempotency key there. So a job that is begun again after a restart,
which a remote one always may be, finds the same job there and goes on watching it. A stop is handed on,
and the end is the true one that the other server gives (J5). When this program ends, the job there goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import random
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

import msgspec

from hermes_core.errors import HermesError, ToolError
from hermes_core.job import JobState, one_line
from hermes_core.messages import Role
from hermes_core.tools import AsyncTool, JobContext, async_tool

__all__ = ["remote_tool"]

TIMEOUT: Final = 30.0  # seconds for one request
FIRST_PAUSE: Final = 0.5  # seconds until a request that failed is made again; doubled each time
LONGEST_PAUSE: Final = 60.0
POLL: Final = 2.0  # seconds between two looks, where the server does not say
STOPPING: Final = 30.0  # seconds in which a server that was asked to stop a job must be reached
RESULT_LIMIT: Final = 256 * 1024  # characters of output that are fetched
ENDING: Final = 600.0  # seconds in which a job that was asked to end must have done so
LEAVING: Final = 0.5  # seconds for the connections to be closed
HURRY: Final = 0.2  # seconds between two looks from then on
AGAIN: Final = frozenset({408, 425, 429, 500, 502, 503, 504})

_CONTEXT: Final = "_context"  # no parameter of a model can have this name


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
        local = async_tool(name or function.__name__, deadline=deadline, idempotent=True, role=role)(function)
        if local.process or local.context is not None:
            raise HermesError(
                f"Remote tool {local.name!r}: nothing of it runs here.", "Leave Program and JobContext out."
            )
        url, there = base_url.rstrip("/"), tool or local.name

        async def run(**given: Any) -> str:
            context: JobContext = given.pop(_CONTEXT)
            token = os.environ.get(token_env, "").strip() if token_env else ""
            if token_env and not token:
                raise ToolError(f"The environment variable {token_env} is not set.")
            body = {"tool": there, "arguments": msgspec.to_builtins(given)}
            return await _Remote(url, token, body, context).run()

        return dataclasses.replace(local, function=run, context=_CONTEXT, remote=True)

    return make


class _Remote:
    """One job there."""

    def __init__(self, url: str, token: str, body: dict[str, Any], context: JobContext) -> None:
        import httpx  # only who drives a remote server needs it

        self._faults = httpx.TransportError
        self._url = url
        self._body = body
        self._context = context
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {token}"} if token else {}, timeout=TIMEOUT
        )
        self._known: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._hurry = asyncio.Event()

    async def run(self) -> str:
        """From the start to the true end; a cancellation by a person or the deadline is handed on."""
        watching = asyncio.create_task(self._watch(), name=f"remote {self._context.job.id}")
        stopping: asyncio.Task[None] | None = None
        try:
            while not watching.done():
                try:
                    await asyncio.wait(
                        {watching} if stopping is None or stopping.done() else {watching, stopping},
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                except asyncio.CancelledError as wish:
                    if "close" in wish.args or not wish.args:
                        raise  # this program ends, and the job there goes on
                    stopping = stopping or asyncio.create_task(self._stop())
                    continue
                if stopping is not None and stopping.done() and not watching.done():
                    stopping.result()
                    await self._last_wait(watching)
            return _end(*watching.result(), asked=stopping is not None)
        finally:
            self._known.cancel()
            ours = [task for task in (watching, stopping) if task is not None]
            for task in ours:
                task.cancel()
            await asyncio.wait(ours, timeout=LEAVING)
            for task in ours:
                if task.done() and not task.cancelled():
                    task.exception()  # looked at: one reason is enough
            await self._client.aclose()

    async def _last_wait(self, watching: asyncio.Task[tuple[dict[str, Any], str]]) -> None:
        deadline = asyncio.get_running_loop().time() + ENDING
        while not watching.done():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                raise ToolError("It was asked to end, and does not: it may still run on the other server.")
            try:
                await asyncio.wait({watching}, timeout=left)
            except asyncio.CancelledError as wish:
                if "close" in wish.args or not wish.args:
                    raise

    async def _watch(self) -> tuple[dict[str, Any], str]:
        """The job there as it ended, and the output of one that is done."""
        key = f'"{self._context.job.id}"'
        started = await self._ask("POST", "/jobs", headers={"Idempotency-Key": key}, json=self._body)
        id_ = _json(started).get("job_id")
        if not isinstance(id_, str) or not id_:
            raise ToolError("The server gave no job_id.")
        self._known.set_result(id_)
        while True:
            looked = await self._ask("GET", f"/jobs/{quote(id_, safe='')}")
            facts = _json(looked)
            status = facts.get("status")
            if status not in {state.value for state in JobState}:
                raise ToolError("The server gave no status of a job.")
            if JobState(status).final:
                return facts, await self._output(id_) if status == JobState.DONE else ""
            self._progress(facts.get("progress"))
            pause = _retry_after(looked) or POLL
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), pause)
                await asyncio.sleep(HURRY)

    def _progress(self, progress: Any) -> None:
        if isinstance(progress, dict):
            text, fraction = str(progress.get("text") or ""), progress.get("fraction")
            if isinstance(fraction, int | float):
                self._context.progress(float(fraction), text)
            elif text:
                self._context.progress(text)

    async def _stop(self) -> None:
        try:
            async with asyncio.timeout(STOPPING):
                id_ = await asyncio.shield(self._known)
                await self._ask("DELETE", f"/jobs/{quote(id_, safe='')}", fine=(409,))
        except TimeoutError:
            raise ToolError(
                "It was asked to end, and the other server cannot be reached: it may still run there."
            ) from None
        self._hurry.set()

    async def _output(self, id_: str) -> str:
        pieces: list[str] = []
        size, cursor = 0, ""
        while size < RESULT_LIMIT:
            query = {"cursor": cursor} if cursor else {}
            page = _json(
                await self._ask("GET", f"/jobs/{quote(id_, safe='')}/result", params=query, fine=(410,))
            )
            piece = str(page.get("output") or "")
            pieces.append(piece)
            size += len(piece)
            following = str(page.get("next_cursor") or "")
            if not page.get("more") or following == cursor:
                break
            cursor = following
        return "".join(pieces)

    async def _ask(self, method: str, path: str, *, fine: tuple[int, ...] = (), **more: Any) -> Any:
        """An answer that settles it; what may pass is asked again, as long as the job may run."""
        pause = FIRST_PAUSE
        while True:
            wait: float | None = None
            try:
                answer = await self._client.request(method, f"{self._url}{path}", **more)
            except self._faults:
                self._context.progress("the other server does not answer; trying again")
            else:
                if answer.is_success or answer.status_code in fine:
                    return answer
                if answer.status_code not in AGAIN and not (method == "POST" and answer.status_code == 409):
                    raise ToolError(
                        one_line(f"The other server answers {answer.status_code}: {_detail(answer)}")
                    )
                wait = _retry_after(answer)
            await asyncio.sleep(wait or pause * random.uniform(0.8, 1.2))  # noqa: S311 - no secret
            pause = min(pause * 2, LONGEST_PAUSE)


def _end(facts: dict[str, Any], output: str, *, asked: bool) -> str:
    """The result of a job that ended so; raises for every end but a good one."""
    status = JobState(facts["status"])
    if status is JobState.DONE:
        return output
    if asked and status is JobState.CANCELLED:
        raise asyncio.CancelledError
    raise ToolError(one_line(f"{status.value} on the other server: {facts.get('summary') or 'no summary'}"))


def _json(answer: Any) -> dict[str, Any]:
    try:
        given = msgspec.json.decode(answer.content)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise ToolError(f"The other server gave no JSON object (HTTP {answer.status_code}).")
    return given


def _detail(answer: Any) -> str:
    try:
        said = _json(answer)
    except ToolError:
        return "no reason given"
    return str(said.get("detail") or said.get("title") or "no reason given")


def _retry_after(answer: Any) -> float | None:
    """Seconds that the server asks for, at most a minute; None where it does not."""
    given = answer.headers.get("retry-after", "")
    return (
        min(float(given), LONGEST_PAUSE) if given.isascii() and given.isdigit() and len(given) < 7 else None
    )
