"""Lane: takes what was committed for one conversation into it, in order.

Theory of operation. `put` appends; a task takes one entry after the other: a command is run, a message
is offered to plugins and then to the table. The task lives while there is something to take, so an idle
conversation costs none. Where an entry waits for something (a slow command), the rest is taken over by
another task at the next turn of the event loop: nothing waits behind a command (T5), and everything takes
effect in exactly the order in which it came (`order`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Iterable
from types import CoroutineType
from typing import Final

from hermes_core.commands import Context, ConversationView, parse
from hermes_core.errors import CommandError, JobError, told
from hermes_core.hookspecs import Answer
from hermes_core.inbox import Signal
from hermes_core.messages import Address, Entry, EntryState, Role, When
from hermes_core.plugins import meant, resume, within
from hermes_core.router.across import Across
from hermes_core.router.conversation import Conversation
from hermes_core.router.order import Order
from hermes_core.router.services import Services
from hermes_core.router.view import View
from hermes_core.store import OpenWork
from hermes_core.trace import enter

__all__ = ["Lane"]

log = logging.getLogger("hermes.router")

COMMAND_LIMIT: Final = 60.0  # seconds that a command may take
EMPTY: Final = "That message has no text. Write what you want."
UNTIL_ALL: Final = 600.0  # seconds that are never reached: EXPIRED comes when all has arrived
_Pending = tuple[Entry, Role, tuple[str, str] | None]
NOT_SAID: Final = (When.AT_REPLY, When.EVENT)  # no messages: what a restart reads back besides


class Lane:
    """One conversation with what is on its way into it."""

    __slots__ = (
        "_held",
        "_order",
        "_pending",
        "_running",
        "_services",
        "_taking",
        "_waiters",
        "bots",
        "conversation",
        "counts",
    )

    def __init__(self, services: Services, address: Address, *, counts: bool) -> None:
        self.counts = counts  # whether it is counted how fast people write here
        self.conversation = Conversation(services, address, self.changed)
        self._services = services
        self._pending: deque[_Pending] = deque()
        self._held: list[_Pending] = []  # what waits behind something that is not in yet
        self._order = Order(self._free)
        self._running = False
        self._taking = 0
        self._waiters: list[asyncio.Future[None]] = []
        self.bots = 0  # messages of bots since a person wrote (X4)

    # -- rest

    @property
    def idle(self) -> bool:
        """Nothing is on its way in, and the conversation is idle."""
        return not self._pending and not self._held and not self._taking and self.conversation.idle

    @property
    def forgettable(self) -> bool:
        """Whether it can be dropped from memory: nobody waits for it, and the store has all of it."""
        return self.idle and not self._waiters and self.conversation.forgettable

    async def settled(self) -> None:
        """Wait until it is idle."""
        while not self.idle:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def changed(self) -> None:
        """Something ended: who waits for idleness looks again."""
        if self._waiters and self.idle:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    # -- what comes in

    def put(self, entry: Entry, role: Role, called: tuple[str, str] | None = None) -> None:
        """A committed entry; it is taken in as soon as the event loop turns. While the program stops it stays
        in the store, for the next start. `called`: name and arguments of a command, where they are known."""
        if self._services.closing:
            return
        self._pending.append((entry, role, called))
        if not self._running:
            self._running = True
            self._services.tasks.spawn_short(self._drain())

    def refuse(self, entry: Entry, why: str) -> None:
        """A committed entry that is not taken; its sender is told why, where that is not empty (D2)."""
        if self._services.closing:
            return
        self._taking += 1
        self._services.tasks.spawn(self._refuse(entry, why), "refuse")

    async def _refuse(self, entry: Entry, why: str) -> None:
        try:
            await self.conversation.settle(entry, EntryState.REFUSED, why)
        finally:
            self._taking -= 1
        self.changed()

    def restore(self, work: OpenWork) -> None:
        """Take up what a former run left (D6).

        With an open turn everything else arrives after it: an interrupt that was accepted interrupts.
        Without one, all that had arrived takes its place first, and then the next turn starts; what comes
        meanwhile is held.
        """
        access, platform = self._services.access, self.conversation.address.platform
        known = (*work.entries, *(work.turn.entries if work.turn is not None else ()))
        roles = {entry.author.id: access.role(platform, entry.author) for entry in known}
        if work.turn is not None:
            self.conversation.restored(work.turn, roles)
            for entry in work.entries:
                self.put(entry, roles[entry.author.id])
        elif work.entries:
            self._taking += 1
            self._services.tasks.spawn(self._begin(work.entries, roles), "restore")

    async def _begin(self, entries: Iterable[Entry], roles: dict[str, Role]) -> None:
        """Let what waited arrive again, in its order, and then the next turn begin."""
        try:
            with self._order.writing:
                self.conversation.restored(None, roles)
                for entry in entries:
                    await self._take(entry, roles[entry.author.id], again=True)
                self.conversation.signal(Signal.EXPIRED)
        finally:
            self._taking -= 1
        self.changed()

    async def _drain(self) -> None:
        relay: asyncio.Handle | None = None
        pending, asks = self._pending, self._services.plugins.asks
        permissions = self._services.permissions
        try:
            while pending:
                entry, role, called = pending.popleft()
                if permissions.asked and called is None and not entry.command:
                    called = self._said(entry, role)
                command = entry.command or called is not None
                if pending and relay is None:
                    relay = asyncio.get_running_loop().call_soon(self._relay)
                if self._taking and self._order.holds(command):
                    self._held.append((entry, role, called))
                elif command or asks("hermes_message") or not entry.text.strip():
                    self._taking += 1
                    self._running = False  # it may wait: what comes meanwhile begins a task of its own (T5)
                    try:
                        if command:
                            enter(entry)
                            await self._command(entry, role, called)
                        else:
                            await self._take(entry, role)
                    finally:
                        self._taking -= 1
                    self._running = True
                else:
                    self.conversation.arrive(entry, role)
        except Exception as error:  # the conversation's edge: one entry fails, those behind it are taken
            log.error("an entry of %s could not be taken in", self.conversation.key, exc_info=error)
            asyncio.get_running_loop().call_soon(self._relay)
        finally:
            self._running = False
            self._services.tasks.leave()
            if relay is not None:
                relay.cancel()
        if self._waiters:
            self.changed()

    def _said(self, entry: Entry, role: Role) -> tuple[str, str] | None:
        """The command that a lone yes or no to a question is short for; None: it is a message like any other."""
        bare = not (entry.by or entry.quote or entry.reply_to or entry.attachments or entry.when in NOT_SAID)
        address = self.conversation.address
        if not bare or not self._services.outbox.empty(address):  # it may not stand there yet
            return None
        allow = self._services.permissions.said(address, entry.text, entry.author, role)
        name = "approve" if allow else "deny"
        if allow is None or self._services.commands(address).find(name)[1] is None:
            return None
        return name, ""

    def _relay(self) -> None:
        if self._pending:
            self._running = True
            self._services.tasks.spawn_short(self._drain())

    def _free(self) -> None:
        """What was held may come in now, before all that came after it."""
        if self._held:
            self._pending.extendleft(reversed(self._held))
            self._held.clear()
            asyncio.get_running_loop().call_soon(self._relay)

    async def _take(self, entry: Entry, role: Role, *, again: bool = False) -> None:
        """`again`: it had arrived before a restart, so no turn starts for it alone and nobody gets a receipt."""
        enter(entry)
        if entry.command:
            await self._command(entry, role, None, deliver=not again)
            return
        wait = UNTIL_ALL if again else 0.0
        if not (entry.text.strip() or entry.attachments):
            await self.conversation.settle(entry, EntryState.REFUSED, EMPTY, deliver=not again)
            return
        if entry.when in NOT_SAID:
            self.conversation.arrive(entry, role, receipt=not again, wait=wait)
            return
        order, asking = self._order, self._order.asking
        asking.count += 1  # `with asking`, without its calls: every message passes here
        try:
            view = View(self._services, self.conversation, entry, role, order)
            given = await self._services.plugins.first("hermes_message", entry=entry, conversation=view)
            if isinstance(given, Answer):
                await self.conversation.settle(entry, EntryState.HANDLED, given.text)
            else:
                taken = entry if given is None else await view.changed(entry, given)
                self.conversation.arrive(taken, role, receipt=not again, wait=wait)
        finally:
            asking.count -= 1
            if self._held:
                self._free()

    async def _command(
        self, entry: Entry, role: Role, called: tuple[str, str] | None, *, deliver: bool = True
    ) -> None:
        name, arguments = called or parse(entry.text) or ("", "")
        conversation, plugins = self.conversation, self._services.plugins
        commands = self._services.commands(conversation.address)
        owner, found = commands.find(name)
        state = EntryState.HANDLED
        text: str | None
        if found is None:
            near = commands.nearest(name, role)
            hint = f"Did you mean /{near}?" if near else "Type /help to see them all."
            if plugins.commands.get(name) is not None:
                hint = "It was switched off or renamed here."
            state, text = EntryState.REFUSED, f"There is no command /{name}. {hint}"
        else:
            own = View(self._services, conversation, entry, role, self._order)
            view: ConversationView = Across(own) if found.plain else own
            jobs = self._services.jobs(conversation.address, entry.author, role)
            context = Context(
                conversation.address, entry.author, role, entry, view, commands, jobs, self._services.operate
            )
            try:
                given = commands.bound(found, role, arguments)
                began = plugins.lately.begins(owner)
                try:
                    if found.plain:  # beside the event loop, so that it holds up nobody
                        result = await within(
                            plugins.aside.call(owner, found.handler, context, *given), COMMAND_LIMIT
                        )
                    else:
                        result = found.handler(context, *given)
                    if type(result) is CoroutineType:
                        try:  # most commands never wait: those cost no timer and no further frame
                            waits_for = result.send(None)
                        except StopIteration as done:
                            text = done.value
                        else:
                            text = await resume(result, waits_for, COMMAND_LIMIT)
                    else:
                        text = await result if isinstance(result, Awaitable) else result
                finally:
                    plugins.lately.ends(owner, began)
                if text is not None and not isinstance(text, str):
                    raise TypeError(f"the answer of a command is text, not {type(text).__name__}")
            except (CommandError, JobError) as error:
                state, text = EntryState.REFUSED, told(error)
            except BaseException as error:  # the edge to foreign code: a plugin's fault stays its own
                if meant(error):
                    raise
                id_ = plugins.report(owner, f"/{name}", error)
                text = f"/{name} failed (error {id_}). The operator finds the cause under this number in the log."
        if role >= Role.ADMIN:  # who may let somebody in, or make a rule
            self._services.look_again()
        await conversation.settle(entry, state, text or "", deliver=deliver)
