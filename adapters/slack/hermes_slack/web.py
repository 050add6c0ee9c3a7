"""Web: calls of Slack's Web API. What can go wrong with one is a `SendError`, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from slack_sdk.web.async_client import AsyncWebClient

from hermes_core.errors import ConfigError, SendError
from hermes_core.messages import Address
from hermes_slack.convert import Me
from hermes_slack.faults import answered

__all__ = ["Web", "address", "in_thread", "me"]

_PAGE: Final = 200
_PAGES: Final = 10
_PATIENCE: Final = 60.0  # seconds that Slack may ask to wait
_TRIES: Final = 4


class Web:
    """Calls with the bot's token, by their names."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client

    async def call(self, method: str, **arguments: Any) -> Mapping[str, Any]:
        """Call a method that takes JSON."""
        return await answered(self._client.api_call(method, json=arguments))

    async def read(self, method: str, **arguments: str) -> Mapping[str, Any]:
        """Call a method that takes a form."""
        return await answered(self._client.api_call(method, data=arguments))

    async def standing(
        self, channel: str, thread: str | None, **asked: str
    ) -> AsyncIterator[Mapping[str, Any]]:
        """The messages of a channel's top or of a thread, in the order in which Slack pages through them.

        `asked` are more arguments for that. Waits a while where Slack wants it, and tries again.
        """
        method = "conversations.history" if thread is None else "conversations.replies"
        asked |= {"channel": channel, "limit": str(_PAGE)} | ({} if thread is None else {"ts": thread})
        for _ in range(_PAGES):
            answer = await self._patiently(method, asked)
            for message in answer.get("messages") or ():
                yield message
            cursor = (answer.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                break
            asked["cursor"] = cursor

    async def _patiently(self, method: str, asked: Mapping[str, str]) -> Mapping[str, Any]:
        for _ in range(_TRIES - 1):
            try:
                return await self.read(method, **asked)
            except SendError as error:
                if error.retry_after is None or error.retry_after > _PATIENCE:
                    raise
                await asyncio.sleep(error.retry_after)
        return await self.read(method, **asked)


def in_thread(address: Address) -> dict[str, str]:
    """The arguments that put something into this conversation."""
    return {"channel": address.channel} | ({"thread_ts": address.thread} if address.thread else {})


async def me(client: AsyncWebClient) -> Me:
    """Who the agent is. `ConfigError`: Slack does not accept the bot token; `SendError`: it is not reached."""
    answer = await answered(client.auth_test(), "bot_token_env")
    user = answer.get("user_id")
    if not isinstance(user, str) or not answer.get("bot_id"):
        raise ConfigError(
            "[adapters.slack] bot_token_env: this is the token of a person, not of a bot.",
            "Take the Bot User OAuth Token (xoxb-…) from the app's page OAuth & Permissions.",
        )
    name, team, called = (str(answer.get(key) or "") for key in ("user", "team_id", "team"))
    return Me(user, name or "hermes", team, called)


async def address(client: AsyncWebClient, app_token: str) -> str:
    """Where to connect, once. Raises what `me` raises, for the app token."""
    answer = await answered(client.apps_connections_open(app_token=app_token), "app_token_env")
    return str(answer["url"])
