"""What is said about tokens and accounts that Slack does not accept."""

from __future__ import annotations

import pytest

from hermes_core.errors import ConfigError, SendError
from hermes_core.testing.platforms.slack import FakeSlack

from .alone import Connected, app_of


@pytest.mark.parametrize("token", ["bot_token", "app_token"])
async def test_a_token_that_slack_does_not_take_is_said_in_words(slack: FakeSlack, token: str) -> None:
    with pytest.raises(ConfigError, match=f"{token}_env.*invalid_auth"):
        async with Connected(slack, None, **{token: "xoxb-of-another"}):
            pass


async def test_tokens_that_are_mixed_up_are_said_in_words(slack: FakeSlack) -> None:
    with pytest.raises(ConfigError, match="not_allowed_token_type"):
        async with Connected(slack, bot_token=slack.app_token):
            pass


async def test_a_slack_that_is_down_is_a_fault_to_try_again_after(slack: FakeSlack) -> None:
    slack.refuse("auth.test", status=503)
    with pytest.raises(SendError, match="fault of its own"):
        async with Connected(slack):
            pass


async def test_no_token_is_ever_shown_x2(slack: FakeSlack) -> None:
    assert slack.bot_token not in repr(app_of(slack))
