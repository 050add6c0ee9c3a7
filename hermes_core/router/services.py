"""What the rooms of the router share: the things that a conversation works with, and who may do what."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from hermes_core.adapter import Adapter, Drafted, Shown
from hermes_core.commands import Registry
from hermes_core.config import Config, ConversationSettings
from hermes_core.errors import StoreError, StoreUnwritable, reason
from hermes_core.file import ConversationFiles, NoFiles
from hermes_core.job import NoJobs, TurnJobs
from hermes_core.messages import Address, Author, Item, Outgoing, Role
from hermes_core.metrics import Metrics
from hermes_core.models import Model
from hermes_core.operate import NoPlugins, PluginsView
from hermes_core.outbox import Outbox
from hermes_core.people import People
from hermes_core.plugins import Plugins
from hermes_core.pulse import Pulse
from hermes_core.router.permissions import Permissions
from hermes_core.rules import Rules
from hermes_core.store import Store
from hermes_core.tools import Tool

__all__ = ["Access", "Services", "Tasks"]

log = logging.getLogger("hermes.router")
T = TypeVar("T")

SEEN: Final = 0.05  # seconds for which people who are served are taken for what they were
FIRST_PAUSE: Final = 0.25  # seconds until a write that the disk did not take is tried again (D7)
LONGEST_PAUSE: Final = 5.0
ROUND: Final = 0.2  # seconds for a task that swallowed a cancellation
KILL_AT_CLOSE: Final = 1.5  # seconds at most between SIGTERM and SIGKILL when the program ends


class Tasks:
    """Every task of the router: each is kept, named, and its unexpected end is logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Start a task; nobody needs to wait for it."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def spawn_short(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Start a task on the path of every message: it calls `leave` as its last act, and raises nothing."""
        loop = self._loop  # asking which loop runs is a call of the operating system
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        self._tasks.add(loop.create_task(coroutine, name="lane"))  # a number would have to be made for it

    def leave(self) -> None:
        """The present task ends."""
        self._tasks.discard(asyncio.current_task(self._loop))

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("task %s failed", task.get_name(), exc_info=task.exception())

    async def close(self, patience: float) -> None:
        """Cancel all tasks and wait so long for them; what swallows that is asked twice more and abandoned."""
        for seconds in (patience, ROUND, ROUND):
            if not self._tasks:
                return
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(set(self._tasks), timeout=seconds)
        for task in self._tasks:
            log.error("task %s did not let itself be cancelled and is abandoned", task.get_name())


class Access:
    """Who may do what, by stable ids only (X1): a name decides nothing."""

    def __init__(self, config: Config, adapters: Mapping[str, Adapter], people: People | None = None) -> None:
        self._owners = frozenset(config.access.owners)
        self._admins = frozenset(config.access.admins)
        self._allowed = frozenset(config.access.allow)
        self._everybody = "*" in self._allowed
        self._local = frozenset(name for name, one in adapters.items() if one.features.local)
        self._people = people
        self._known: dict[tuple[str, str], tuple[str, Role]] = {}
        self._served: dict[tuple[str, str], Role] = {}  # for as long as a look at the file holds
        self._seen_until = 0.0

    def role(self, platform: str, author: Author) -> Role:
        """The role of this person on this platform; NOBODY is not served.

        What is written by name goes first; then who was let in or put out since; then the patterns of
        `allow`, which never mean a bot (X4). Whether the file was changed is looked at for everybody who would
        not be served, and for the others twenty times a second at most: a look costs as much as some messages.
        """
        if platform in self._local:
            return Role.OWNER
        if time.monotonic() < self._seen_until:
            served = self._served.get((platform, author.id))
            if served is not None:
                return served
        known = self._known.get((platform, author.id))
        if known is None:
            known = self._configured(platform, author)
            if len(self._known) < 10_000:
                self._known[platform, author.id] = known
        person, role = known
        if role >= Role.ADMIN or self._people is None:
            return role
        now = time.monotonic()
        if now >= self._seen_until:
            self._served.clear()
            self._seen_until = now + SEEN
        said = self._people.role(person)
        if said is not None:
            role = said
        if role is not Role.NOBODY and len(self._served) < 10_000:
            self._served[platform, author.id] = role
        return role

    def look_again(self) -> None:
        """Somebody may have been let in or put out just now: a command was run."""
        self._seen_until = 0.0

    def _configured(self, platform: str, author: Author) -> tuple[str, Role]:
        person = f"{platform}:{author.id}"
        if person in self._owners:
            return person, Role.OWNER
        if person in self._admins:
            return person, Role.ADMIN
        if person in self._allowed:
            return person, Role.USER
        if not author.bot and (self._everybody or f"{platform}:*" in self._allowed):
            return person, Role.USER
        return person, Role.NOBODY


@dataclass(slots=True)
class Services:
    """What a conversation works with. One value for all conversations of a run."""

    config: Config
    store: Store
    plugins: Plugins
    model: Model
    adapters: Mapping[str, Adapter]
    access: Access
    outbox: Outbox
    tasks: Tasks
    folder: Path  # records of running processes
    wall: Callable[[], float]  # seconds since 1970
    pause: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)
    closing: bool = False  # the program stops: turns are left open for the next start
    notices: int = 0
    _settings: dict[str, ConversationSettings] = field(default_factory=dict)
    # drafts that stand behind texts which still wait in the outbox
    held: dict[Address, list[Drafted]] = field(default_factory=dict)
    # the jobs of a conversation on behalf of a person; the runtime puts the engine behind it
    jobs: Callable[[Address, Author, Role], TurnJobs] = field(default=lambda address, author, role: NoJobs())
    # the files of a conversation; the second argument gives what stands in its context
    files: Callable[[Address, Callable[[], tuple[Item, ...]]], ConversationFiles] = field(
        default=lambda address, items: NoFiles()
    )
    metrics: Metrics = field(default_factory=Metrics)
    pulses: dict[str, Pulse] = field(default_factory=dict)  # of each adapter that runs, by platform
    people: People | None = None  # who was let in besides what the config says
    rules: Rules | None = None  # what owners changed about commands and tools
    permissions: Permissions = field(default_factory=Permissions)  # what waits for a yes

    @property
    def kill_after(self) -> float:
        """Seconds between SIGTERM and SIGKILL; when the program ends it does not wait for long."""
        configured = self.config.interrupt.kill_after
        return min(configured, KILL_AT_CLOSE) if self.closing else configured

    operate: PluginsView = field(default_factory=NoPlugins)  # the runtime puts its own in

    @property
    def model_name(self) -> str:
        """The model as people may read it."""
        settings = self.config.model
        return f"{settings.provider} {settings.name}".strip()

    def settings(self, platform: str) -> ConversationSettings:
        """`[conversation]` as it holds there; made once, not for each conversation."""
        known = self._settings.get(platform)
        if known is None:
            known = self._settings[platform] = self.config.conversation(platform)
        return known

    def look_again(self) -> None:
        """Look at the files of people and rules at their next use: they may have been changed just now."""
        self.access.look_again()
        if self.rules is not None:
            self.rules.look_again()

    def commands(self, address: Address | None) -> Registry:
        """The commands as they are in this conversation, or everywhere."""
        commands = self.plugins.commands
        return commands if self.rules is None else self.rules.commands(address, commands)

    def tools(self, address: Address) -> dict[str, Tool]:
        """The tools as they are in this conversation."""
        tools = self.plugins.tools
        return tools if self.rules is None else self.rules.tools(address, tools)

    def tell_directly(self, address: Address, text: str) -> None:
        """Send a notice past the store and the outbox, once: for what cannot be kept, or need not be."""
        adapter = self.adapters.get(address.platform)
        if adapter is None:
            return
        self.notices += 1
        text = self.config.secrets.hide(text)
        outgoing = Outgoing(f"{address}#notice:{self.wall()}:{self.notices}", address, text)

        async def send() -> None:
            try:
                await adapter.send(outgoing)
            except Exception as error:  # the edge to foreign code: a notice is worth one try
                why = reason(error, self.config.secrets.hide)
                log.warning("a notice to %s was not delivered: %s", address, why, exc_info=error)

        self.tasks.spawn(send(), "notice")

    def show(self, address: Address, shown: Shown) -> None:
        """Hand something passing to the adapter; what it does wrong is logged and changes nothing (P2)."""
        adapter = self.adapters.get(address.platform)
        if adapter is None:
            return
        try:
            adapter.show(address, shown)
        except Exception as error:  # the edge to foreign code: showing must never stop the work
            what, why = type(shown).__name__, reason(error, self.config.secrets.hide)
            log.error("adapter %s failed to show %s: %s", address.platform, what, why, exc_info=error)

    def draft(self, address: Address, drafted: Drafted) -> None:
        """Show more of a text, behind every earlier one that still waits in the outbox (D5)."""
        if address in self.held or not self.outbox.empty(address):
            self.held.setdefault(address, []).append(drafted)
        else:
            self.show(address, drafted)

    def caught_up(self, address: Address) -> None:
        """Nothing waits in the outbox there any more: show the drafts that stood behind it."""
        for drafted in self.held.pop(address, ()):
            self.show(address, drafted)

    def never_shown(self, address: Address) -> int:
        """The turn there ends: forget its drafts that nobody has seen; gives how many."""
        return len(self.held.pop(address, ()))

    async def durably(self, write: Callable[[], Awaitable[T]], refused: Callable[[StoreError], None]) -> T:
        """Repeat `write` until the disk takes it (D7). `refused` is called once, with the first refusal.

        Cancelled, it leaves the write undone; nothing was acknowledged.
        """
        pause = FIRST_PAUSE
        told = False
        while True:
            try:
                return await write()
            except StoreUnwritable as error:
                self.metrics.refusals += 1
                if not told:
                    told = True
                    log.error("the store refuses to write; trying again: %s", error)
                    refused(error)
            await self.pause(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
