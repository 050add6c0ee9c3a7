"""A tool that asks first, on Slack: buttons under the question, and only the press of the right person counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hermes_access.plugin import AccessPlugin
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import ToolCall
from hermes_core.testing.model import Script
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_core.tools import Tool, tool

from .house import House


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


async def test_case_40_a_call_is_approved_with_a_button_in_its_thread_by_whose_turn_it_is(
    tmp_path: Path, slack: FakeSlack
) -> None:
    wiper = Wiper()
    script: list[Script] = [[ToolCall("1", "wipe", '{"path": "/tmp/x"}')], "Done."]
    async with House(tmp_path, slack, script, plugins=[AccessPlugin(), wiper]) as house:
        root = slack.world.say("C1", "UBOB", "<@U0AGENT> wipe it")
        await slack.until(lambda: "May I run this?" in "".join(slack.texts("C1", root)))
        (asked,) = [
            ts for ts, one in slack.world.channel("C1").messages.items() if "May I run" in one.get("text", "")
        ]
        await slack.press("C1", "UANN", asked, "Approve")
        await slack.until(lambda: "is not yours to answer" in "".join(slack.texts("C1", root)))
        assert wiper.wiped == []
        await slack.press("C1", "UBOB", asked, "Approve")
        await slack.until(lambda: "Done." in slack.texts("C1", root))
        assert wiper.wiped == ["/tmp/x"]
        assert slack.texts("C1") == []
        assert len(house.model.requests) == 2
