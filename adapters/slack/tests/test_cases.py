"""Troubles that people really have with such gateways, as far as they are about Slack. Others stand beside what they
are about: 05 in test_delivery, 31 in test_manifest, 35 in test_streams, 40 in test_buttons and test_conversations,
42 in test_conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from hermes_core.adapter import Progress
from hermes_core.commands import Command, Context, command
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Outgoing
from hermes_core.testing.model import Hold
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_slack.limits import CHANNEL_RATES, MAX_TEXT
from hermes_slack.render import cut

from .alone import HERE, Connected
from .house import House

AGENT = "<@U0AGENT>"


class Slow:
    """A command that takes as long as the test wants."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        @command("slow", help="Takes its time.")
        async def slow(context: Context) -> str:
            await self.go_on.wait()
            return "at last"

        return [slow]


async def test_case_32_a_slow_command_is_acknowledged_before_it_has_run(
    tmp_path: Path, slack: FakeSlack
) -> None:
    plugin = Slow()
    async with House(tmp_path, slack, plugins=[plugin]):
        await slack.slash("D1", "UANN", "/hermes", "slow")
        await slack.until(lambda: bool(slack.envelopes) and not slack.unacked())
        assert slack.texts("D1") == []
        plugin.go_on.set()
        await slack.until(lambda: slack.texts("D1") == ["at last"])


async def test_case_33_messages_drafts_and_progress_share_what_a_channel_may(slack: FakeSlack) -> None:
    async with Connected(slack) as (adapter, _):
        began = asyncio.get_running_loop().time()
        sending = [
            asyncio.ensure_future(adapter.send(Outgoing(f"k{number}", HERE, f"text {number}")))
            for number in range(15)
        ]
        for number in range(15):
            adapter.show(HERE, Progress(f"j{number}", "working"))
        await slack.until(lambda: len(slack.calls) > CHANNEL_RATES[0].burst + 2)
        wrote = [one.at - began for one in slack.calls if one.method.startswith("chat.")]
        for task in sending:
            task.cancel()
        (rate,) = CHANNEL_RATES
        late = [at for number, at in enumerate(wrote) if at < (number - rate.burst) * rate.interval - 0.05]
        assert late == []


async def test_case_34_a_channel_that_has_to_wait_long_stops_no_other(
    tmp_path: Path, slack: FakeSlack
) -> None:
    async with House(tmp_path, slack) as house:
        slack.refuse("chat.postMessage", "ratelimited", retry_after=200)
        slack.world.say("D1", "UANN", "one")
        await slack.until(lambda: bool(slack.called("chat.postMessage")))
        slack.world.say("D2", "UANN", "two")
        await house.says(["you said: two"], "D2")
        root = slack.world.say("C1", "UANN", f"{AGENT} three")
        await house.says(["you said: three"], "C1", root)
        assert slack.texts("D1") == []


def test_case_36_code_is_the_same_in_all_parts_together_and_fences_are_closed_in_each() -> None:
    lines = [f"{' ' * (n % 13)}x{n} = '<{n}> & *bold* _it_ 👨‍👩‍👧' # {'y' * (n % 50)}" for n in range(300)]
    pieces = cut("Look:\n\n```python\n" + "\n".join(lines) + "\n```\n\nDone.", True)
    assert len(pieces) > 3
    assert all(len(one.text) <= MAX_TEXT for one in pieces)
    assert all(one.text.count("```") % 2 == 0 for one in pieces)
    told = "\n".join(one.text for one in pieces).replace("&lt;", "<").replace("&gt;", ">")
    shown = [line for line in told.replace("&amp;", "&").split("\n") if " = '<" in line]
    assert shown == lines


def test_case_37_a_table_is_aligned_and_shows_no_pipes() -> None:
    (piece,) = cut("| name | n |\n|---|--:|\n| one | 1 |\n| twenty | 20 |", True)
    assert piece.text.startswith("```")
    assert "|" not in piece.text
    rows = [line for line in piece.text.split("\n") if line.strip("`- ─")]
    assert len({len(row.rstrip("`")) for row in rows[1:]}) == 1, piece.text


@pytest.mark.parametrize("text", ["**bold `code [a](", "```", "<", "&&&", "| a |\n|-", "*" * 3000, "\\"])
async def test_case_38_no_text_ends_in_silence(slack: FakeSlack, text: str) -> None:
    async with Connected(slack) as (adapter, _):
        await adapter.send(Outgoing("k", HERE, text))
        assert "".join(slack.texts("D1")).strip()


async def test_case_40_all_that_belongs_to_a_thread_stays_in_it(tmp_path: Path, slack: FakeSlack) -> None:
    """Replies, answers to commands, and what interrupts."""
    hold = Hold()
    plugin = Slow()
    plugin.go_on.set()
    async with House(tmp_path, slack, [["Let me see.", hold], ["done"]], plugins=[plugin]) as house:
        root = slack.world.say("C1", "UANN", f"{AGENT} go")
        await slack.until(lambda: slack.texts("C1", root) == ["Let me see."])
        slack.world.say("C1", "UANN", f"{AGENT} /slow", thread=root)
        await slack.until(lambda: "at last" in slack.texts("C1", root))
        slack.world.say("C1", "UANN", "rather this", thread=root)
        await slack.until(lambda: slack.texts("C1", root)[-1] == "done")
        await house.settled("C1", root)
        assert slack.texts("C1") == []
        assert all(status[0] == root for status in slack.world.channel("C1").statuses)


async def test_case_41_another_program_with_the_same_token_is_said(
    slack: FakeSlack, caplog: pytest.LogCaptureFixture
) -> None:
    async with Connected(slack):
        assert "more connections" not in caplog.text
    slack.others = 1
    async with Connected(slack):
        assert "1 more connections of this app" in caplog.text


async def test_case_43_a_connection_that_went_deaf_is_made_anew(tmp_path: Path, slack: FakeSlack) -> None:
    async with House(tmp_path, slack) as house:
        slack.world.say("D1", "UANN", "one")
        await house.says(["you said: one"], "D1")
        slack.deaf = True
        await slack.until(lambda: len(slack.called("apps.connections.open")) > 1)
        slack.deaf = False
        slack.world.say("D1", "UANN", "two")
        async with asyncio.timeout(10):
            while len(slack.texts("D1")) < 2:
                await slack.redeliver()  # what went into the deaf connection
                await asyncio.sleep(0.05)
        assert slack.texts("D1") == ["you said: one", "you said: two"]


async def test_case_43_the_core_is_told_that_a_connection_lives_as_long_as_pings_are_answered(
    slack: FakeSlack,
) -> None:
    async with Connected(slack, ping_interval=0.05) as (_, gate), asyncio.timeout(10):
        while gate.pulses < 3:
            await asyncio.sleep(0.01)
        slack.refuse("apps.connections.open", "internal_error", times=1000)  # it cannot be made anew
        slack.deaf = True
        before, quiet = gate.pulses, 0
        while quiet < 40:
            await asyncio.sleep(0.02)
            quiet, before = (quiet + 1, before) if gate.pulses == before else (0, gate.pulses)
        assert gate.pulses < 20
