"""A tool that asks first, on Slack: buttons under the question, and only the press of the right person counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_access.plugin import AccessPlugin
from hermes_core.testing.approval_contract import SCRIPT, ApprovalContract, Asker, Wiper
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_core.testing.platforms.slack_rules import buttons_of

from .house import House

CHANNEL = "C1"
PEOPLE = {"ann": "UANN", "ben": "UBOB"}


class Thread:
    """A thread in a channel."""

    def __init__(self, slack: FakeSlack, house: House, wiper: Wiper) -> None:
        self.wiper = wiper
        self._slack = slack
        self._house = house
        self._root = ""

    async def begin(self) -> None:
        self._root = self._slack.world.say(CHANNEL, PEOPLE["ben"], "<@U0AGENT> wipe it")

    def said(self) -> list[str]:
        return self._slack.texts(CHANNEL, self._root)

    def _question(self) -> str:
        messages = self._slack.world.channel(CHANNEL).messages
        (asked,) = [ts for ts, one in messages.items() if "May I run" in one.get("text", "")]
        return asked

    def buttons(self) -> list[str]:
        message = self._slack.world.channel(CHANNEL).messages[self._question()]
        return list(buttons_of(message))

    async def press(self, name: str, label: str) -> None:
        await self._slack.press(CHANNEL, PEOPLE[name], self._question(), label)

    def elsewhere(self) -> list[str]:
        return self._slack.texts(CHANNEL)

    def requests(self) -> int:
        return len(self._house.model.requests)


class TestApproval(ApprovalContract):
    @pytest.fixture
    async def asker(self, tmp_path: Path, slack: FakeSlack) -> AsyncIterator[Asker]:
        wiper = Wiper()
        async with House(tmp_path, slack, SCRIPT, plugins=[AccessPlugin(), wiper]) as house:
            yield Thread(slack, house, wiper)
