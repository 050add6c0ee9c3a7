"""Driver: a person's hands and eyes on a platform, and the session in which an adapter is tried with them.

The author of an adapter writes one `Driver` over a fake of the platform, or over the real one, and
subclasses `AdapterContract`. What the driver offers is what people do there: they write, read, press
and edit. It knows nothing of the adapter but how to open one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self, runtime_checkable

import msgspec

from hermes_core.adapter import Activity, Adapter, AdapterFactory, KnownCommand
from hermes_core.errors import ConfigError, StoreUnwritable, leaves
from hermes_core.messages import Address, Message, Outgoing
from hermes_core.outbox import Outbox

__all__ = ["Driver", "Impossible", "Post", "RecordingGateway", "Session", "Shuts", "opened", "until"]

PATIENCE: Final = 10.0  # seconds of real time until something that must happen has not


class Impossible(Exception):
    """People cannot do this on the platform at all."""


class Post(msgspec.Struct, frozen=True):
    """One message of the agent as it stands on the platform now, after all edits.

    `text` is what a person reads, or the platform's own form of it. `answers` is the id of the message
    that it answers natively; `files` are pairs of a name and the content; `buttons` their labels.
    """

    id: str
    text: str
    answers: str | None = None
    files: tuple[tuple[str, bytes], ...] = ()
    buttons: tuple[str, ...] = ()


class Driver(Protocol):
    """What the contract does on the platform. A method that people there have no way to do raises `Impossible`.

    Two people, "ann" and "ben", can write; `person` gives the stable id that the platform has for one,
    and "robot" is another program's account. Everything takes effect before it returns, or soon after.
    """

    without: frozenset[str]
    """Troubles that this platform cannot have, of: limited, cut before, cut after, refused, repeated, unwritable; and
    of `Shuts`: down, token."""

    def open(self, folder: Path) -> Adapter:
        """A new adapter for the same account, as a new start of the program would make it; `folder` is its own."""

    def person(self, name: str) -> str:
        """The id under which the platform delivers what this person writes."""

    def home(self) -> Address:
        """The private conversation of ann with the agent."""

    def thread(self) -> Address:
        """A conversation in a thread, new at each call, in which what ann writes is meant for the agent."""

    async def say(
        self,
        text: str,
        address: Address | None = None,
        author: str = "ann",
        *,
        reply_to: str | None = None,
        files: tuple[tuple[str, bytes], ...] = (),
    ) -> str:
        """Write as a person, at home unless told otherwise; gives the platform's id of the message, "" where it has
        none."""

    async def edit(self, id: str, text: str, address: Address | None = None) -> None:
        """Edit what ann wrote."""

    async def delete(self, id: str, address: Address | None = None) -> None:
        """Delete what ann wrote."""

    async def press(self, post: Post, label: str, address: Address | None = None) -> None:
        """Press a button as ann."""

    async def repeat(self, id: str, address: Address | None = None) -> None:
        """Let the platform deliver this message once more, as it does after a doubtful connection."""

    async def trouble(self, kind: str, address: Address | None = None) -> None:
        """Let the next message of the agent meet it: `limited` (told to wait), `cut before` or `cut after` the
        platform took it (no answer either way), or `refused` (for ever: the chat is closed to the agent)."""

    async def seen(self, address: Address | None = None) -> list[Post]:
        """What the agent has posted there, oldest first, without receipts and lines of progress."""

    async def receipts(self, address: Address | None = None) -> list[str]:
        """The marks and short lines that say what became of a message."""

    async def status(self, address: Address | None = None) -> bool:
        """Whether people there are being shown that the agent works. After "idle" it may take its platform's time."""

    async def registered(self) -> list[str]:
        """The names of the commands that the platform offers to people for this agent."""


@runtime_checkable
class Shuts(Protocol):
    """What a driver may have besides: its platform lets nobody in; what the adapter does then is proven."""

    async def shut(self, how: str) -> None:
        """From now on: "down", nobody answers, or not as far as the end; "token", the agent's token is refused; "",
        all is well again. Called while nobody is connected. What cannot be stands in `without`."""


class Brings(Protocol):
    """A plugin that brings an adapter."""

    def hermes_adapters(self) -> Iterable[AdapterFactory]:
        """See the hook."""


def opened(plugin: Brings, folder: Path) -> Adapter:
    """The one adapter that the plugin brings, opened as the runtime does; `folder` is its `data_dir`.

    A driver that opens it like this proves of the package itself that it knows after a crash what it has shown.
    """
    (factory,) = plugin.hermes_adapters()
    return factory.open({"data_dir": folder})


class RecordingGateway:
    """A gateway that keeps all that an adapter hands in, and filters repeats as the store does (D1).

    `unwritable` is how many messages from now on cannot be kept (D7).
    """

    def __init__(self, commands: tuple[KnownCommand, ...] = ()) -> None:
        self.messages: list[Message] = []
        self.edits: list[tuple[Address, str, str]] = []
        self.deletions: list[tuple[Address, str]] = []
        self.repeats = 0
        self.refusals = 0
        self.ready_calls = 0
        self.alive_calls = 0
        self.unwritable = 0
        self._commands = commands
        self._known: set[tuple[Address, str]] = set()

    async def receive(self, message: Message, committed: Callable[[], None] | None = None) -> None:
        """Keep it, or refuse it."""
        if self.unwritable:
            self.unwritable -= 1
            self.refusals += 1
            raise StoreUnwritable("The disk is full.", "Make room.")
        if (message.address, message.id) in self._known:
            self.repeats += 1
        else:
            self._known.add((message.address, message.id))
            self.messages.append(message)
        if committed is not None:
            committed()

    def alive(self) -> None:
        """A sign of life."""
        self.alive_calls += 1

    def dated(self, header: str | None) -> None:
        """What the platform's clock says."""

    async def edited(self, address: Address, id: str, text: str) -> None:
        """Keep an edit."""
        self.edits.append((address, id, text))

    async def deleted(self, address: Address, id: str) -> None:
        """Keep a deletion."""
        self.deletions.append((address, id))

    def commands(self) -> tuple[KnownCommand, ...]:
        """The commands that it was made with."""
        return self._commands

    def knows(self, command: str) -> bool:
        """Whether it was made with this command."""
        return any(command in (one.name, *one.aliases) for one in self._commands)

    def activity(self, address: Address) -> Activity:
        """Nothing ever happens here."""
        return Activity("idle")

    async def settled(self, address: Address) -> None:
        """Nothing is ever under way."""

    async def interrupt(self, address: Address) -> bool:
        """There is nothing to interrupt."""
        return False

    async def past(self, address: Address) -> list[tuple[str, str]]:
        """Nothing was ever said."""
        return []

    def ready(self) -> None:
        """Count."""
        self.ready_calls += 1


class Session:
    """An adapter between a driver and a recording gateway: `async with Session(driver, folder) as session`.

    `send` goes through the real outbox, so that what an adapter says of a failed send is acted upon as in
    a running program.
    """

    def __init__(self, driver: Driver, folder: Path, commands: tuple[KnownCommand, ...] = ()) -> None:
        self.driver = driver
        self.gateway = RecordingGateway(commands)
        self.adapter = driver.open(folder)
        self.ids: dict[str, tuple[str, ...]] = {}
        self.undeliverable: dict[str, str] = {}
        self.marked: list[str] = []
        self._folder = folder
        self._task: asyncio.Task[None] | None = None
        self._keys = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Run the adapter until it says that it is ready."""
        before = self.gateway.ready_calls
        self._task = asyncio.create_task(self._serve())
        await until(lambda: self.gateway.ready_calls > before or self._ended(), "the adapter calls ready()")
        self._ended()

    async def _serve(self) -> None:
        """Start an adapter that fails again, as the runtime does, once it has been ready."""
        before = self.gateway.ready_calls
        while True:
            try:
                await self.adapter.run(self.gateway)
            except Exception as error:  # as the runtime's: whatever an adapter raises
                refused = any(isinstance(one, ConfigError) for one in leaves(error))
                if refused or self.gateway.ready_calls == before:
                    raise
                await asyncio.sleep(0.05)
            else:
                return

    async def attempt(self, seconds: float = PATIENCE) -> BaseException | None:
        """Run the adapter once, until it is ready or ends, for so long at most; gives what it raised."""
        self._task = task = asyncio.create_task(self.adapter.run(self.gateway))
        with contextlib.suppress(AssertionError):
            await until(lambda: task.done() or self.gateway.ready_calls, "it ends", seconds=seconds)
        if not task.done():
            await self.stop()
            return None
        self._task = None
        return task.exception()

    async def stop(self) -> float:
        """Cancel the adapter, as the runtime does at its end; gives how many seconds it took."""
        if self._task is None:
            return 0.0
        task, self._task = self._task, None
        loop = asyncio.get_running_loop()
        began = loop.time()
        task.cancel()
        await asyncio.wait({task}, timeout=PATIENCE)
        assert task.done(), "run() does not end when it is cancelled"
        with contextlib.suppress(asyncio.CancelledError):
            task.result()
        return loop.time() - began

    async def restart(self) -> None:
        """Stop it, and start a new adapter for the same account, as a new start of the program does."""
        await self.stop()
        self.adapter = self.driver.open(self._folder)
        await self.start()

    def _ended(self) -> bool:
        assert self._task is not None
        if self._task.done():
            self._task.result()
            raise AssertionError("run() returned although the platform is there")
        return False

    async def heard(self, count: int, where: Address | None = None) -> list[Message]:
        """Wait until so many messages came in, everywhere or at one address."""

        def found() -> list[Message]:
            return [one for one in self.gateway.messages if where is None or one.address == where]

        await until(lambda: len(found()) >= count, f"{count} messages come in", found)
        return found()

    async def send(self, text: str, address: Address | None = None, **more: Any) -> str:
        """Send one message as the outbox does, with all its tries; gives its key when its fate is known."""
        self._keys += 1
        key = more.pop("key", None) or f"{address or self.driver.home()}#contract:{self._keys}"
        outgoing = Outgoing(key, address or self.driver.home(), text, **more)
        outbox = Outbox(self._accounts(), {self.adapter.platform: self.adapter}, _no_spawn, pause=_short)
        async with asyncio.timeout(PATIENCE):
            await outbox.deliver(outgoing)
        return key

    def _accounts(self) -> Any:
        """The part of a store that an outbox needs."""
        session = self

        class Accounts:
            async def sent(self, key: str, ids: tuple[str, ...]) -> None:
                session.ids[key] = ids

            async def sending(self, key: str) -> None:
                session.marked.append(key)

            async def unsent(self, key: str) -> None:
                """Nothing to keep: it is tried again at once."""

            async def undeliverable(self, key: str, reason: str) -> None:
                session.undeliverable[key] = reason

        return Accounts()

    async def shows(
        self, check: Callable[[list[Post]], object], address: Address | None = None
    ) -> list[Post]:
        """Wait until what stands there passes `check`; gives it."""
        posts: list[Post] = []

        async def look() -> bool:
            posts[:] = await self.driver.seen(address)
            return bool(check(posts))

        await until(look, "the platform shows it", lambda: [one.text[-300:] for one in posts])
        return posts


async def until(
    check: Callable[[], object] | Callable[[], Awaitable[object]],
    what: str,
    found: Callable[[], object] = lambda: "",
    seconds: float = PATIENCE,
) -> None:
    """Poll until `check` holds; an `AssertionError` that says what did not happen after so many seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        result = check()
        if isinstance(result, Awaitable):
            result = await result
        if result:
            return
        assert loop.time() < end, f"This did not happen: {what}. Found: {found()}"
        await asyncio.sleep(0.01)


def _no_spawn(work: Coroutine[Any, Any, None], name: str) -> object:
    raise AssertionError("deliver needs no task of its own")


async def _short(seconds: float) -> None:
    await asyncio.sleep(min(seconds, 0.1))
