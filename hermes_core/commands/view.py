"""View: what a command sees of the conversation in which it was typed, and may do with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from hermes_core.messages import Address, Entry, Role, When
from hermes_core.permission import Permission

__all__ = ["ConversationView", "Entered", "Snapshot"]


class Snapshot(msgspec.Struct, frozen=True):
    """A conversation as it stands: for `/status` and the lists.

    The first `riding` of `notes` ride with the running turn. `waiting` is a live view, so that a long
    queue costs nothing to look at: count before you cancel. `troubled` names the plugins that had a problem.
    `failure` is what people were told of the last turn that failed since the start, `failed_at` when (seconds since
    1970).
    """

    address: Address
    state: str
    turn: int | None
    tool: str
    waiting: Sequence[Entry]
    notes: tuple[Entry, ...]
    replies: int
    busy: When
    model: str
    history: int
    riding: int = 0
    troubled: tuple[str, ...] = ()
    failure: str = ""
    failed_at: float = 0.0


class Entered(msgspec.Struct, frozen=True):
    """What became of a text: `kind` is started, queued (at `position`), steering, interrupting, answered or known.

    "answered": a plugin did, in place of a turn. "known": the same command entered it before, in a run
    that was cut off.
    """

    kind: str
    position: int = 0


class ConversationView(Protocol):
    """What a command may do with the conversation in which it was typed."""

    def snapshot(self) -> Snapshot:
        """The state at this instant."""

    def find(self, short: str) -> Entry | None:
        """The message that waits under this short id, if any."""

    async def cancel(self, ids: Iterable[str]) -> list[Entry]:
        """Cancel waiting entries by id; gives those that still waited and that this person may cancel.

        A person cancels the own ones, an admin any (D2).
        """

    async def enter(self, text: str, when: When, quote: str | None = None) -> Entered:
        """Put `text` in as the entry of the person who typed the command; gives what became of it.

        `quote` is a text of the agent that stands in front of it (T3).
        """

    async def note(self, text: str, replies: int) -> Entry:
        """Keep `text` for the first turn that starts after `replies` more replies (A1); gives it as it is kept.

        Its id is that of the command, "+" and a number. Where a run that was cut off kept it already, it
        stays as it was: its place does not move (A4).
        """

    # The three that end a turn raise `NotAllowed` where somebody else's runs, unless for an admin (T2).

    async def stop(self) -> tuple[bool, list[Entry]]:
        """End the running turn, cancel what waits, start nothing (I10); whether a turn ran, and what was cancelled."""

    async def interrupt(self) -> bool:
        """End the running turn and let what waits begin (I10); whether a turn ran."""

    async def reset(self) -> tuple[bool, list[Entry]]:
        """Start an empty history (T7); whether a turn was stopped, and what was cancelled."""

    def tools(self) -> dict[str, Role]:
        """The names of the tools that there are here, and who may use each."""

    def permissions(self) -> list[Permission]:
        """The tool calls that wait here for a yes, the oldest first."""

    def permit(self, id: str, allow: bool, always: bool = False) -> Permission:
        """Say yes or no to one, for the person who typed the command; gives what it was about.

        `always`: nobody is asked again about this very call, until `/new` or a restart. `CommandError` where
        it waits no more, `NotAllowed` where this person may not answer it.
        """

    async def set_busy(self, mode: When | None) -> When:
        """Set the busy mode of this conversation, or None for the configured one; gives what holds now."""

    async def quote(self, latest: int) -> tuple[int, str] | None:
        """Number and text of the `latest`-th latest reply (1 = the last one), or None."""

    async def quoted(self, platform_id: str) -> str | None:
        """The agent's text that stands on the platform under this message id, or None."""
