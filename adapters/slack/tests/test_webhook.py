"""Signed HTTP: the signature before anything else (X3), and a 200 only after the commit (D1)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.route import Problem, Request
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_core.testing.platforms.slack_rules import form, slash_payload
from hermes_slack.webhook import read, verified

from .house import House

NOW = 1_700_000_000.0
SECRET = FakeSlack.signing_secret
JSON = {"content-type": ("application/json",)}


def signed(body: bytes, at: float = NOW, kind: str = "application/json") -> dict[str, tuple[str, ...]]:
    return {name: (value,) for name, value in FakeSlack().signed(body, at, kind).items()}


def request(body: bytes, headers: Mapping[str, tuple[str, ...]]) -> Request:
    return Request("POST", "/slack/events", {}, {}, headers, body, "")


def test_what_slack_signed_is_taken() -> None:
    assert verified(SECRET, signed(b"{}"), b"{}", NOW + 299)


def test_slacks_own_example_verifies() -> None:
    """From authentication/verifying-requests-from-slack."""
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    headers = {
        "x-slack-request-timestamp": ("1531420618",),
        "x-slack-signature": ("v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",),
    }
    assert verified("8f742231b10e8888abcd99yyyzzz85a5", headers, body, 1531420618.0)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="no headers"),
        pytest.param({**signed(b"{}"), "x-slack-signature": ("v0=",)}, id="no signature"),
        pytest.param({**signed(b"{}"), "x-slack-signature": ("v0=ü" * 9,)}, id="not ascii"),
        pytest.param(
            {**signed(b"{}"), "x-slack-signature": signed(b"{}")["x-slack-signature"] * 2},
            id="two signatures",
        ),
        pytest.param({**signed(b"{}"), "x-slack-request-timestamp": ("soon",)}, id="no time"),
        pytest.param({**signed(b"{}"), "x-slack-request-timestamp": ("9" * 400,)}, id="endless time"),
        pytest.param(signed(b"{}", NOW - 301), id="too old"),
        pytest.param(signed(b"{}", NOW + 301), id="from the future"),
        pytest.param(signed(b"{ }"), id="another body"),
    ],
)
def test_anything_else_is_not(headers: dict[str, tuple[str, ...]]) -> None:
    assert not verified(SECRET, headers, b"{}", NOW)


@given(st.binary(max_size=40), st.integers(0, 63), st.integers(1, 255))
def test_one_changed_byte_is_found(body: bytes, at: int, by: int) -> None:
    headers = signed(body)
    assert verified(SECRET, headers, body, NOW)
    changed = bytearray(body or b"\0")
    changed[at % len(changed)] ^= by
    assert not verified(SECRET, headers, bytes(changed), NOW)


@given(st.binary(max_size=60), st.sampled_from(["application/json", "application/x-www-form-urlencoded", ""]))
def test_a_verified_body_is_read_or_refused_and_nothing_else(body: bytes, kind: str) -> None:
    outcome: object
    try:
        outcome = type(read({"content-type": (kind,)}, body))
    except Problem as problem:
        outcome = problem.status
    assert outcome in (dict, 400)


Post = Callable[[bytes, str], Awaitable[int]]


def post(house: House, slack: FakeSlack) -> Post:
    async def posted(body: bytes, kind: str = "application/json") -> int:
        headers = {name: (value,) for name, value in slack.signed(body, kind=kind).items()}
        return (await house.plugin.adapter.webhook(request(body, headers))).status

    return posted


async def test_events_and_commands_come_over_http_and_are_answered_after_the_commit(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with House(tmp_path, slack, http=True) as house:
        send = post(house, slack)
        slack.deliver = False
        slack.world.say("D1", "UANN", "hello")
        body = json.dumps(slack.events[0]).encode()
        assert await send(body, "application/json") == 200
        assert await send(body, "application/json") == 200  # a retry
        await house.says(["you said: hello"], "D1")
        command = form(slash_payload("D1", "UANN", "/busy", "queue", "t1"))
        assert await send(command, "application/x-www-form-urlencoded") == 200
        await slack.until(lambda: len(slack.texts("D1")) == 2)
        command = form(slash_payload("D1", "UANN", "/hermes", "busy payload", "t2"))
        assert await send(command, "application/x-www-form-urlencoded") == 200
        await slack.until(lambda: len(slack.texts("D1")) == 3)  # bolt alone takes this form for an empty one
        pressed = form({"payload": json.dumps({"type": "block_actions"})})
        assert await send(pressed, "application/x-www-form-urlencoded") == 200
        assert len(house.model.requests) == 1


async def test_slack_verifies_the_address_and_a_stranger_learns_nothing(
    tmp_path: Path, slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    async with House(tmp_path, slack, http=True) as house:
        body = json.dumps({"type": "url_verification", "challenge": "3eZbrw1a"}).encode()
        headers = {name: (value,) for name, value in slack.signed(body).items()}
        answer = await house.plugin.adapter.webhook(request(body, headers))
        assert json.loads(answer.body) == {"challenge": "3eZbrw1a"}
        for _ in range(3):
            with pytest.raises(Problem) as refused:
                await house.plugin.adapter.webhook(request(b"not even JSON", JSON))
            assert refused.value.status == 401
    assert caplog.text.count("(401)") == 1, "the operator reads it, and not once for each call of a stranger"
    assert "signing secret" in caplog.text
