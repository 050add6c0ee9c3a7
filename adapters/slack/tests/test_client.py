"""The client whose calls are prepared once: in everything that is seen of it, it is slack_sdk's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from hermes_core.errors import SendError
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_slack.client import Client
from hermes_slack.faults import FAILURES, send_error

POST = {"channel": "D1", "text": 'Grüße 👋 <b> & \\ "so"', "unfurl_links": False}


async def both(slack: FakeSlack, arguments: dict[str, Any]) -> tuple[Any, Any]:
    """What slack_sdk gives or raises for this post, and what ours does."""
    outcomes: list[Any] = []
    async with aiohttp.ClientSession() as session:
        plain = AsyncWebClient(slack.bot_token, slack.base_url, session=session, retry_handlers=[])
        for client in (plain, Client(slack.bot_token, slack.base_url, session)):
            try:
                outcomes.append(await client.api_call("chat.postMessage", json=dict(arguments)))
            except FAILURES as error:
                outcomes.append(error)
    return outcomes[0], outcomes[1]


@pytest.mark.parametrize("text", [POST["text"], "\ud83d half of a pair"], ids=["text", "half a pair"])
async def test_slack_gets_the_same_from_it_as_from_slack_sdk(slack: FakeSlack, text: str) -> None:
    theirs, ours = await both(
        slack, {**POST, "text": text, "metadata": {"event_type": "e", "event_payload": {}}}
    )
    first, second = slack.called("chat.postMessage")
    assert first.arguments == second.arguments
    assert first.arguments["text"] == text
    assert (theirs["ok"], theirs.status_code, theirs.data.keys()) == (True, 200, ours.data.keys())


def told(error: SendError) -> tuple[Any, ...]:
    return error.message, error.advice, error.retry_after, error.permanent, error.unknown


@pytest.mark.parametrize(
    "fault",
    [
        lambda slack: slack.refuse("chat.postMessage", "channel_not_found", times=2),
        lambda slack: slack.refuse("chat.postMessage", "ratelimited", retry_after=7, times=2),
        lambda slack: slack.refuse("chat.postMessage", status=503, times=2),
        lambda slack: slack.refuse("chat.postMessage", status=404, times=2),
        lambda slack: [slack.cut("chat.postMessage", "after") for _ in range(2)],
        lambda slack: setattr(slack, "base_url", "http://127.0.0.1:9/api/"),
    ],
    ids=["refused", "too fast", "no JSON", "no such method", "cut", "not reached"],
)
async def test_a_call_that_fails_means_the_same_as_with_slack_sdk_d5(
    slack: FakeSlack, fault: Callable[[FakeSlack], Any]
) -> None:
    fault(slack)
    theirs, ours = await both(slack, POST)
    assert told(send_error(ours)) == told(send_error(theirs))


async def test_a_refusal_holds_no_token_x2(slack: FakeSlack) -> None:
    slack.refuse("chat.postMessage", "channel_not_found", times=2)
    _, ours = await both(slack, POST)
    assert isinstance(ours, SlackApiError)
    assert slack.bot_token not in repr(vars(ours.response)).replace(repr(ours.response._client), "")
