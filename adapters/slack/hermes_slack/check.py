"""Check: whether Slack accepts the tokens, for `hermes doctor` and `hermes init`; and what they ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hermes_core.adapter import KnownCommand
from hermes_core.checks import Finding, Question, Setup
from hermes_core.errors import HermesError
from hermes_slack.manifest import manifest

if TYPE_CHECKING:
    from hermes_slack.adapter import App

__all__ = ["check", "setup"]

_TIMEOUT: Final = 10.0  # seconds for one call


def setup() -> Setup:
    """What `hermes init` asks; the manifest comes before the tokens, which only an app has."""
    return Setup(
        "slack",
        "Slack",
        (
            Question("bot_token_env", "The Bot User OAuth Token (xoxb-…)", variable="SLACK_BOT_TOKEN"),
            Question(
                "app_token_env",
                "The App-Level Token with connections:write (xapp-…)",
                variable="SLACK_APP_TOKEN",
            ),
        ),
        guide=_guide,
        person="In Slack: your profile, the three dots, Copy member ID (U…)",
    )


def _guide(answers: Mapping[str, str], commands: tuple[KnownCommand, ...]) -> str:
    made = manifest(commands, public_url="https://YOUR.HOST" if answers.get("mode") == "http" else "")
    lines = [
        "At https://api.slack.com/apps choose Create New App, From a manifest, and paste this:",
        "",
        json.dumps(made.content, indent=2, ensure_ascii=False),
        "",
        "Then Install to Workspace. Under OAuth & Permissions stands the bot token (xoxb-…). Under Basic Information",
        "generate an App-Level Token with the scope connections:write (xapp-…).",
    ]
    if made.left_out:
        lines.append(
            f"Slack takes no more slash commands: {', '.join(made.left_out)} are typed after a mention,"
            " in direct chats, or behind /hermes."
        )
    return "\n".join(lines)


async def check(app: App) -> Finding:
    """Ask Slack who the agent is and, in mode socket, for an address, which stays unused."""
    import aiohttp
    from slack_sdk.errors import SlackApiError
    from slack_sdk.web.async_client import AsyncWebClient

    from hermes_slack.faults import account_fault, send_error
    from hermes_slack.posts import FAILURES

    key = "bot_token_env"
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT)) as session:
        client = AsyncWebClient(app.bot_token, base_url=app.base_url, session=session, retry_handlers=[])
        try:
            me = await client.auth_test()
            if app.app_token:
                key = "app_token_env"
                await client.apps_connections_open(app_token=app.app_token)
        except FAILURES as error:
            fault = account_fault(error, key) if isinstance(error, SlackApiError) else None
            told = fault or HermesError(send_error(error).message, "Is the network there?")
            raise told from error
    if not me.get("bot_id"):
        raise HermesError(
            "adapters.slack.bot_token_env: this is the token of a person, not of a bot.",
            "Take the Bot User OAuth Token (xoxb-…) from the app's page OAuth & Permissions.",
        )
    how = "over Socket Mode" if app.app_token else "over HTTP, at POST /slack/events"
    return Finding(f"the agent is @{me.get('user')} in {me.get('team')}, {how}")
