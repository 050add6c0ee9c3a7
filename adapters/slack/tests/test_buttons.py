"""Buttons: what stands on them, and that a press is a message of who pressed (case 40)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes_core.adapter import Drafted
from hermes_core.messages import Address, Choice, Outgoing
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_core.testing.platforms.slack_rules import buttons_of, form, press_payload
from hermes_slack.convert import Me, delivered

from .alone import HERE, Connected
from .house import House
from .test_webhook import post

ME = Me("U0AGENT", "hermes", "T0TEAM")
CHOICES = (Choice("Yes", "/approve 7f"), Choice("No", "/deny 7f"))


async def test_case_40_a_press_in_a_thread_is_answered_in_that_thread_after_the_commit(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with House(tmp_path, slack) as house:
        root = slack.world.say("C1", "UANN", "<@U0AGENT> hello")
        await house.says(["you said: hello"], "C1", root)
        there = Address("slack", "U0AGENT", "C1", root)
        sent = await house.plugin.adapter.send(
            Outgoing("k", there, "May I?", choices=(Choice("Yes", "yes, do it"),))
        )
        await slack.press("C1", "UANN", sent.ids[0], "Yes")
        await house.says(["you said: hello", "May I?", "you said: yes, do it"], "C1", root)
        await slack.until(lambda: not slack.unacked())
        assert slack.texts("C1") == []


async def test_a_press_is_not_acknowledged_before_it_is_kept_d1(slack: FakeSlack) -> None:
    async with Connected(slack) as (adapter, gate):
        sent = await adapter.send(Outgoing("k", HERE, "May I?", choices=CHOICES))
        gate.commits.put_nowait(False)
        payload = await slack.press("D1", "UANN", sent.ids[0], "No")
        await slack.until(lambda: len(slack.envelopes) == 2 and not slack.envelopes[0].acks)
        gate.commits.put_nowait(True)
        await slack.redeliver(slack.envelopes[-1])
        await slack.until(lambda: slack.envelopes[-1].acks == 1)
        first, second = gate.received
        assert first == second, "the same press twice is one message"
        assert first.text == "/deny 7f"
        assert first.author.id == "UANN"
        assert first.sent == float(payload["actions"][0]["action_ts"])


async def test_a_press_comes_over_signed_http_too(tmp_path: Path, slack: FakeSlack) -> None:
    async with House(tmp_path, slack, http=True) as house:
        sent = await house.plugin.adapter.send(
            Outgoing("k", HERE, "May I?", choices=(Choice("Yes", "yes, do it"),))
        )
        message = slack.world.channel("D1").messages[sent.ids[0]]
        payload = press_payload("D1", "UANN", message, buttons_of(message)["Yes"], slack.world.ts(), "t1")
        body = form({"payload": json.dumps(payload)})
        assert await post(house, slack)(body, "application/x-www-form-urlencoded") == 200
        await house.says(["May I?", "you said: yes, do it"], "D1")


@pytest.mark.parametrize("length", [20, 2999, 3001, 9000])
async def test_buttons_stand_once_under_a_text_of_any_length(slack: FakeSlack, length: int) -> None:
    async with Connected(slack) as (adapter, _):
        text = ("word & " * length)[:length].strip() + "."
        sent = await adapter.send(Outgoing("k", HERE, text, choices=CHOICES))
        messages = [slack.world.channel("D1").messages[ts] for ts in sent.ids]
        assert [list(buttons_of(one)) for one in messages] == [[]] * (len(messages) - 1) + [["Yes", "No"]]
        shown = " ".join(str(one["text"]) for one in messages)
        assert shown.count("word") == text.count("word")


async def test_a_draft_that_gets_buttons_has_them_in_the_end(slack: FakeSlack) -> None:
    async with Connected(slack) as (adapter, _):
        adapter.show(HERE, Drafted(1, 0, "May I do that now, or rather not?"))
        await slack.until(lambda: bool(slack.texts("D1")))
        text = "May I do that now, or rather not? Say so."
        sent = await adapter.send(Outgoing("k", HERE, text, turn="1", choices=CHOICES))
        assert slack.texts("D1") == [text]
        assert list(buttons_of(slack.world.channel("D1").messages[sent.ids[0]])) == ["Yes", "No"]


def pressed(**more: object) -> dict[str, object]:
    message = {"ts": "5.5", "text": "May I?"}
    button = {"action_id": "hermes_choice_0", "value": "yes", "type": "button"}
    return {**press_payload("C1", "UANN", message, button, "9.9", "t"), **more}


def test_a_press_at_the_top_of_a_channel_belongs_to_what_stands_there() -> None:
    found = delivered(pressed(), ME)
    assert found is not None
    assert found.message.address == Address("slack", "U0AGENT", "C1")  # type: ignore[union-attr]
    assert found.message.group  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"actions": []}, id="nothing pressed"),
        pytest.param({"actions": [{"action_id": "other", "value": "x", "action_ts": "1.1"}]}, id="not ours"),
        pytest.param({"user": {}}, id="nobody"),
        pytest.param({"type": "view_submission"}, id="another kind"),
        pytest.param({"actions": "x", "user": 3, "channel": None}, id="nonsense"),
    ],
)
def test_what_is_no_press_of_our_button_is_only_acknowledged(more: dict[str, object]) -> None:
    assert delivered(pressed(**more), ME) is None
