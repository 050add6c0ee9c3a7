"""Letting go: a turn that is stopped ends in bounded rounds, and what does not end is abandoned and named (I3)."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from hermes_core.hookspecs import Interruption
from hermes_core.messages import Address
from hermes_core.turn import Turn

__all__ = ["let_go"]

log = logging.getLogger("hermes.turn")

ROUNDS: Final = 3  # of cancelling a turn that swallows it
ROUND: Final = 0.2  # seconds


async def let_go(
    turn: Turn, task: asyncio.Task[str] | None, address: Address, kill_after: float
) -> Interruption:
    """End the task and every tool of the turn, side by side; gives what was ended, skipped, kept and left.

    Takes what `Scope.stop` takes, and 0.6 s where the task swallows its cancellation. `kill_after`: see there.
    """
    number = turn.number
    turn.closed = True
    turn.scope.terminate()
    stopping = asyncio.ensure_future(turn.scope.stop(kill_after))
    if task is not None:
        for attempt in range(ROUNDS):
            if attempt or not task.cancelling():  # a second one at once would cut its clean-up short
                task.cancel()
            done, _pending = await asyncio.wait({task}, timeout=ROUND)
            if done:
                break
        if task.done():
            if not task.cancelled():
                task.exception()  # looked at: what it says no longer matters
        else:
            log.error("turn %d of %s swallows its cancellation and is abandoned", number, address)
    running, skipped = turn.left()
    kept = turn.finished()
    stopped = await stopping
    report = Interruption(
        address,
        number,
        killed=tuple(running),
        skipped=tuple(skipped),
        kept=tuple(kept),
        abandoned=tuple(turn.scope.abandoned()),
        unreachable=tuple(stopped.unreachable),
    )
    for name in report.abandoned:
        log.error("tool %s goes on in a thread that cannot be stopped; its result is discarded", name)
    for pid in report.unreachable:
        log.error("process %d of turn %d could not be ended", pid, number)
    return report
