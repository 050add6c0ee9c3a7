"""Conversation: the sole owner of one inbox, its timer and its turn.

Theory of operation. `arrive` and `signal` ask the table; what it answers is performed here at once,
synchronously and in its order. The turn runs in a `Conduct`, whose end comes back as `ended`. Nothing
else changes the state, so there is one order of events in a conversation: the order of these calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import msgspec

from hermes_core import history, inbox
from hermes_core.adapter import Activity, Received, Working
from hermes_core.errors import StoreError, StoreUnwritable
from hermes_core.inbox import Effect, Happening, Phase, Signal, State
from hermes_core.messages import (
    Address,
    Entry,
    EntryState,
    Item,
    Outgoing,
    Role,
    TurnEnd,
    TurnRecord,
    When,
    clean,
)
from hermes_core.router.conduct import Conduct, Ended
from hermes_core.router.services import Services
from hermes_core.store import OpenTurn
from hermes_core.turn import least

__all__ = ["Conversation"]

log = logging.getLogger("hermes.router")

PART_WAIT: Final = 1.5  # seconds until the next part of a paste or album is given up (T1)
LONGEST_WAIT: Final = 5.0


class Conversation:
    """One conversation. `changed` is called whenever it may have become idle."""

    def __init__(self, services: Services, address: Address, changed: Callable[[], None]) -> None:
        self.address = address
        self.key = str(address)
        self.state = State()
        self.activity = Activity("idle")
        self._services = services
        self._settings = services.settings(address.platform)
        self.mode = self._settings.busy  # the busy mode that holds here (T2)
        self.loaded = False
        self._changed = changed
        self._context: list[tuple[int, TurnRecord]] = []
        self._conduct: Conduct | None = None
        self._running: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._gathering_since: float | None = None
        self._roles: dict[str, Role] = {}
        self._loading: asyncio.Future[None] | None = None
        self._told_of_refusal = False
        self.failure = ""  # what people were told of the last turn that failed
        self.failed_at = 0.0

    # -- memory

    async def load(self) -> None:
        """Read what the store has of it, once; may be awaited by several tasks. StoreError: not read."""
        if self._loading is None:
            self._loading = asyncio.ensure_future(self._load())
            self._loading.add_done_callback(_look)  # when the program ends, nobody may be left to wait for it
        try:
            await asyncio.shield(self._loading)
        except StoreError:
            self._loading = None
            raise

    async def _load(self) -> None:
        store = self._services.store
        record, turns, notes = await asyncio.gather(
            store.conversation(self.address), store.history(self.address), store.notes(self.address)
        )
        self.mode = record.busy or self._settings.busy
        self._context = [(turn.number, turn) for turn in turns]
        self.state.turns, self.state.replies = record.turns, record.replies
        self.state.notes.update((one.id, one) for one in notes if not one.parked)
        self.state.parked.update((one.id, one) for one in notes if one.parked)
        self.loaded = True

    @property
    def idle(self) -> bool:
        """No turn runs and nothing waits for one; everything is sent."""
        return self.state.phase is Phase.IDLE and self._services.outbox.empty(self.address)

    @property
    def forgettable(self) -> bool:
        """Whether all it holds stands in the store as well."""
        return self.idle and not self.state.parked

    @property
    def running(self) -> asyncio.Task[None] | None:
        """The task of the turn that runs, if one does."""
        return self._running if self._running is not None and not self._running.done() else None

    def records(self) -> list[TurnRecord]:
        """The turns that stand in the context, oldest first."""
        return [record for _, record in self._context]

    def is_late(self, sent: float, now: float) -> bool:
        """Whether something that was written then is too old to be answered (D8)."""
        return now - sent > self._settings.catch_up

    # -- what happens

    def arrive(self, entry: Entry, role: Role, *, receipt: bool = True, wait: float = 0.0) -> list[Effect]:
        """Let the table decide about a committed entry, and do it; with or without showing a receipt (T6).

        `wait`: seconds for which the next turn waits for more anyway.
        """
        if self.state.phase is Phase.IDLE or self.state.phase is Phase.GATHERING:
            wait = max(wait, self._settings.quiet)
            if entry.partial:
                wait = max(wait, PART_WAIT)
        self._roles[entry.author.id] = role
        effects = inbox.arrive(self.state, entry, admin=role >= Role.ADMIN, wait=wait)
        return self._perform(effects, receipt=receipt)

    def signal(self, signal: Signal) -> list[Effect]:
        """A person ends something, or what was gathered is complete: STOP, BREAK, RESET, EXPIRED."""
        return self._perform(inbox.step(self.state, signal))

    def restored(self, turn: OpenTurn | None, roles: dict[str, Role]) -> None:
        """A former run left something here (D6): its open turn goes on; else what waited arrives again, and
        begins with EXPIRED."""
        self._roles.update(roles)
        what = Happening(turn=turn.record.number if turn is not None else None)
        self._perform(inbox.step(self.state, Signal.RESTORED, what), turn)
        if turn is not None and turn.halted:
            self.signal(Signal.BREAK)

    async def renewed(self) -> None:
        """Wait until an empty history that was asked for has begun: until the turn before it has ended."""
        if self.state.renew and self._running is not None:
            await asyncio.wait({self._running})

    def cancel(self, ids: Iterable[str]) -> list[Entry]:
        """Cancel what still waits; gives the entries."""
        effects = self._perform(inbox.cancel(self.state, ids))
        return [entry for one in effects if isinstance(one, inbox.Drop) for entry in one.entries]

    def within(self, id_: str) -> list[Entry]:
        """What still waits of the message with this id of the platform."""
        return inbox.within(self.state, id_)

    def amend(self, id_: str, text: str) -> bool:
        """Replace the text of an entry that still waits (D9)."""
        return bool(self._perform(inbox.amend(self.state, id_, text)))

    async def settle(self, entry: Entry, state: EntryState, text: str, *, deliver: bool = True) -> None:
        """Answer an entry that no turn uses: its end and the answer are one transaction (D2).

        Returns when the answer is sent, or without `deliver` when it is on its way.
        """
        outgoing = None
        if text and not text.isspace():
            text = self._services.config.secrets.hide(text)
            outgoing = Outgoing(f"{self.key}#{entry.id}", self.address, clean(text), 0, "", None, entry.id)
        store = self._services.store
        try:
            await store.settle(self.address, (entry.id,), state, outgoing)
        except StoreUnwritable:
            await self._services.durably(
                lambda: store.settle(self.address, (entry.id,), state, outgoing), self.refused
            )
        if outgoing is None:
            return
        if deliver:
            await self._services.outbox.deliver(outgoing)
        else:
            self._services.outbox.put(outgoing)

    async def amended(self, entry: Entry) -> None:
        """A plugin changed an entry that is on its way in."""
        store = self._services.store
        await self._services.durably(lambda: store.amend(entry), self.refused)

    async def set_busy(self, mode: When | None) -> None:
        """Override the configured busy mode, or with None stop doing so."""
        self.mode = mode or self._settings.busy
        store = self._services.store
        await self._services.durably(lambda: store.set_busy(self.address, mode), self.refused)

    # -- effects

    def _perform(
        self, effects: list[Effect], turn: OpenTurn | None = None, *, receipt: bool = True
    ) -> list[Effect]:
        store, address = self._services.store, self.address
        for effect in effects:
            if isinstance(effect, inbox.Start):
                self._start(effect, effect.turn, (*effect.notes, *effect.batch))
            elif isinstance(effect, inbox.Halt):
                self._halt()
            elif isinstance(effect, inbox.Receipt):
                if receipt and self._settings.receipts:
                    self._services.show(address, Received(effect.entry.id, effect.kind, effect.position))
            elif isinstance(effect, inbox.Drop):
                ids = [entry.id for entry in effect.entries]
                self._later(lambda ids=ids: store.settle(address, ids, EntryState.CANCELLED))  # type: ignore[misc]
            elif isinstance(effect, inbox.Amended):
                self._later(lambda entry=effect.entry: store.amend(entry))  # type: ignore[misc]
            elif isinstance(effect, inbox.Wait):
                self._wait(effect.seconds)
            elif isinstance(effect, inbox.Renew):
                self._context = []
                self._services.permissions.forget(address)
                self._later(lambda: store.reset(address))
            elif isinstance(effect, inbox.Resume):
                assert turn is not None
                self.state.people = frozenset(
                    entry.author.id for entry in turn.entries if entry.when is not When.EVENT
                )
                # what rides with the next turn should this one not complete (A5, E2)
                riding = (When.AT_REPLY, When.EVENT)
                self.state.carried = tuple(entry for entry in turn.entries if entry.when in riding)
                self._start(turn, effect.turn, turn.entries)
        if effects:
            self._count()
        return effects

    def _later(self, write: Callable[[], Awaitable[Any]]) -> None:
        """Queue a write now, in the order of events, and see to it that it is done in the end (D7)."""
        first: list[Awaitable[Any]] = [write()]
        self._services.tasks.spawn(
            self._services.durably(lambda: first.pop() if first else write(), self.refused),
            f"write {self.key}",
        )

    def _wait(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._gathering_since is None:
            self._gathering_since = loop.time()
        longest = self._gathering_since + max(LONGEST_WAIT, self._settings.quiet)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(min(loop.time() + seconds, longest), self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._perform(inbox.step(self.state, Signal.EXPIRED))
        self._changed()

    def _start(self, start: inbox.Start | OpenTurn, number: int, entries: tuple[Entry, ...]) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._gathering_since = None
        people = {entry.author.id: entry.author for entry in entries if entry.when is not When.EVENT}
        # events alone: the turn may do what those may who started the jobs
        people = people or {entry.author.id: entry.author for entry in entries}
        now = self._services.access.role  # what waited is answered, but by nobody's former role (X1)
        role = least(
            min(self._roles.get(id_, Role.USER), now(self.address.platform, author))
            for id_, author in people.items()
        )
        self._conduct = Conduct(self._services, self, number, entries, role)
        self._running = self._services.tasks.spawn(self._conduct.run(start), f"turn {number} of {self.key}")

    def _halt(self) -> None:
        conduct = self._conduct
        assert conduct is not None, "only a running turn is halted"
        conduct.halt()
        self._later(lambda: self._services.store.halt(self.address, conduct.number))
        self.working("stopping")
        if self._services.plugins.asks("hermes_interrupt"):
            self._services.tasks.spawn(
                self._services.plugins.each("hermes_interrupt", address=self.address, turn=conduct.number),
                f"hermes_interrupt {self.key}",
            )

    # -- Owner: what a running turn needs

    def happen(self, signal: Signal) -> list[Effect]:
        """Let the table answer the turn."""
        effects = inbox.step(self.state, signal)
        self._count()
        return effects

    def working(self, state: str, tool: str = "") -> None:
        """The activity changed."""
        self._tell(Activity(state, tool, self._waiting()))

    def _count(self) -> None:
        if self.activity.queued != self._waiting():
            self._tell(msgspec.structs.replace(self.activity, queued=self._waiting()))

    def _tell(self, activity: Activity) -> None:
        if activity != self.activity:
            self.activity = activity
            self._services.show(self.address, Working(activity))

    def _waiting(self) -> int:
        return len(self.state.front) + len(self.state.line) + len(self.state.steers)

    def was_shown(self) -> None:
        """People have seen something of the running turn (T6)."""
        self.state.shown = True

    def steers_wait(self) -> bool:
        """Whether a steer waits for the next gap (S4)."""
        return bool(self.state.steers)

    def refused(self, error: StoreError) -> None:
        """The disk does not take what has to be written: one message, past the outbox (D7)."""
        if not self._told_of_refusal:
            self._told_of_refusal = True
            self._services.tell_directly(self.address, f"I cannot save at the moment: {error}")

    def past(self) -> tuple[Item, ...]:
        """The items of the turns before this one."""
        return history.folded(tuple(item for _, record in self._context for item in record.items))

    def context_after(self, number: int, items: tuple[Item, ...]) -> int | None:
        """Where the context starts once this turn is part of it; None: unchanged."""
        if self._context and self._context[-1][0] == number:
            self._context.pop()  # its first end could not be written
        self._context.append((number, TurnRecord(number, items)))
        first = history.window(self.records(), self._services.config.model.context_chars)
        if first == 0:
            return None
        del self._context[:first]
        return self._context[0][0]

    def reply_number(self) -> int:
        """The number of the next reply."""
        return self.state.replies + 1

    def ended(self, ended: Ended) -> None:
        """The turn has ended and that is durable: its reply leaves, and what waits begins (I8)."""
        self._told_of_refusal = False
        self._conduct = None
        self.working("idle")
        if ended.outgoing is not None:
            if ended.end is TurnEnd.FAILED:
                self.failure, self.failed_at = ended.outgoing.text, self._services.wall()
            self._services.outbox.put(ended.outgoing)
        kept = bool(ended.items) or ended.end is not TurnEnd.INTERRUPTED
        self._perform(inbox.step(self.state, Signal.ENDED, Happening(end=ended.end, keep=kept)))
        self._changed()


def _look(loading: asyncio.Future[None]) -> None:
    if not loading.cancelled():
        loading.exception()
