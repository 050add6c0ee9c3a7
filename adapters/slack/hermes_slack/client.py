"""Client: slack_sdk's client, whose calls with JSON are prepared once and not anew for each message."""

from __future__ import annotations

import asyncio
import json as stdlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import aiohttp
import msgspec
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from hermes_core.errors import ConfigError, SendError
from hermes_core.messages import Address
from hermes_slack.convert import Me
from hermes_slack.faults import answered

__all__ = ["Client", "in_thread"]

_PAGE: Final = 200
_PAGES: Final = 10
_PATIENCE: Final = 60.0  # seconds that Slack may ask to wait
_TRIES: Final = 4


class Client(AsyncWebClient):
    """Calls over `session`, without slack_sdk's own repeats: a post that is cut after it was taken would stand
    there twice (D5).

    What `api_call` gives and raises is what slack_sdk gives and raises; only that a `SlackApiError` holds nothing of
    what was sent, and so no token (X2). `dated`: see `Gateway.dated`. What can go wrong with all
    other calls that are defined here is a `SendError`, and nothing else.
    """

    def __init__(
        self,
        token: str,
        base_url: str,
        session: aiohttp.ClientSession,
        logger: logging.Logger | None = None,
        dated: Callable[[str | None], None] = lambda header: None,
    ) -> None:
        super().__init__(token, base_url=base_url, session=session, logger=logger, retry_handlers=[])
        self.http = session
        self._dated = dated
        self._prepared = {
            **self.headers,
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json;charset=utf-8",
        }

    async def api_call(
        self, api_method: str, *, json: dict[str, Any] | None = None, **given: Any
    ) -> AsyncSlackResponse:
        """Call a method. Of `given` slack_sdk's own `api_call` knows what it is."""
        if json is None or given:
            answered = await super().api_call(api_method, json=json, **given)
            self._dated(answered.headers.get("Date"))
            return answered
        url = self.base_url + api_method
        sent = _encoded(json)
        async with self.http.post(
            url,
            data=sent,
            headers=self._prepared,
            proxy=self.proxy,
            ssl=True if self.ssl is None else self.ssl,
        ) as answer:
            data = _decoded(await answer.read())
            self._dated(answer.headers.get("Date"))
        response = AsyncSlackResponse(
            client=self,
            http_verb="POST",
            api_url=url,
            req_args={},
            data=data,
            headers=answer.headers,  # type: ignore[arg-type]  # in any case of letters, as slack_sdk itself gives them
            status_code=answer.status,
        )
        response.validate()  # type: ignore[no-untyped-call]
        return response

    async def call(self, method: str, **arguments: Any) -> Mapping[str, Any]:
        """Call a method that takes JSON."""
        return await answered(self.api_call(method, json=arguments))

    async def read(self, method: str, **arguments: str) -> Mapping[str, Any]:
        """Call a method that takes a form."""
        return await answered(self.api_call(method, data=arguments))

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

    async def me(self) -> Me:
        """Who the agent is. `ConfigError`: Slack does not accept the bot token; `SendError`: it is not reached."""
        answer = await answered(self.auth_test(), "bot_token_env")
        user = answer.get("user_id")
        if not isinstance(user, str) or not answer.get("bot_id"):
            raise ConfigError(
                "[adapters.slack] bot_token_env: this is the token of a person, not of a bot.",
                "Take the Bot User OAuth Token (xoxb-…) from the app's page OAuth & Permissions.",
            )
        name, team, called = (str(answer.get(key) or "") for key in ("user", "team_id", "team"))
        return Me(user, name or "hermes", team, called)

    async def address(self, app_token: str) -> str:
        """Where to connect, once. Raises what `me` raises, for the app token."""
        answer = await answered(self.apps_connections_open(app_token=app_token), "app_token_env")
        return str(answer["url"])


def in_thread(address: Address) -> dict[str, str]:
    """The arguments that put something into this conversation."""
    return {"channel": address.channel} | ({"thread_ts": address.thread} if address.thread else {})


def _encoded(arguments: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(arguments)
    except UnicodeEncodeError:  # half of a surrogate pair, which only the other one can write and read
        return stdlib.dumps(arguments).encode()


def _decoded(body: bytes) -> dict[str, Any]:
    """The answer; nothing where it is no answer of Slack's Web API."""
    try:
        data = msgspec.json.decode(body)
    except msgspec.DecodeError:
        try:
            data = stdlib.loads(body)
        except ValueError:
            return {}
    return data if isinstance(data, dict) else {}
