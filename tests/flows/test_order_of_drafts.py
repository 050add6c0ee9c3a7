"""The order in which people see texts: a draft never stands before an earlier reply that still waits (D5)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hermes_access.plugin import AccessPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core.adapter import Broken, Drafted, Sent, Shown
from hermes_core.errors import SendError
from hermes_core.messages import Address, Outgoing
from hermes_core.testing.approval_contract import SCRIPT, WORDS, Wiper
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold
from hermes_core.testing.platform import FakePlatform
from hermes_core.testing.virtual import run


class Screen(FakePlatform):
    """What people see, in its order: drafts and whole texts."""

    def __init__(self) -> None:
        super().__init__()
        self.screen: list[str] = []

    async def send(self, outgoing: Outgoing) -> Sent:
        sent = await super().send(outgoing)
        self.screen.append(f"whole: {outgoing.text}")
        return sent

    def show(self, address: Address, shown: Shown) -> None:
        super().show(address, shown)
        if isinstance(shown, Drafted):
            self.screen.append(f"draft {shown.turn}: {shown.delta}")
        elif isinstance(shown, Broken):
            self.screen.append(f"broken {shown.turn}")


def test_a_draft_waits_behind_an_earlier_reply_that_the_platform_does_not_take_yet(tmp_path: Path) -> None:
    async def main() -> None:
        hold = Hold()
        screen = Screen()
        screen.refuse.append(SendError("Too fast.", retry_after=200.0))
        async with Bed(tmp_path, [["one"], ["two", hold, " and more"]], platform=screen) as bed:
            await screen.say("first")
            while len(bed.model.requests) < 1 or screen.refuse:
                await asyncio.sleep(0.1)
            await screen.say("second")
            await hold.reached.wait()
            assert screen.screen == ["draft 1: one"]
            await asyncio.sleep(250)
            assert screen.screen == ["draft 1: one", "whole: one", "draft 2: two"]
            hold.release()
            await screen.settled()
            assert screen.screen[2:] == ["draft 2: two", "draft 2:  and more", "whole: two and more"]

    run(main())


def test_a_question_stands_behind_the_words_before_it_also_where_those_wait_for_an_earlier_reply(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        screen, wiper = Screen(), Wiper()
        screen.refuse.append(SendError("Too fast.", retry_after=20.0))
        plugins = [AccessPlugin(), wiper]
        async with Bed(tmp_path, [["one"], *SCRIPT], plugins=plugins, platform=screen) as bed:
            await screen.say("first")
            while len(bed.model.requests) < 1 or screen.refuse:
                await asyncio.sleep(0.1)
            await screen.say("second")
            await asyncio.sleep(100)
            assert screen.screen[:3] == ["draft 1: one", "whole: one", f"draft 2: {WORDS}"]
            assert screen.screen[3].startswith("whole: May I run this?")
            await screen.say("/approve")
            await screen.settled()
            assert screen.screen[4].startswith("whole: Approved")
            assert screen.screen[-2:] == ["draft 2: Done.", "whole: Done."]
            assert wiper.wiped

    run(main())


def test_drafts_that_nobody_saw_are_forgotten_when_their_turn_ends(tmp_path: Path) -> None:
    async def main() -> None:
        hold = Hold()
        screen = Screen()
        screen.refuse += [SendError("Too fast.", retry_after=200.0)]
        scripts: list[list[str | Hold]] = [["one"], ["two"], ["three", hold]]
        async with Bed(tmp_path, list(scripts), plugins=[BusyPlugin()], platform=screen) as bed:
            await screen.say("first")
            while screen.refuse:
                await asyncio.sleep(0.1)
            await screen.say("second")
            while len(bed.model.requests) < 2 or screen.gateway.activity(screen.address()).state != "idle":
                await asyncio.sleep(0.1)
            await screen.say("third")
            await hold.reached.wait()
            await screen.say("/stop")
            await screen.settled()
            assert screen.screen[:3] == ["draft 1: one", "whole: one", "whole: two"]
            assert not [line for line in screen.screen if line.startswith(("draft 2", "draft 3", "broken"))]

    run(main())


def test_a_turn_that_is_stopped_after_a_restart_breaks_off_what_was_shown_before_r3(tmp_path: Path) -> None:
    async def main() -> None:
        store, holds = MemoryStore(), [Hold(), Hold()]
        async with Bed(tmp_path, [["half of it", holds[0]]], platform=Screen(), store=store) as first:
            await first.platform.say("tell me")
            await holds[0].reached.wait()
        screen = Screen()
        async with Bed(
            tmp_path, [[holds[1], "all of it"]], plugins=[BusyPlugin()], platform=screen, store=store
        ):
            await holds[1].reached.wait()
            await screen.say("/stop")
            await screen.settled()
            assert screen.screen.count("broken 1") == 1
            assert [line for line in screen.screen if line.startswith("draft")] == []

    run(main())
