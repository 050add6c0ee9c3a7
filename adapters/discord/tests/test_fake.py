"""The fake refuses what Discord refuses, with its codes and texts."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from hermes_core.testing.platforms.discord import FakeDiscord

CASES = {
    "empty": ({"content": "  "}, 400, 50006, "Cannot send an empty message"),
    "too long": ({"content": "x" * 2001}, 400, 50035, "Invalid Form Body"),
    "nonce too long": ({"content": "x", "nonce": "n" * 26}, 400, 50035, "Invalid Form Body"),
    "unknown quote": (
        {"content": "x", "message_reference": {"message_id": "1"}},
        400,
        50035,
        "Invalid Form Body",
    ),
}


async def call(
    fake: FakeDiscord, method: str, path: str, body: Any = None, token: str = ""
) -> tuple[int, Any, Any]:
    """One request; gives status, body and headers."""
    headers = {"Authorization": f"Bot {token or fake.token}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, fake.base_url + path, json=body) as response,
    ):
        return response.status, await response.json(), response.headers


@pytest.mark.parametrize("case", CASES)
async def test_a_message_is_refused_as_discord_does(case: str, discord: FakeDiscord) -> None:
    body, status, code, text = CASES[case]
    got, refusal, _ = await call(discord, "POST", f"/channels/{discord.direct()}/messages", body)
    assert (got, refusal["code"], refusal["message"]) == (status, code, text)
    assert discord.requests[-1].status == status


async def test_a_wrong_token_and_an_unknown_channel_are_refused(discord: FakeDiscord) -> None:
    assert (await call(discord, "GET", "/users/@me", token="x"))[:2] == (
        401,
        {"message": "401: Unauthorized", "code": 0},
    )
    status, refusal, _ = await call(discord, "POST", "/channels/5/messages", {"content": "x"})
    assert (status, refusal["code"], refusal["message"]) == (404, 10003, "Unknown Channel")


async def test_the_sixth_message_in_five_seconds_meets_the_rate_limit(discord: FakeDiscord) -> None:
    chat = discord.direct()
    answers = [
        await call(discord, "POST", f"/channels/{chat}/messages", {"content": str(n)}) for n in range(6)
    ]
    assert [status for status, _, _ in answers] == [200] * 5 + [429]
    _, body, headers = answers[-1]
    assert body["message"] == "You are being rate limited."
    assert 0 < body["retry_after"] <= 5
    assert headers["Via"]
    assert headers["X-RateLimit-Remaining"] == "0"
    assert discord.texts(chat) == ["0", "1", "2", "3", "4"]


async def test_an_enforced_nonce_gives_the_first_message_and_a_deleted_one_is_unknown(
    discord: FakeDiscord,
) -> None:
    chat = discord.direct()
    body = {"content": "one", "nonce": "n", "enforce_nonce": True}
    first = (await call(discord, "POST", f"/channels/{chat}/messages", body))[1]
    second = (await call(discord, "POST", f"/channels/{chat}/messages", {**body, "content": "two"}))[1]
    assert (second["id"], second["content"]) == (first["id"], "one")
    await discord.delete(chat, first["id"])
    status, refusal, _ = await call(discord, "POST", f"/channels/{chat}/messages", body)
    assert (status, refusal["code"]) == (404, 10008)


async def test_a_message_of_somebody_else_cannot_be_edited(discord: FakeDiscord) -> None:
    chat = discord.direct()
    theirs = await discord.say(chat, "ann", "mine")
    status, refusal, _ = await call(discord, "PATCH", f"/channels/{chat}/messages/{theirs}", {"content": "x"})
    assert (status, refusal["code"]) == (403, 50005)


async def test_the_history_has_pages_of_a_hundred_newest_first(discord: FakeDiscord) -> None:
    chat = discord.direct()
    ids = [await discord.say(chat, "ann", str(number), told=False) for number in range(150)]
    _, page, _ = await call(discord, "GET", f"/channels/{chat}/messages?limit=100&after={ids[9]}")
    assert [one["content"] for one in page] == [str(number) for number in range(109, 9, -1)]
    status, refusal, _ = await call(discord, "GET", f"/channels/{chat}/messages?limit=101")
    assert (status, refusal["code"]) == (400, 50035)
