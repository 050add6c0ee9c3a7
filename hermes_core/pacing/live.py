"""The edge of a stream: asks the budget, carries actions out, and tells the stream what became of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from hermes_core.errors import SendError
from hermes_core.pacing.budget import Budget
from hermes_core.pacing.stream import (
    Action,
    Delta,
    Done,
    Event,
    Failed,
    Finished,
    Post,
    Refused,
    Stopped,
    Stream,
    Tick,
)

__all__ = ["Live"]

log = logging.getLogger("hermes.pacing")


class Live:
    """One stream at work. The adapter's own task runs `run`; `Adapter.send` awaits `finish`.

    `perform` makes one call to the platform and gives the message's id. It raises `SendError`:
    `retry_after` parks this destination (case 34), `permanent` means that the message to edit is gone,
    or for a post that nothing will ever be taken, `unknown` that the post may be there (look it up
    before raising, where the platform allows it). Anything else that it raises ends `run` or `finish`.
    """

    def __init__(
        self,
        stream: Stream,
        perform: Callable[[Action], Awaitable[str]],
        budget: Budget,
        destination: str,
        clock: Callable[[], float],
    ) -> None:
        self.stream = stream
        self._perform = perform
        self._budget = budget
        self._destination = destination
        self._clock = clock
        self.calling = False  # a call is under way
        self._action: Action | None = None
        self._at: float | None = None
        self._why: SendError | None = None  # it is hopeless
        self._turn = asyncio.Lock()
        self._woken = asyncio.Event()

    def tell(self, event: Delta | Stopped | Finished) -> None:
        """More text, its break, or its end, which `finish` then sees to. Never blocks."""
        self._step(event)
        self._woken.set()

    async def run(self) -> None:
        """Show the text while it is written; returns when it is finished, or left to `finish`, or closed.

        Cancelling it takes at most the call that is under way; the stream then counts that call as unknown.
        """
        await self._go(lambda: self.stream.finished or (self.stream.final and not self.stream.closing))

    async def finish(self, text: str) -> tuple[str, ...]:
        """Make the platform show exactly the whole `text`; gives the ids of its messages.

        Waits as long as the platform wants, for this destination only. May be called again with the same
        text, and then mends what is missing. `SendError` (permanent) if nothing is taken here any more, with
        the platform's own reason.
        """
        self._step(Finished(text))
        self._woken.set()
        await self._go(lambda: self.stream.finished)
        if self.stream.hopeless:
            raise self._why or SendError("This conversation takes no messages any more.", permanent=True)
        return self.stream.ids

    async def _go(self, enough: Callable[[], bool]) -> None:
        while not enough():
            self._woken.clear()
            if self._action is None:
                self._step(Tick())
            action = self._action
            if action is not None:
                async with self._turn:
                    if self._action is action:  # else the other caller carried it out meanwhile
                        self._action = None
                        await self._carry_out(action)
            elif not enough():
                await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(None if self._at is None else max(0.0, self._at - self._clock())):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _carry_out(self, action: Action) -> None:
        event: Event = Failed(unknown=True)  # what holds if the call is cancelled or breaks
        try:
            wait = self._budget.ask(self._destination, action.want)
            self.calling = wait <= 0.0
            event = Refused(wait) if wait > 0.0 else Done(await self._perform(action))
        except SendError as error:
            event = self._failed(action, error)
        finally:
            self.calling = False
            self._step(event)
            self._woken.set()

    def _failed(self, action: Action, error: SendError) -> Event:
        if error.permanent:
            hopeless = isinstance(action, Post)
            self._why = error if hopeless else None
            return Failed(gone=not hopeless, hopeless=hopeless)
        log.warning("a call for %s failed: %s", self._destination, error)
        if error.retry_after is not None:
            self._budget.blocked(self._destination, error.retry_after)
            return Refused(error.retry_after)
        return Failed(unknown=error.unknown)

    def _step(self, event: Event) -> None:
        self.stream, action, self._at = self.stream.step(event, self._clock())
        if action is not None:
            self._action = action
