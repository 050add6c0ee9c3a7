"""What `hermes doctor` and `hermes init` find out about a Slack app, and the manifest that they show."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest

from hermes_core.adapter import KnownCommand
from hermes_core.config import Config, Secrets
from hermes_core.errors import HermesError, SecretUnset
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_slack.plugin import SlackPlugin


async def look(slack: FakeSlack, **more: Any) -> str:
    environ = {
        "SLACK_BOT_TOKEN": more.pop("bot", slack.bot_token),
        "SLACK_APP_TOKEN": more.pop("app", slack.app_token),
        "SLACK_SIGNING_SECRET": slack.signing_secret,
    }
    settings = SlackPlugin.Settings(base_url=slack.base_url, secrets=Secrets(environ), **more)
    (check,) = SlackPlugin(settings).hermes_checks()
    return (await check.run()).text


async def test_tokens_that_slack_accepts_are_told_with_name_and_workspace(slack: FakeSlack) -> None:
    assert "the agent is @" in await look(slack)
    assert [call.method for call in slack.calls] == ["auth.test", "apps.connections.open"]


async def test_over_http_no_app_token_is_needed(slack: FakeSlack) -> None:
    assert "over HTTP" in await look(slack, mode="http", app="")
    assert [call.method for call in slack.calls] == ["auth.test"]


@pytest.mark.parametrize(
    ("given", "key"), [({"bot": "xoxb-no"}, "bot_token_env"), ({"app": "xapp-no"}, "app_token_env")]
)
async def test_a_wrong_token_is_named_by_its_key_and_never_shown(
    slack: FakeSlack, given: dict[str, str], key: str
) -> None:
    with pytest.raises(HermesError, match=key) as error:
        await look(slack, **given)
    assert "-no" not in str(error.value)


async def test_a_server_that_is_not_there_is_said_so() -> None:
    async with FakeSlack() as slack:
        pass
    with pytest.raises(HermesError, match=r"cannot be reached.*http://127\.0\.0\.1:.*Connect call failed"):
        await look(slack)


@pytest.mark.parametrize(
    ("mode", "second"), [("socket", "SLACK_APP_TOKEN"), ("http", "SLACK_SIGNING_SECRET")]
)
def test_every_secret_that_is_not_set_is_named_at_once(mode: Literal["socket", "http"], second: str) -> None:
    plugin = SlackPlugin(SlackPlugin.Settings(mode=mode))
    plugin.hermes_configured(Config.of({"http": {"port": 0}}))
    (factory,) = plugin.hermes_adapters()
    with pytest.raises(SecretUnset) as error:
        factory.open({})
    assert error.value.variables == ("SLACK_BOT_TOKEN", second)
    assert f"export SLACK_BOT_TOKEN=… {second}=…" in error.value.advice
    assert "out" not in error.value.advice, "the key is the default: without it all is the same"


def test_the_manifest_stands_in_the_guide_with_the_commands_and_the_way_that_was_chosen() -> None:
    (setup,) = SlackPlugin().hermes_setup()
    commands = (KnownCommand("stop", "Stop.", "/stop"),)
    for mode, socket in (("socket", True), ("http", False)):
        text = setup.guide({"mode": mode}, commands)
        shown = json.loads(text[text.index("{\n") : text.rindex("\n}") + 2])
        assert shown["settings"]["socket_mode_enabled"] is socket
        assert "/stop" in [one["command"] for one in shown["features"]["slash_commands"]]
        assert ("https://YOUR.HOST/slack/events" in text) is not socket
