"""The Slack of the testing kit refuses what Slack refuses: asked by the real client library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from hermes_core.adapter import Progress
from hermes_core.messages import Address
from hermes_core.testing.model import Hold
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_core.testing.platforms.slack_limits import Limits

from .house import House

Call = Callable[[AsyncWebClient, str, str], Awaitable[Any]]
"""A call of the client, with the time stamps of a message of the agent and of one of Ann."""


def button(label: str, name: str = "a") -> list[dict[str, Any]]:
    text = {"type": "plain_text", "text": label}
    return [
        {
            "type": "actions",
            "elements": [{"type": "button", "action_id": name, "text": text, "value": "v"}],
        }
    ]


def stream(client: AsyncWebClient, **more: Any) -> Awaitable[Any]:
    given = {
        "channel": "C1",
        "markdown_text": "x",
        "recipient_user_id": "UANN",
        "recipient_team_id": "T0TEAM",
    }
    return client.api_call("chat.startStream", json={**given, **more})


@pytest.fixture
async def client(slack: FakeSlack) -> AsyncIterator[AsyncWebClient]:
    async with aiohttp.ClientSession() as session:
        yield AsyncWebClient(slack.bot_token, base_url=slack.base_url, session=session, retry_handlers=[])


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda c, own, hers: c.api_call("chat.postMessage", json={"channel": "C1", "text": " "}), "no_text"),
        (lambda c, own, hers: c.chat_postMessage(channel="C1", text="x" * 40_001), "msg_too_long"),
        (lambda c, own, hers: c.chat_update(channel="C1", ts=own, text="x" * 4001), "msg_too_long"),
        (lambda c, own, hers: c.chat_postMessage(channel="C404", text="x"), "channel_not_found"),
        (lambda c, own, hers: c.chat_postMessage(channel="C7", text="x"), "not_in_channel"),
        (lambda c, own, hers: c.chat_postMessage(channel="C8", text="x"), "is_archived"),
        (lambda c, own, hers: c.chat_update(channel="C1", ts="1.000000", text="x"), "message_not_found"),
        (lambda c, own, hers: c.chat_update(channel="C1", ts=hers, text="x"), "cant_update_message"),
        (lambda c, own, hers: c.chat_delete(channel="C1", ts=hers), "cant_delete_message"),
        (
            lambda c, own, hers: c.chat_postMessage(channel="C1", text="x", blocks=button("x" * 76)),
            "invalid_blocks",
        ),
        (
            lambda c, own, hers: c.chat_postMessage(channel="C1", text="x", metadata={"event_type": ""}),
            "invalid_metadata_schema",
        ),
        (lambda c, own, hers: c.reactions_add(channel="C1", timestamp=own, name=":eyes:"), "invalid_name"),
        (lambda c, own, hers: c.reactions_remove(channel="C1", timestamp=own, name="eyes"), "no_reaction"),
        (lambda c, own, hers: c.conversations_replies(channel="C1", ts="1.000000"), "thread_not_found"),
        (lambda c, own, hers: c.users_info(user="U404"), "user_not_found"),
        (lambda c, own, hers: c.api_call("chat.invented"), "unknown_method"),
        (lambda c, own, hers: c.apps_connections_open(app_token=c.token), "not_allowed_token_type"),
        (lambda c, own, hers: c.auth_test(token="xoxb-another"), "invalid_auth"),
        (lambda c, own, hers: stream(c), "invalid_arguments"),
        (lambda c, own, hers: stream(c, thread_ts=hers, recipient_user_id=""), "missing_recipient_user_id"),
        (lambda c, own, hers: stream(c, thread_ts=hers, recipient_user_id="B0X"), "invalid_recipient_user_id"),
        (
            lambda c, own, hers: c.api_call(
                "chat.appendStream", json={"channel": "C1", "ts": own, "markdown_text": "x"}
            ),
            "message_not_in_streaming_state",
        ),
    ],
    ids=[
        "blank", "too long a post", "too long an edit", "no channel", "outside", "archived", "no message",
        "an edit of hers", "a deletion of hers", "too long a button", "bad metadata", "colons", "no reaction",
        "no thread", "nobody", "no method", "a bot's token for a socket", "another token",
        "a stream at the top", "a stream to nobody", "a stream to a bot", "an append to a plain message",
    ],
)  # fmt: skip
async def test_it_refuses_in_slacks_words(
    slack: FakeSlack, client: AsyncWebClient, call: Call, word: str
) -> None:
    slack.world.channel("C7").joined = False
    slack.world.channel("C8").archived = True
    own = str((await client.chat_postMessage(channel="C1", text="mine"))["ts"])
    hers = slack.world.say("C1", "UANN", "hers")
    with pytest.raises(SlackApiError) as refused:
        await call(client, own, hers)
    assert refused.value.response["error"] == word


async def test_what_is_streamed_takes_no_edit_until_it_is_ended(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    root = slack.world.say("C1", "UANN", "go")
    ts = (await stream(client, thread_ts=root))["ts"]
    with pytest.raises(SlackApiError) as refused:
        await client.chat_update(channel="C1", ts=ts, text="other")
    assert refused.value.response["error"] == "streaming_state_conflict"
    await client.api_call("chat.stopStream", json={"channel": "C1", "ts": ts})
    assert (await client.chat_update(channel="C1", ts=ts, text="other"))["ok"]


async def test_too_many_calls_are_refused_with_the_time_to_wait(
    slack: FakeSlack, client: AsyncWebClient
) -> None:
    slack.limits = Limits(burst=3, minute={"chat.update": 2})
    for _ in range(3):
        ts = (await client.chat_postMessage(channel="C1", text="x"))["ts"]
    with pytest.raises(SlackApiError) as refused:
        await client.chat_postMessage(channel="C1", text="x")
    assert (refused.value.response.status_code, refused.value.response["error"]) == (429, "ratelimited")
    assert 1 <= int(refused.value.response.headers["Retry-After"]) <= 2
    await client.chat_postMessage(channel="C2", text="another channel has its own")
    for text in ("y", "z"):
        await client.chat_update(channel="C1", ts=ts, text=text)
    with pytest.raises(SlackApiError) as refused:
        await client.chat_update(channel="C1", ts=ts, text="zz")
    assert 50 <= int(refused.value.response.headers["Retry-After"]) <= 60
    assert slack.texts("C1") == ["x", "x", "z"]


async def test_case_33_a_channel_in_which_everything_happens_meets_no_limit(
    tmp_path: Path, slack: FakeSlack
) -> None:
    """What is written, streamed, edited and told of jobs in one channel stays within what Slack allows."""
    slack.limits = Limits()
    hold = Hold()
    words = [f"word{number} " for number in range(200)]
    async with House(tmp_path, slack, [[*words[:80], hold, *words[80:]]]) as house:
        here = Address("slack", "U0AGENT", "D1")
        slack.world.say("D1", "UANN", "go")
        await slack.until(lambda: bool(slack.texts("D1")))
        for number in range(20):
            house.plugin.adapter.show(here, Progress(f"j{number % 4}", f"step {number}"))
        for _ in range(6):
            slack.world.say("D1", "UANN", "/status")
        hold.release()
        await slack.until(lambda: any(text.endswith("word199") for text in slack.texts("D1")), 30)
        await house.settled("D1")
    assert [one.method for one in slack.calls if one.answer is not None and not one.answer["ok"]] == []


async def test_case_35_where_the_workspace_takes_no_more_edits_every_text_is_whole_in_the_end(
    tmp_path: Path, slack: FakeSlack
) -> None:
    slack.limits = Limits(minute={"chat.update": 4}, seconds=3.0)
    holds = [Hold() for _ in range(6)]
    scripts: list[list[str | Hold]] = [["the beginning of it", hold, " and the end"] for hold in holds]
    channels = [f"D{number}" for number in range(6)]
    async with House(tmp_path, slack, scripts) as house:
        for channel in channels:
            slack.world.say(channel, "UANN", "go")
        await slack.until(lambda: all(slack.texts(one) for one in channels))
        for hold in holds:
            hold.release()
        whole = ["the beginning of it and the end"]
        await slack.until(lambda: all(slack.texts(one) == whole for one in channels), 20)
        await asyncio.gather(*(house.settled(one) for one in channels))
    assert any(one.answer is not None and one.answer.get("error") == "ratelimited" for one in slack.calls)
