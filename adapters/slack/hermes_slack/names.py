"""Names: what people are called, asked of Slack once for each person; for eyes only."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Final

from hermes_core.errors import SendError
from hermes_slack.web import Web

__all__ = ["Names"]

log = logging.getLogger("hermes.slack")

_PEOPLE: Final = 5000
_PATIENCE: Final = 1.0  # seconds; Slack waits 3 s for the acknowledgement


class Names:
    """Asks at most once for a person. Where Slack does not say (no scope, too slow), the name is ""."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self._known: OrderedDict[str, str] = OrderedDict()

    async def of(self, user: str) -> str:
        """The display name of this person."""
        name = self._known.get(user)
        if name is None:
            name = self._known[user] = await self._ask(user)
            if len(self._known) > _PEOPLE:
                self._known.popitem(last=False)
        return name

    async def _ask(self, user: str) -> str:
        try:
            async with asyncio.timeout(_PATIENCE):
                answer = await self._web.read("users.info", user=user)
        except (SendError, TimeoutError) as error:
            log.debug("the name of a person is not known: %s", error)
            return ""
        person = answer.get("user") or {}
        profile = person.get("profile") or {}
        return str(profile.get("display_name") or profile.get("real_name") or person.get("name") or "")
