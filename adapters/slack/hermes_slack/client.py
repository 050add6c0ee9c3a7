"""Client: slack_sdk's client, whose calls with JSON are prepared once and not anew for each message."""

from __future__ import annotations

import json as stdlib
import logging
from collections.abc import Callable
from typing import Any

import aiohttp
import msgspec
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

__all__ = ["Client"]


class Client(AsyncWebClient):
    """Calls over `session`, without slack_sdk's own repeats: a post that is cut after it was taken would stand
    there twice (D5).

    What a call gives and raises is what slack_sdk gives and raises; only that a `SlackApiError` holds nothing of
    what was sent, and so no token (X2). `dated`: see `Gateway.dated`.
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
        self._open = session
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
        async with self._open.post(
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
