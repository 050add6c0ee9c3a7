"""App: slack-bolt around one catch-all. Whatever Slack delivers passes through it, and is answered at the commit.

Theory of operation. Bolt answers an event before its listener has run, looks every 10 ms whether a listener
has answered, and never answers what nobody listens to; the first is too early for D1, the others cost time
and repeated deliveries. So the catch-all is no listener but the middleware that stands before all of that:
its answer is bolt's answer, and it is given when the intake says that the message is kept. It also stands
before bolt's own look at the account, which would ask Slack once more who the agent is.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.app.async_app import AsyncApp
from slack_bolt.middleware.async_middleware import AsyncMiddleware
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from hermes_core.errors import StoreError
from hermes_slack.faults import FAILURES
from hermes_slack.intake import Intake

__all__ = ["Handler", "build", "dispatch"]

log = logging.getLogger("hermes.slack")


class _CatchAll(AsyncMiddleware):
    """Bolt's answer is 200 once the intake has kept it, 503 where the disk does not take it (D1, D7)."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def async_process(
        self, *, req: AsyncBoltRequest, resp: BoltResponse, next: Callable[[], Awaitable[BoltResponse]]
    ) -> BoltResponse:
        if req.body.get("type") == "url_verification":
            return await next()  # bolt knows what Slack wants to hear
        try:
            await self._intake.take(req.body)
        except StoreError as error:
            log.warning("not acknowledged, Slack will deliver it again: %s", error)
            return BoltResponse(status=503)
        return BoltResponse(status=200)


class Handler(AsyncSocketModeHandler):
    """Bolt's Socket Mode. An acknowledgement that is lost with its connection is no fault: Slack delivers
    again, and the store knows it (D1)."""

    async def handle(self, client: SocketModeClient, req: SocketModeRequest) -> None:  # type: ignore[override]
        try:
            await super().handle(client, req)
        except FAILURES as error:
            log.info("an acknowledgement was lost with its connection: %s", type(error).__name__)


class _App(AsyncApp):
    """Bolt's app, without a new client for each event: nobody here calls Slack with it, and to make one costs as
    much as all else that bolt does for an event (it looks for a proxy in the environment, for instance)."""

    def _init_context(self, req: AsyncBoltRequest) -> None:
        req.context["logger"] = self.logger
        req.context["token"] = self.client.token
        req.context["client"] = self.client
        req.context["listener_runner"] = self.listener_runner


def build(client: AsyncWebClient, intake: Intake, logger: logging.Logger) -> AsyncApp:
    """The app. Signatures are checked by the webhook, before a body is parsed (X3), so not once more here."""
    level = logger.level
    logger.setLevel(
        logging.ERROR
    )  # bolt finds SLACK_BOT_TOKEN in the environment, and warns that it is left there
    try:
        return _App(
            name="hermes",  # else it reads source files to find one
            logger=logger,
            client=client,
            before_authorize=_CatchAll(intake),
            signing_secret="",
            request_verification_enabled=False,
        )
    finally:
        logger.setLevel(level)


async def dispatch(app: AsyncApp, payload: Mapping[str, Any]) -> BoltResponse:
    """Bolt's answer to what came over HTTP, verified and parsed.

    It gets the payload, not the body: bolt takes a form whose text holds the word "payload" for an empty one.
    """
    return await app.async_dispatch(AsyncBoltRequest(body=dict(payload), mode="socket_mode"))
