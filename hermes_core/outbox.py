"""Outbox: what leaves, in order per conversation, with retries, and never silently twice (D5).

Each conversation has a lane; lanes do not wait for each other, so a platform that wants a pause of
minutes for one chat parks that chat only. A message stays first in its lane until the platform has it
or will certainly never take it. Before a send whose outcome could be asked for or repeated without
harm (`Features.lookup`, `Features.once`) nothing needs to be noted; before any other the store is told
that the outcome is uncertain from now on, so that after a crash the text goes out with its mark; and what the
platform certainly did not take is noted as such, also when the program is stopped while it waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from time import monotonic
from typing import Any, Final

import msgspec

from hermes_core.adapter import Adapter, Sent
from hermes_core.errors import SendError, StoreError, StoreUnwritable, leaves, reason
from hermes_core.files import fitted
from hermes_core.messages import Address, Outgoing
from hermes_core.metrics import Sends
from hermes_core.store import Store
from hermes_core.trace import Trace, enter

__all__ = ["Outbox"]

log = logging.getLogger("hermes.outbox")

FIRST_PAUSE: Final = 0.5  # seconds before the second try; doubled for each further one
LONGEST_PAUSE: Final = 60.0

Spawn = Callable[[Coroutine[Any, Any, None], str], object]


class _Lane:
    __slots__ = ("adapter", "busy", "since", "waiting")

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.since = monotonic()  # from when on the first message in it waits to be taken
        self.waiting: deque[tuple[Outgoing, bool]] = deque()
        self.busy = False


class Outbox:
    """The lanes of all conversations; `hide` takes secrets out of each text (X2).

    `drained` is called with an address whose lane became empty, `reached` before a question of its running turn is
    sent, when all that was put before it is out.
    """

    def __init__(
        self,
        store: Store,
        adapters: Mapping[str, Adapter],
        spawn: Spawn,
        drained: Callable[[Address], None] = lambda address: None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        hide: Callable[[str], str] = str,
        reached: Callable[[Address], None] = lambda address: None,
    ) -> None:
        self._store = store
        self._adapters = adapters
        self._spawn = spawn
        self._drained = drained
        self._pause = pause
        self._hide = hide
        self._reached = reached
        self._lanes: dict[Address, _Lane] = {}
        self.sends: dict[str, Sends] = {name: Sends() for name in adapters}

    def put(self, outgoing: Outgoing, *, uncertain: bool = False) -> None:
        """Send this stored message after those put before it. `uncertain`: it may be delivered already.

        Where its adapter is not on, it stays in the store for a later start.
        """
        lane = self._append(outgoing, uncertain)
        if lane is not None:
            self._spawn(self._work(outgoing.address, lane), "outbox")

    async def deliver(self, outgoing: Outgoing) -> None:
        """Like `put`, and where nothing else is being sent there the present task does it.

        Returns when the message is sent, or at once when it waits behind others.
        """
        lane = self._append(outgoing, False)
        if lane is not None:
            await self._work(outgoing.address, lane)

    def _append(self, outgoing: Outgoing, uncertain: bool) -> _Lane | None:
        """Put the message into its lane; gives the lane if it is for the caller to work on it."""
        lane = self._lanes.get(outgoing.address)
        if lane is None:
            adapter = self._adapters.get(outgoing.address.platform)
            if adapter is None:
                return None
            lane = self._lanes[outgoing.address] = _Lane(adapter)
        lane.waiting.append((outgoing, uncertain))
        if lane.busy:
            return None
        lane.busy = True
        return lane

    def empty(self, address: Address) -> bool:
        """Whether everything put for this conversation is sent."""
        return address not in self._lanes

    def backlog(self) -> Iterator[tuple[str, int, float]]:
        """Of each conversation that has something unsent: its platform, how much, and for how many seconds."""
        now = monotonic()
        for address, lane in self._lanes.items():
            yield address.platform, len(lane.waiting), now - lane.since

    async def _work(self, address: Address, lane: _Lane) -> None:
        try:
            while lane.waiting:
                outgoing, uncertain = lane.waiting[0]
                if outgoing.within:  # what its turn has said before is shown before it
                    self._reached(address)
                await self._deliver(lane.adapter, outgoing, uncertain)
                lane.waiting.popleft()
                lane.since = monotonic()
        finally:
            lane.busy = False
            if not lane.waiting:
                self._lanes.pop(address, None)
        self._drained(address)

    async def _deliver(self, adapter: Adapter, outgoing: Outgoing, uncertain: bool) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                if uncertain and adapter.features.lookup:
                    found = await adapter.find(outgoing.key, outgoing.address)
                    if found is not None:
                        await self._account(self._store.sent, outgoing.key, found.ids)
                        return
                await self._send(adapter, outgoing, uncertain)
            except SendError as error:
                enter(Trace(outgoing.address))  # whichever task does this: it is about this message now
                if error.permanent:
                    log.error("%s cannot be delivered: %s", outgoing.key, error)
                    self.sends[outgoing.address.platform].undeliverable += 1
                    await self._account(self._store.undeliverable, outgoing.key, error.message)
                    return
                uncertain = uncertain or error.unknown
                if not uncertain:
                    await self._account(self._store.unsent, outgoing.key)
                if _is_cancelled():  # while the adapter waited; it says what it knows instead
                    raise asyncio.CancelledError from error
                wait = error.retry_after if error.retry_after is not None else pause
                log.warning("%s was not taken, next try in %.1f s: %s", outgoing.key, wait, error)
                self.sends[outgoing.address.platform].tried_again += 1
                await self._pause(wait)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                return

    async def _send(self, adapter: Adapter, outgoing: Outgoing, uncertain: bool) -> None:
        features = adapter.features
        outgoing = fitted(outgoing, features)
        text = self._hide(outgoing.text)
        if text is not outgoing.text:
            outgoing = msgspec.structs.replace(outgoing, text=text)
        askable = features.lookup or features.once
        if uncertain and not askable:
            outgoing = msgspec.structs.replace(outgoing, repeat=True)
            log.warning("%s may have been delivered before; it is sent again with a mark", outgoing.key)
        if not askable:
            # before the send: a crash in between must know that the text may be out
            await self._account(self._store.sending, outgoing.key)
        try:
            given: object = await adapter.send(outgoing)
            sent = given if isinstance(given, Sent) else Sent()
        except SendError:
            raise
        except Exception as error:  # the edge to foreign code: an adapter's fault must not lose the message
            why = reason(error, self._hide)
            log.error("adapter %s failed on %s: %s", adapter.platform, outgoing.key, why, exc_info=error)
            kind = type(next(leaves(error))).__name__
            raise SendError(f"The adapter failed: {kind}.", unknown=True) from error
        self.sends[outgoing.address.platform].sent += 1
        await self._account(self._store.sent, outgoing.key, sent.ids)

    async def _account(self, write: Callable[..., Awaitable[None]], *what: Any) -> None:
        """Keep what became of a message, once the disk takes it (D7): else the next start sends it again (D5)."""
        pause = FIRST_PAUSE
        while True:
            try:
                return await write(*what)
            except StoreUnwritable as error:
                log.warning("the outbox could not be updated, next try in %.1f s: %s", pause, error)
            except StoreError as error:
                log.error("the outbox could not be updated: %s", error)
                return None
            await self._pause(pause)
            pause = min(pause * 2, LONGEST_PAUSE)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
