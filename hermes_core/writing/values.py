"""What an adapter gives to the room: how its texts look, and the calls that put them on its platform."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from hermes_core.errors import SendError
from hermes_core.messages import Address, Outgoing
from hermes_core.pacing import Cut, Tempo

__all__ = ["Calls", "Content", "Doubt", "Find", "Gone", "Place", "Say", "Style"]


class Content(Protocol):
    """What one message shows, as `Cut` gives it. Two that show the same are equal."""

    @property
    def words(self) -> str:
        """Its text, by which a message that was just being posted may be recognised."""


class Place(msgspec.Struct, frozen=True):
    """Which message a call is about: number `index` of text number `part` under `key`.

    `key` names a turn (`turn_key`), a message without a turn (`Outgoing.key`) or a job's line ("job:…"). `of` is
    how many messages the text has; 0 where its first try was made while it was written, or where it is no
    message of the outbox. `again` counts the messages that were removed from here since. So each try to post one
    message has an equal place, also in a later run; what names a post on the platform (a nonce, metadata) can
    follow from it. `answers` is the id of the message that this one answers. `repeat`: an earlier try may stand
    there too, and nobody can find out: show the message with a mark that says so (D5).
    """

    address: Address
    key: str
    part: int = 0
    index: int = 0
    of: int = 0
    again: int = 0
    answers: str | None = None
    repeat: bool = False


class Doubt(msgspec.Struct, frozen=True):
    """A post whose outcome nobody knows: its words, and when it was made, in seconds since 1970."""

    words: str
    at: float


class Gone(SendError):
    """Raised by `Calls.post`: the platform takes this place for a message that was removed since. It is posted anew."""


class Calls(Protocol):
    """The calls of one connection. `SendError` is what they raise, as `Live` says; anything else is a fault."""

    async def post(self, place: Place, content: Any) -> str:
        """Post a message; gives its id."""

    async def edit(self, place: Place, id: str, content: Any) -> str:
        """Replace what message `id` shows; gives the id. `permanent`: it is gone, or can never show this."""

    async def delete(self, place: Place, id: str) -> str:
        """Remove message `id`; gives the id."""


Find = Callable[[Place, Doubt], Awaitable[str | None]]
"""The id of the message that a doubtful post left at this place; None: it is certain that it left none."""

Say = Callable[[Address], Awaitable[None]]
"""Show there that the agent types, once."""


def _plain_line(style: Style) -> Cut:
    def cut(text: str, final: bool) -> Any:
        return style.cut(text, True)[:1]

    return cut


class Style(msgspec.Struct, frozen=True):
    """How texts look on one platform.

    `cut`: the messages that show a text (`Content`). `whole`: the same for a whole message with its files and
    buttons; True: some of its text is shown already. `interrupted`: Markdown under a text that broke off (I5).
    `repeat`: Markdown above one that may have been delivered before (D5). `line`: how the line of a job is shown;
    the first message of `cut` unless it is given. `tempo`: how eagerly texts are shown in a conversation.
    `destination`: what shares a budget with it. The agent types from `typing_after` seconds on, and the sign is
    renewed after `typing_every`.
    """

    cut: Cut
    interrupted: str
    whole: Callable[[Outgoing, bool], Cut] | None = None
    repeat: str = ""
    line: Cut | None = None
    tempo: Callable[[Address], Tempo] = lambda address: Tempo()
    destination: Callable[[Address], str] = lambda address: address.channel
    typing_every: float = 5.0
    typing_after: float = 0.25

    def of(self, outgoing: Outgoing, *, drafted: bool) -> Cut:
        """How this message is cut."""
        return self.whole(outgoing, drafted) if self.whole is not None else self.cut

    def one_line(self) -> Cut:
        """How the line of a job is cut."""
        return self.line if self.line is not None else _plain_line(self)
