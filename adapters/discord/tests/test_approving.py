"""A tool that asks first, on Discord: buttons under the question, and only the press of the right person counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hermes_access.plugin import AccessPlugin
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import ToolCall
from hermes_core.testing.model import Script
from hermes_core.testing.platforms.discord import FakeDiscord
from hermes_core.tools import Tool, tool

from .bench import Bench, until


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
    tmp_path: Path, discord: FakeDiscord
) -> None:
    room = discord.room()
    thread = discord.thread(room)
    wiper = Wiper()
    script: list[Script] = [[ToolCall("1", "wipe", '{"path": "/tmp/x"}')], "Done."]
    async with Bench(tmp_path, discord, script, plugins=[AccessPlugin(), wiper]) as bench:
        await discord.say(thread, "bob", f"<@{discord.me['id']}> wipe it")
        await until(lambda: "May I run this?" in "".join(discord.texts(thread)))
        await discord.press(thread, "ann", "Approve")
        await until(lambda: "is not yours to answer" in "".join(discord.texts(thread)))
        assert wiper.wiped == []
        await discord.press(thread, "bob", "Approve")
        await until(lambda: "Done." in discord.texts(thread))
        assert wiper.wiped == ["/tmp/x"]
        assert discord.texts(room) == []
        assert len(bench.model.requests) == 2
