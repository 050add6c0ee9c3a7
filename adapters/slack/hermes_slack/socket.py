"""Socket: Socket Mode through bolt's handler; the connection is made again without end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from slack_bolt.app.async_app import AsyncApp
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient

from hermes_core.adapter import Gateway
from hermes_slack.app import Handler
from hermes_slack.faults import FAILURES

__all__ = ["serve"]

log = logging.getLogger("hermes.slack")

_SHARED: Final = (
    "if another program runs with the same app token, each of them gets only some of the messages."
    " Stop the other one, or give it an app of its own."
)
_CLOSING: Final = 0.5  # seconds that saying good-bye may take


async def serve(
    app: AsyncApp, app_token: str, url: str, gateway: Gateway, ready: Callable[[], None], ping_interval: float
) -> None:
    """Deliver until cancelled. The client reconnects by itself; `ready` is called at each hello.

    `url` is the first address. While pings are answered the gateway is told that the connection is alive.
    """
    handler = Handler(app, app_token, logger=app.logger, ping_interval=ping_interval)
    socket = handler.client
    socket.wss_uri = url  # the first one; it would ask for another, and never give up on a wrong token

    async def listen(_: AsyncBaseSocketModeClient, message: dict[str, Any], raw: str | None) -> None:
        if message.get("type") == "hello":
            others = int(message.get("num_connections") or 1) - 1
            if others > 0:  # perhaps an old one of our own, which Slack has not noticed yet
                log.warning("Slack has %d more connections of this app: %s", others, _SHARED)
            ready()

    socket.message_listeners.append(listen)
    try:
        await handler.connect_async()  # type: ignore[no-untyped-call]
        answered = None
        while True:
            await asyncio.sleep(2 * ping_interval)
            latest = socket.last_ping_pong_time
            # While it cannot connect anew the client sets the time with each ping that it sends, answered or not.
            if latest is not None and latest != answered and not socket.stale:
                gateway.alive()
            answered = latest
    finally:
        await _close(socket)


async def _close(socket: SocketModeClient) -> None:
    """Within its time, also where the other side does not answer the good-bye."""
    try:
        async with asyncio.timeout(_CLOSING):
            await socket.close()  # type: ignore[no-untyped-call]
    except (*FAILURES, TimeoutError):
        log.debug("the connection was cut instead of closed")
    for task in (socket.message_processor, socket.current_session_monitor, socket.message_receiver):
        if task is not None:
            task.cancel()
    await socket.aiohttp_client_session.close()
