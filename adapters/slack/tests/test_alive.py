"""When the Slack adapter says that its connection lives: when it does, and not when it tries to (case 43)."""

from __future__ import annotations

import asyncio

from hermes_core.testing.platforms.slack import FakeSlack

from .alone import Connected


async def test_case_43_a_connection_that_is_deaf_and_cannot_be_made_anew_gives_no_sign_of_life(
    slack: FakeSlack,
) -> None:
    async with Connected(slack, ping_interval=0.05) as (_, gate), asyncio.timeout(30):
        while gate.pulses < 2:
            await asyncio.sleep(0.01)
        slack.refuse("apps.connections.open", "internal_error", times=1000)
        slack.deaf = True

        async def tried(times: int) -> None:
            wanted = len(slack.called("apps.connections.open")) + times
            while len(slack.called("apps.connections.open")) < wanted:
                await asyncio.sleep(0.01)

        await tried(1)  # the library has noticed by now
        before = gate.pulses
        await tried(60)  # it pings all the time, and starts to count anew again and again
        assert gate.pulses == before
