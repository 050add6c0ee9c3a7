"""Check: whether Slack accepts the tokens, for `hermes doctor` and `hermes init`; and what they ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hermes_core.adapter import Form, KnownCommand
from hermes_core.checks import Finding, Question, Setup
from hermes_core.config import masked
from hermes_core.errors import HermesError, SendError, first_cause
from hermes_slack.limits import WORDS
from hermes_slack.manifest import manifest

if TYPE_CHECKING:
    from hermes_slack.adapter import App

__all__ = ["check", "setup"]

_TIMEOUT: Final = 10.0  # seconds for one call
_HTTP: Final = ("mode", "http")


def setup() -> Setup:
    """What `hermes init` asks; the manifest comes before the tokens, which only an app has."""
    return Setup(
        "slack",
        "Slack",
        (
            Question(
                "mode",
                "How it is reached: socket needs no public address, http one that Slack can call",
                "socket",
                ("socket", "http"),
            ),
            Question(
                "public_url",
                "The public address of this program",
                form=Form(
                    r"https://[^/\s]+(/\S*)?", 'an address with https, such as "https://agent.example.org"'
                ),
                only=_HTTP,
                section="http",
            ),
            Question("bot_token_env", "The Bot User OAuth Token (xoxb-…)", variable="SLACK_BOT_TOKEN"),
            Question(
                "app_token_env",
                "The App-Level Token with connections:write (xapp-…)",
                variable="SLACK_APP_TOKEN",
                only=("mode", "socket"),
            ),
            Question("signing_secret_env", "The Signing Secret", variable="SLACK_SIGNING_SECRET", only=_HTTP),
        ),
        guide=_guide,
        person="In Slack: your profile, the three dots, Copy member ID (U…)",
    )


def _guide(answers: Mapping[str, str], commands: tuple[KnownCommand, ...]) -> str:
    http = answers.get("mode") == "http"
    made = manifest(commands, public_url=answers.get("http.public_url", "https://YOUR.HOST") if http else "")
    words = WORDS["guide"]
    text: str = words["text"].format(json.dumps(made.content, indent=2, ensure_ascii=False))
    text += words["http"].format(answers.get("http.port", "8765")) if http else words["socket"]
    if made.left_out:
        text += WORDS["guide"]["left_out"].format(", ".join(made.left_out))
    return text.rstrip()


async def check(app: App) -> Finding:
    """Ask Slack who the agent is and, in mode socket, for an address, which stays unused."""
    import aiohttp

    from hermes_slack.client import Client

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT)) as session:
        client = Client(app.bot_token, app.base_url, session)
        try:
            me = await client.me()
            if app.app_token:
                await client.address(app.app_token)
        except SendError as error:
            why = f" at {masked(app.base_url)}: {first_cause(error)}." if error.__cause__ is not None else "."
            advice = "Is the network there, and is adapters.slack.base_url right?"
            raise HermesError(f"{error.message.rstrip('.')}{why}", advice) from error
    how = "over Socket Mode" if app.app_token else "over HTTP, at POST /slack/events"
    return Finding(f"the agent is @{me.name} in {me.called}, {how}")
