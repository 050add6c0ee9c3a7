"""Receiver: a server on loopback in front of the adapter's webhook, for what delivers over HTTP."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from aiohttp import web

from hermes_core.route import Problem, Request
from hermes_slack.adapter import SlackAdapter

__all__ = ["Receiver"]


class Receiver:
    """`async with Receiver() as receiver`: passes on to `receiver.adapter`, and says 503 where there is none."""

    def __init__(self) -> None:
        self.adapter: SlackAdapter | None = None
        self.statuses: list[int] = []
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/slack/events", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/slack/events"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        headers = {name.lower(): (value,) for name, value in request.headers.items()}
        status, content = 503, b""
        if self.adapter is not None:
            try:
                given = await self.adapter.webhook(
                    Request("POST", "/slack/events", {}, {}, headers, body, "")
                )
                status, content = given.status, given.body
            except Problem as problem:
                status = problem.status
        self.statuses.append(status)
        return web.Response(status=status, body=content)
