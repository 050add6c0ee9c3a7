"""One plugin's fault stays its own, and the others' service goes on meanwhile (P2)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from hermes_core.commands import Command, Context, command
from hermes_core.hookspecs import Answer, hookimpl
from hermes_core.messages import Entry
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Hold
from hermes_core.testing.virtual import run


class HangsPlugin:
    """Its hook never ends for an urgent message; `deaf`, it does not let itself be cancelled either."""

    def __init__(self, deaf: bool) -> None:
        self.deaf = deaf

    @hookimpl
    async def hermes_message(self, entry: Entry) -> Answer | None:
        while entry.text == "urgent":
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if not self.deaf:
                    raise
        return None


class GoodPlugin:
    """Another plugin, which keeps answering."""

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        @command("good")
        async def good(context: Context) -> str:
            """Answer."""
            return "here I am"

        return [good]

    @hookimpl
    async def hermes_message(self, entry: Entry) -> Answer | None:
        return Answer("pong") if entry.text == "ping" else None


@pytest.mark.parametrize(("deaf", "bound"), [(False, 1.0), (True, 2.0)])
def test_p2_i8_an_interrupt_takes_effect_although_a_plugins_hook_hangs(
    tmp_path: Path, deaf: bool, bound: float
) -> None:
    hold = Hold()

    async def story() -> None:
        async with Bed(tmp_path, [["thinking", hold]], plugins=[HangsPlugin(deaf), GoodPlugin()]) as bed:
            loop = asyncio.get_running_loop()
            await bed.platform.say("long work")
            await hold.reached.wait()
            began = loop.time()
            await bed.platform.say("urgent")
            # meanwhile everything else is served, here and elsewhere
            assert await bed.say("ping", channel="2") == "pong"
            await bed.platform.say("/good")
            while "here I am" not in bed.platform.texts("1"):
                await asyncio.sleep(0)
            assert loop.time() == began
            await bed.platform.settled()
            assert bed.model.cut == 1
            assert bed.platform.texts("1")[-1] == "you said: urgent"
            assert loop.time() - began <= bound + 0.1
            assert "hermes_message failed" in bed.plugins.infos["hangs"].problem
            assert bed.plugins.infos["good"].problem == ""

    run(story())
