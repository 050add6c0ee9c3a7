"""Bolt's app, as it is built here."""

from __future__ import annotations

import logging
from typing import Any

from slack_bolt.app.async_app import AsyncApp
from slack_bolt.middleware.async_middleware import AsyncMiddleware
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from hermes_core.reading import Reading
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_slack.app import build
from hermes_slack.convert import Me
from hermes_slack.intake import Intake


class _Answer(AsyncMiddleware):
    async def async_process(self, *, req: Any, resp: Any, next: Any) -> BoltResponse:
        return BoltResponse(status=200)


async def test_an_event_finds_in_its_context_all_that_bolt_puts_there_and_the_one_client() -> None:
    client = AsyncWebClient(FakeSlack.bot_token)
    nobody: Any = None  # nothing of what comes here is for the agent
    intake = Intake(nobody, Me("U0AGENT"), nobody, Reading(None), lambda: 0.0, follow_threads=True)
    ours = build(client, intake, logging.getLogger("hermes.slack.client"))
    plain = AsyncApp(name="plain", client=client, before_authorize=_Answer(), signing_secret="")
    contexts = []
    for app in (plain, ours):
        request = AsyncBoltRequest(body={"type": "event_callback", "event": {}}, mode="socket_mode")
        assert (await app.async_dispatch(request)).status == 200
        contexts.append(request.context)
    theirs, found = contexts
    assert set(found) == set(theirs)
    assert found["client"] is client
    assert found["token"] == theirs["token"]
    assert isinstance(found["logger"], logging.Logger)
