"""Conduct: the owner of one running turn. Prepares it, answers it, halts it, and makes its end durable.

Theory of operation. `Conduct.run` is a task of its own that no interrupt cancels. It runs the turn in
a second task and waits for that one to end, or for `halt`. `halt` is synchronous: in the same instant
every tool process is signalled and the turn's task cancelled, which closes the model's connection (I1,
I2, I3); then `run` lets it go (`letting_go`). Whatever way
the turn ends, its end is one transaction (D3), repeated until the disk takes it (D7), and only then is
the conversation told.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from hermes_core import history
from hermes_core.adapter import Broken, Drafted
from hermes_core.errors import HermesError, StoreError, told
from hermes_core.hookspecs import Interruption
from hermes_core.inbox import Commit, Effect, Give, Signal, Start
from hermes_core.job import NoJobs, TurnJobs, event_job
from hermes_core.messages import (
    Address,
    Author,
    Entry,
    Item,
    Outgoing,
    Role,
    Said,
    SaidKind,
    Step,
    TurnEnd,
    When,
)
from hermes_core.router import ending
from hermes_core.router.asking import ask
from hermes_core.router.injections import injected
from hermes_core.router.letting_go import let_go
from hermes_core.router.services import Services
from hermes_core.store import Ending, OpenTurn
from hermes_core.tools import Scope, Tool, ToolContext
from hermes_core.trace import Trace, enter
from hermes_core.turn import Turn, TurnPlan

__all__ = ["Conduct", "Ended", "Owner"]

T = TypeVar("T")

log = logging.getLogger("hermes.turn")


class Ended(msgspec.Struct, frozen=True):
    """How a turn ended, for its conversation: `items` is what history keeps."""

    number: int
    end: TurnEnd
    items: tuple[Item, ...]
    outgoing: Outgoing | None


class Owner(Protocol):
    """What a running turn needs of its conversation."""

    address: Address

    def happen(self, signal: Signal) -> list[Effect]:
        """Let the table answer the turn."""

    def working(self, state: str, tool: str = "") -> None:
        """The activity changed."""

    def was_shown(self) -> None:
        """People have seen something of this turn (T6)."""

    def steers_wait(self) -> bool:
        """Whether a steer waits for the next gap."""

    def refused(self, error: StoreError) -> None:
        """The disk does not take what has to be written; people get one message (D7)."""

    def past(self) -> tuple[Item, ...]:
        """The items of the turns before this one."""

    def context_after(self, number: int, items: tuple[Item, ...]) -> int | None:
        """Where the context starts once this turn is part of it; None: unchanged."""

    def reply_number(self) -> int:
        """The number of the next reply."""

    def ended(self, ended: Ended) -> None:
        """The turn has ended and that is durable."""


class Conduct:
    """One turn under way."""

    def __init__(
        self, services: Services, owner: Owner, number: int, entries: Sequence[Entry], role: Role
    ) -> None:
        self.number = number
        self.tool = ""
        self._services = services
        self._owner = owner
        self._entries = list(entries)
        self._ids = [entry.id for entry in entries]
        self._role = role
        self._turn: Turn | None = None
        self._task: asyncio.Task[str] | None = None
        loop = asyncio.get_running_loop()
        self._clock = loop.time
        self._began = loop.time()
        self._halted_at = 0.0
        self._halted: asyncio.Future[None] = loop.create_future()
        self._stopping: asyncio.Task[Any] | None = None
        self._drafts = 0
        self._resumed = False  # a former run may have shown something (R3)
        self._prompt: tuple[Item, ...] = ()
        self._report: Interruption | None = None
        self._jobs: TurnJobs = NoJobs()

    # -- from outside

    def halt(self) -> None:
        """End the turn now, hard. Returns at once; `Owner.ended` follows within bounds (I3, I8)."""
        if self._halted.done():
            return
        self._halted.set_result(None)
        self._halted_at = self._clock()
        if self._turn is not None:
            self._turn.closed = True
            self._turn.scope.terminate()
        if self._task is not None and not self._task.cancelling():
            self._task.cancel()

    async def run(self, start: Start | OpenTurn) -> None:
        """Conduct the turn from its start, or from where a former run of the program left it (D4)."""
        enter(Trace(self._owner.address, self.number))
        if self._services.plugins.asks("hermes_turn_started"):
            self._beside("hermes_turn_started", turn=self.number, entries=tuple(self._entries))
        self._resumed = isinstance(start, OpenTurn)
        end, text = TurnEnd.INTERRUPTED, ""
        try:
            await self._prepare(start)
            text = await self._answer()
            end = TurnEnd.COMPLETED
        except asyncio.CancelledError:
            if self._services.closing or not self._halted.done():
                await self._let_go()
                raise
        except HermesError as error:
            log.warning("turn %d of %s failed: %s", self.number, self._owner.address, ending.causes(error))
            log.debug("turn %d of %s failed", self.number, self._owner.address, exc_info=error)
            end, text = TurnEnd.FAILED, self._services.config.secrets.hide(told(error))
        except Exception as error:  # the conversation's edge: a fault in one turn ends that turn only
            id_ = secrets.token_hex(3)
            log.error("turn %d of %s failed (%s)", self.number, self._owner.address, id_, exc_info=error)
            end, text = TurnEnd.FAILED, f"Something went wrong here (error {id_}). Please try again."
        await self._finish(end, text)

    # -- the way of a turn

    async def _prepare(self, start: Start | OpenTurn) -> None:
        services, address = self._services, self._owner.address
        self._owner.working("thinking")
        planned: Step | None = None
        if isinstance(start, Start):
            batch = history.introduced(start.batch, self._owner.past())
            self._prompt = prompt = (*await self._injections(), *history.prompt(start.notes, batch))
            await self._durably(lambda: services.store.start_turn(address, self.number, prompt, self._ids))
        else:
            self._prompt, planned = start.record.items, start.planned
        system = await self._system_prompt()
        people = [entry for entry in self._entries if entry.when is not When.EVENT]
        author = next(
            (one.author for one in (*people, *self._entries)), Author("")
        )  # of events: a job's starter
        self._jobs = services.jobs(address, author, self._role)
        scope = Scope(services.folder, mask=services.config.secrets.hide, at_work=services.plugins.at_work)
        self._turn = Turn(
            TurnPlan(
                self.number,
                system,
                self._owner.past(),
                self._prompt,
                services.config.conversation(address.platform).max_steps,
                planned,
                silent=not people,
            ),
            services.model,
            services.tools(address),
            scope,
            ToolContext(
                address, author, self._role, scope, self._jobs, services.files(address, self._standing)
            ),
            self,
            services.pause,
            services.config.secrets,
        )

    def _standing(self) -> tuple[Item, ...]:
        """All that stands in the context at this instant."""
        return (*self._owner.past(), *(self._turn.items if self._turn is not None else self._prompt))

    async def _injections(self) -> list[Said]:
        """What plugins put into this turn; none where it was halted meanwhile."""
        plugins = self._services.plugins
        if not plugins.asks("hermes_injections"):
            return []
        standing = tuple(
            item for item in self._owner.past() if isinstance(item, Said) and item.kind is SaidKind.INJECTION
        )
        asking = plugins.each_by_name(
            "hermes_injections",
            address=self._owner.address,
            entries=tuple(self._entries),
            past=standing,
        )
        given = await self._unless_halted(asking) or ()
        return injected(given, lambda name, error: plugins.report(name, "hermes_injections", error))

    async def _system_prompt(self) -> str:
        plugins = self._services.plugins
        if not plugins.asks("hermes_system_prompt"):
            return ""
        asking = plugins.fold("hermes_system_prompt", "", "prompt", address=self._owner.address)
        prompt = await self._unless_halted(asking)
        if prompt is None:
            raise asyncio.CancelledError
        return prompt

    async def _unless_halted(self, coroutine: Coroutine[Any, Any, T]) -> T | None:
        """The result of `coroutine`; None when the turn is halted first: a slow plugin does not delay it (I8)."""
        asking = self._services.tasks.spawn(coroutine, "hooks of a turn")
        ends: set[asyncio.Future[Any]] = {asking, self._halted}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            asking.cancel()
            return None
        return asking.result()

    async def _answer(self) -> str:
        """Run the turn's task; CancelledError when it was halted or the program stops."""
        assert self._turn is not None
        if self._halted.done():
            raise asyncio.CancelledError
        self._task = asyncio.get_running_loop().create_task(
            self._turn.run(), name=f"turn {self.number} of {self._owner.address}"
        )
        ends: set[asyncio.Future[Any]] = {self._task, self._halted}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if self._halted.done():
            await self._let_go()
            raise asyncio.CancelledError
        return self._task.result()

    async def _let_go(self) -> None:
        if self._turn is not None:
            self._report = await let_go(
                self._turn, self._task, self._owner.address, self._services.kill_after
            )

    async def _finish(self, end: TurnEnd, text: str) -> None:
        services, owner = self._services, self._owner
        seen = self._drafts > services.never_shown(owner.address) or self._resumed
        if seen and end is not TurnEnd.COMPLETED:
            services.show(owner.address, Broken(self.number, end.value))
        # halted before it was prepared: its prompt stands in history all the same
        items = self._turn.kept() if self._turn is not None else self._prompt
        ended = self._ended(end, text, ending.kept(end, items, services.config.interrupt.keep))
        try:
            await self._durably(lambda: services.store.finish(ended))
        except StoreError as error:  # this end can never be written: one that can is better than none
            id_ = secrets.token_hex(3)
            log.error("the end of turn %d cannot be stored (%s)", self.number, id_, exc_info=error)
            ended = self._ended(
                TurnEnd.FAILED, f"Something went wrong here (error {id_}). Please try again.", ()
            )
            await self._durably(lambda: services.store.finish(ended))
        end = ended.end
        if end is TurnEnd.INTERRUPTED and services.plugins.asks("hermes_interrupted"):
            report = self._report or Interruption(owner.address, self.number)
            self._beside("hermes_interrupted", interruption=report)
        if services.plugins.asks("hermes_turn_ended"):
            self._beside("hermes_turn_ended", turn=self.number, end=end, reply=ended.reply)
        self._measure(end)
        owner.ended(Ended(self.number, end, ended.items, ended.outgoing))

    def _measure(self, end: TurnEnd) -> None:
        metrics, now = self._services.metrics, self._clock()
        metrics.turns[end.value].observe(now - self._began)
        if end is TurnEnd.INTERRUPTED and self._halted_at:
            metrics.interrupts.observe(now - self._halted_at)
        if self._turn is not None:
            metrics.tokens_in += self._turn.usage.input
            metrics.tokens_out += self._turn.usage.output

    def _ended(self, end: TurnEnd, text: str, items: tuple[Item, ...]) -> Ending:
        owner = self._owner
        number = owner.reply_number() if end is TurnEnd.COMPLETED else None
        return Ending(
            owner.address,
            self.number,
            end,
            items,
            ending.used(end, self._entries, items),
            number,
            ending.outgoing(owner.address, self.number, end, text, number, self._entries),
            owner.context_after(self.number, items),
        )

    async def _durably(self, write: Callable[[], Awaitable[None]]) -> None:
        await self._services.durably(write, self._owner.refused)

    def _beside(self, hook: str, **arguments: Any) -> None:
        if hook != "hermes_interrupted":
            arguments["address"] = self._owner.address
        self._services.tasks.spawn(
            self._services.plugins.each(hook, **arguments), f"{hook} {self._owner.address}"
        )

    # -- Port: what the turn asks

    def drafted(self, part: int, delta: str) -> None:
        """More of a text: people see it."""
        self._drafts += 1
        self._owner.was_shown()
        self._services.draft(self._owner.address, Drafted(self.number, part, delta))

    def working(self, state: str, tool: str = "") -> None:
        """What the turn does now."""
        self.tool = tool
        if tool:
            self._owner.was_shown()
        self._owner.working(state, tool)

    def gap(self) -> tuple[Sequence[Said], Sequence[str]]:
        """What enters between two steps."""
        for effect in self._owner.happen(Signal.GAP):
            if isinstance(effect, Give):
                return self._given(effect)
        raise asyncio.CancelledError  # the turn is being stopped

    def answered(self) -> tuple[Sequence[Said], Sequence[str]] | None:
        """Whether the turn may end with its text."""
        for effect in self._owner.happen(Signal.ANSWERED):
            if isinstance(effect, Give):
                return self._given(effect)
            if isinstance(effect, Commit):
                return None
        raise asyncio.CancelledError  # the turn is being stopped

    def redirected(self) -> bool:
        """S4: whether what has not started is skipped."""
        return self._services.config.steer.skip_pending and self._owner.steers_wait()

    def permitted(self, tool: Tool, arguments: Mapping[str, Any]) -> Awaitable[str | None]:
        """A person is asked before the call runs."""
        owner = self._owner
        return ask(self._services, owner.address, self._entries, tool, arguments, owner.refused, self.number)

    def planned(self, step: Step) -> Awaitable[None]:
        """D4: the calls are durable before they start."""
        store, address = self._services.store, self._owner.address
        return self._durably(lambda: store.plan(address, self.number, step))

    def append(self, items: Sequence[Item], entries: Sequence[str]) -> Awaitable[None]:
        """D4: a finished step, and what entered with it."""
        store, address = self._services.store, self._owner.address
        return self._durably(lambda: store.append(address, self.number, items, entries))

    def _given(self, effect: Give) -> tuple[Sequence[Said], Sequence[str]]:
        self._entries.extend(effect.entries)
        ids = [entry.id for entry in effect.entries]
        self._ids.extend(ids)
        kinds = {When.EVENT: SaidKind.EVENT}
        # An event whose job's end the model has read itself is used up by this turn without a word (J7).
        told = [one for one in effect.entries if event_job(one.id) not in self._jobs.told]
        told = history.introduced(told, self._standing())
        return [history.said(one, kinds.get(one.when, SaidKind.STEER)) for one in told], ids
