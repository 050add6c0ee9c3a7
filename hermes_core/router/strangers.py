"""Strangers: who is not served is told so in one line, once an hour at most, with how to be let in (X1, E12)."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from hermes_core.errors import StateError
from hermes_core.messages import Message, Role
from hermes_core.people import ASKED
from hermes_core.recent import Recent
from hermes_core.router.services import Services

__all__ = ["Strangers"]

log = logging.getLogger("hermes.access")

REMEMBERED: Final = 1000  # people whose last refusal is remembered
HOUR: Final = 3600.0

WITH_CODE: Final = (
    "I do not know you yet. Whoever runs this agent lets you in with: hermes pair approve {} (within an hour)"
)
FULL: Final = "I do not know you yet, and enough people wait to be let in. Try again in an hour."
CLOSED: Final = "I do not know you. The operator of this agent can let you in ([access] allow)."
OUT: Final = "You are not served here."


class Strangers:
    """Answers messages of people who are not served. What they wrote is neither kept nor read."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._told = Recent[tuple[str, str], float](REMEMBERED)

    def refuse(self, message: Message) -> None:
        """One line, in the background; none for a bot, which might answer it (X4), or who talks to others (E12)."""
        author = message.author
        person = (message.address.platform, author.id)
        now = self._services.wall()
        if author.bot or not message.addressed or now - self._told.get(person, -HOUR) < HOUR:
            return
        self._told[person] = now
        log.info("refused %s:%s", *person)
        self._services.tasks.spawn(self._answer(message), "a stranger")

    async def _answer(self, message: Message) -> None:
        text = await self._text(message)
        if text:
            self._services.tell_directly(message.address, text)

    async def _text(self, message: Message) -> str:
        people, platform = self._services.people, message.address.platform
        person = f"{platform}:{message.author.id}"
        if people is not None and people.role(person) is Role.NOBODY:
            return OUT
        if people is None or not self._services.config.door(platform).pairing:
            return CLOSED
        try:
            code = await asyncio.to_thread(people.ask, person, message.author.name)
        except StateError as error:
            log.error("nobody can ask to be let in: %s", error)
            return CLOSED
        if code == ASKED:  # told by a run of the program that has ended since
            return ""
        return WITH_CODE.format(code) if code else FULL
