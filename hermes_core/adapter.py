"""Adapter: what binds one chat platform, and the gateway that it talks to.

An adapter turns what its platform delivers into `Message` values for `Gateway.receive`, and shows
what comes back. It knows nothing of turns, queues or plugins. Everything beyond receiving and
sending is declared in `Features`; what is not declared is never asked for.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

import msgspec

from hermes_core.messages import Address, Attachment, Message, Outgoing

__all__ = [
    "Activity",
    "Adapter",
    "AdapterFactory",
    "Broken",
    "Downloads",
    "Drafted",
    "Features",
    "Form",
    "Gateway",
    "KnownCommand",
    "Named",
    "Progress",
    "Received",
    "Sent",
    "Shown",
    "Working",
]


class Features(msgspec.Struct, frozen=True):
    """What an adapter can do. Each declared feature is proven by the conformance kit (P5).

    `max_text`: the longest message in the platform's own count, None for any length. `drafts`: shows
    text while it is written (`show` gets `Drafted`). `status`: shows what the agent does (`Working`).
    `receipts`: shows what became of a message that could not start a turn (`Received`). `lookup`:
    `find` can say whether a key was delivered. `once`: sending the same key twice shows it once, also
    after a restart. `local`: whoever reaches it sits at this machine, and is an owner (X1). `edits`,
    `deletes`: it tells when a waiting message was edited or deleted (D9). `threads`: addresses may have a
    thread. `native_replies`: messages come and go as answers to another one. `downloads`: it is
    `Downloads` too. `max_file`: the largest file, in bytes, that `send` takes along, 0 for
    none. `buttons`: shows the choices of a message. `registers`: makes the commands known to the platform.
    `catches_up`: hands in what was written while it was away (D8). `unattended`: nobody there answers a
    question before the turn ends, so what needs a permission is refused.
    """

    max_text: int | None = None
    drafts: bool = False
    status: bool = False
    receipts: bool = False
    lookup: bool = False
    once: bool = False
    edits: bool = False
    deletes: bool = False
    threads: bool = False
    native_replies: bool = False
    local: bool = False
    downloads: bool = False
    max_file: int = 0
    buttons: bool = False
    registers: bool = False
    catches_up: bool = False
    unattended: bool = False


class Activity(msgspec.Struct, frozen=True):
    """What a conversation does: `state` is idle, thinking, writing, asking, tool or stopping.

    `tool` is the name of the one that runs, or that a person is asked about.
    """

    state: str
    tool: str = ""
    queued: int = 0


class Drafted(msgspec.Struct, frozen=True, gc=False):
    """More of the text that turn number `turn` is writing; `part` counts the texts of one turn from 0."""

    turn: int
    part: int
    delta: str


class Broken(msgspec.Struct, frozen=True):
    """The draft of this turn ends here and will not be completed: close it with a visible mark (I5)."""

    turn: int
    reason: str


class Working(msgspec.Struct, frozen=True):
    """The conversation's activity changed."""

    activity: Activity


class Received(msgspec.Struct, frozen=True):
    """A receipt (T6): what becomes of message `id`. `kind`: queued, steering, interrupting, cancelled."""

    id: str
    kind: str
    position: int = 0


class Progress(msgspec.Struct, frozen=True):
    """How far a job is: one line that takes the place of the job's last one; `done`: it has ended (J13)."""

    job: str
    text: str
    done: bool = False


Shown = Drafted | Broken | Working | Received | Progress


class Sent(msgspec.Struct, frozen=True, gc=False):
    """The ids under which a platform keeps a message that it took."""

    ids: tuple[str, ...] = ()


class KnownCommand(msgspec.Struct, frozen=True):
    """A command as a platform may register or complete it (without the slash)."""

    name: str
    help: str
    usage: str
    aliases: tuple[str, ...] = ()


class Gateway(Protocol):
    """What an adapter may ask of the runtime."""

    async def receive(self, message: Message, committed: Callable[[], None] | None = None) -> None:
        """Take one message in. Returns when it is committed and on its way; `committed` is called at
        the very instant of the commit, for platforms that wait for an acknowledgement (D1).

        Raises `StoreUnwritable` when it could not be kept: do not acknowledge, the platform will
        deliver again (D7). A refused or repeated message is taken like any other.
        """

    async def edited(self, address: Address, id: str, text: str) -> None:
        """A message was edited on the platform: replaces it while it still waits (D9)."""

    async def deleted(self, address: Address, id: str) -> None:
        """A message was deleted on the platform: cancels it while it still waits (D9)."""

    def commands(self) -> tuple[KnownCommand, ...]:
        """Every command that there is, for registration and completion: the most needed first, so that
        a platform with a limit leaves out the last ones."""

    def knows(self, command: str) -> bool:
        """Whether a command has this name or alias now. Takes the same time however many there are."""

    def activity(self, address: Address) -> Activity:
        """What the conversation does at this instant."""

    async def settled(self, address: Address) -> None:
        """Wait until this conversation is idle: no turn runs, nothing waits for one, all is sent."""

    async def interrupt(self, address: Address) -> bool:
        """Stop the running turn and let what waits begin (I10); False where no turn ran."""

    async def past(self, address: Address) -> list[tuple[str, str]]:
        """What was said here in this epoch, oldest first: pairs of "user" or "agent" and text."""

    def ready(self) -> None:
        """The platform is reachable and messages arrive. Call it once after each (re)connect."""

    def alive(self) -> None:
        """The connection worked just now: a poll came back, a ping was answered. Costs next to nothing.

        Who says so once is expected to go on: after `[health] silent_after` without it the platform counts
        as silent, and the log says so (case 43). So say it at least once a minute, or never.
        """

    def dated(self, header: str | None) -> None:
        """An answer of the platform that just came bore this header `Date`, by its own clock.

        Costs next to nothing; say it of each answer, so that a clock of this machine that is wrong does not make
        what people write now look old (D8).
        """


class Adapter(Protocol):
    """One account on one platform."""

    platform: str
    features: Features

    async def run(self, gateway: Gateway) -> None:
        """Connect and deliver messages until cancelled.

        Returning means that the platform has nothing more to say (end of input); an exception makes
        the runtime start it again with back-off. A `ConfigError`, also one within a group, says that trying
        again is of no use: a refused token. A cancellation must end it within a second.
        """

    async def send(self, outgoing: Outgoing) -> Sent:
        """Deliver one message whole. `SendError` says whether and when to try again.

        Where the message completes a draft of `outgoing.turn`, the draft becomes this message. What turn
        `outgoing.within` has drafted so far stands above this message as it is; wait for it, but not for long.
        If it is cancelled while it waits, and nothing was handed over, it may say so with a `SendError` in place of
        the cancellation: then the next start knows that the message is not out (D5).
        """

    def show(self, address: Address, shown: Shown) -> None:
        """Show something passing. Never blocks, never raises for what the platform cannot show."""

    async def find(self, key: str, address: Address) -> Sent | None:
        """Whether the platform has the message with this key; asked only with `Features.lookup`."""


class Named(Protocol):
    """What an adapter has besides whose platform writes `/command@name` where several bots are together."""

    handle: str
    """The agent's own name there, without the @; empty while it is not known: then every name is taken for it."""


class Downloads(Protocol):
    """What an adapter with `Features.downloads` has besides."""

    def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The content of a file that came with a message, piece by piece.

        `HermesError` says in words why it cannot be had: gone, too large for this platform, no permission;
        troubles of the network too, after the adapter's own few tries. The caller closes it when it has read
        enough.
        """


class Form(msgspec.Struct, frozen=True):
    """What a text has to look like: the whole of it fits the regular expression; `words` say so to people."""

    pattern: str
    words: str

    def fits(self, text: str) -> bool:
        """Whether this text looks like that."""
        return re.fullmatch(self.pattern, text) is not None


class AdapterFactory(msgspec.Struct, frozen=True):
    """How a plugin offers an adapter: its platform's name, and what makes one.

    `open` gets the account's name and the shared options of a start (`hermes chat --name`), and must
    not connect: that is `Adapter.run`. `people` is what a user id looks like there, None for anything.
    """

    platform: str
    open: Callable[[Mapping[str, Any]], Adapter]
    people: Form | None = None
