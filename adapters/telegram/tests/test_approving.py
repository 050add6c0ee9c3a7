"""A tool that asks first, on Telegram: buttons under the question, and only the press of the right person counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hermes_access.plugin import AccessPlugin
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import ToolCall
from hermes_core.testing.platforms.telegram import TelegramServer
from hermes_core.tools import Tool, tool


class Wiper:
    def __init__(self) -> None:
        self.wiped: list[str] = []

    @hookimpl
    def hermes_tools(self) -> Sequence[Tool]:
        @tool("wipe", approval=True)
        async def wipe(path: str) -> str:
            """Remove everything there."""
            self.wiped.append(path)
            return "gone"

        return [wipe]


async def test_case_40_a_call_is_approved_with_a_button_in_its_topic_by_whose_turn_it_is(
    open_house: Any, telegram: TelegramServer
) -> None:
    telegram.chat(-200, forum=True, topics={5})
    wiper = Wiper()
    script = [[ToolCall("1", "wipe", '{"path": "/tmp/x"}')], "Done."]
    async with open_house(script, plugins=[AccessPlugin(), wiper]) as house:
        await house.up()
        telegram.say("@hermes_bot wipe it", -200, 8, message_thread_id=5, is_topic_message=True)
        await telegram.until(lambda: bool(telegram.sent(-200)))
        (asked,) = telegram.sent(-200)
        assert asked["message_thread_id"] == 5
        rows = asked["reply_markup"]["inline_keyboard"]
        assert [one["text"] for row in rows for one in row] == ["Approve", "Always", "Deny"]
        stranger = telegram.press(asked, "Approve", user=66)
        await telegram.until(lambda: telegram.presses[stranger] == "")
        await telegram.until(lambda: len(telegram.sent(-200)) == 2)
        assert "is not yours to answer" in telegram.sent(-200)[1]["text"]
        assert wiper.wiped == []
        telegram.press(asked, "Approve", user=8)
        await telegram.shown("Done.", -200)
        assert wiper.wiped == ["/tmp/x"]
        assert {one["message_thread_id"] for one in telegram.sent(-200)} == {5}
