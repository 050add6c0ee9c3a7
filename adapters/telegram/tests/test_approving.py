"""A tool that asks first, on Telegram: buttons under the question, and only the press of the right person counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hermes_access.plugin import AccessPlugin
from hermes_core.testing.approval_contract import SCRIPT, ApprovalContract, Asker, Wiper
from hermes_core.testing.platforms.telegram import TelegramServer

FORUM, TOPIC = -200, 5
PEOPLE = {"ann": 66, "ben": 8}


class Thread:
    """A topic of a forum."""

    def __init__(self, telegram: TelegramServer, house: Any, wiper: Wiper) -> None:
        self.wiper = wiper
        self._telegram = telegram
        self._house = house

    async def begin(self) -> None:
        topic: dict[str, Any] = {"message_thread_id": TOPIC, "is_topic_message": True}
        self._telegram.say("@hermes_bot wipe it", FORUM, PEOPLE["ben"], **topic)

    def _sent(self, *, here: bool = True) -> list[dict[str, Any]]:
        return [one for one in self._telegram.sent(FORUM) if (one.get("message_thread_id") == TOPIC) is here]

    def said(self) -> list[str]:
        return [one["text"] for one in self._sent()]

    def _question(self) -> dict[str, Any]:
        (asked,) = [one for one in self._sent() if "May I run" in one["text"]]
        return asked

    def buttons(self) -> list[str]:
        rows = self._question()["reply_markup"]["inline_keyboard"]
        return [one["text"] for row in rows for one in row]

    async def press(self, name: str, label: str) -> None:
        pressed = self._telegram.press(self._question(), label, user=PEOPLE[name])
        await self._telegram.until(lambda: self._telegram.presses[pressed] == "")  # it spins no more

    def elsewhere(self) -> list[str]:
        return [one["text"] for one in self._sent(here=False)]

    def requests(self) -> int:
        return len(self._house.model.requests)


class TestApproval(ApprovalContract):
    @pytest.fixture
    async def asker(self, open_house: Any, telegram: TelegramServer) -> AsyncIterator[Asker]:
        telegram.chat(FORUM, forum=True, topics={TOPIC})
        wiper = Wiper()
        async with open_house(SCRIPT, plugins=[AccessPlugin(), wiper]) as house:
            await house.up()
            yield Thread(telegram, house, wiper)
