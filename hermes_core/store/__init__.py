"""Store: what makes an entry durable, and the values that the router reads back at a start.

Theory of operation. A store keeps, per conversation: entries in one order (`seq`), turns with their
items, numbered replies, and the outbox. Every method that writes *queues its write at the call*, in
the order of the calls, and returns an awaitable that is done when the write is committed; so a
caller may queue two writes and wait for the second only. A write that fails leaves nothing behind
and raises `StoreError` to whoever awaits it (D7). Cancelling the wait does not take the write back.

`sqlite` is the store of a real run; `hermes_core.testing` has one in memory. Both pass
`StoreContract`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

import msgspec

from hermes_core.job import Delivery, Job, JobAdded, JobEnd, JobEnded
from hermes_core.messages import Address, Entry, EntryState, Item, Outgoing, Step, TurnEnd, TurnRecord, When

__all__ = ["Admission", "ConversationRecord", "Ending", "OpenTurn", "OpenWork", "Store"]


class Admission(msgspec.Struct, frozen=True, gc=False):
    """The stored entry with its `seq`; `fresh` is False when the same id was admitted before (D1)."""

    entry: Entry
    fresh: bool


class ConversationRecord(msgspec.Struct, frozen=True):
    """What a conversation is besides its turns.

    `epoch` counts /new; `turns` is the number of the latest turn ever started here, `replies` the
    number of the latest reply (it goes on across /new). `context_from` is the number of the first
    turn that is still handed to the model. `busy` overrides the configured busy mode.
    """

    address: Address
    epoch: int = 0
    turns: int = 0
    replies: int = 0
    context_from: int = 0
    busy: When | None = None


class OpenTurn(msgspec.Struct, frozen=True):
    """A turn that had started and not ended when the last run stopped (D4).

    `entries` are those it took, in order. `planned` is a step whose calls may have been started, but for
    those that have a result in it. `halted`: it was being stopped, and must not go on (I1).
    """

    record: TurnRecord
    entries: tuple[Entry, ...]
    planned: Step | None = None
    halted: bool = False


class OpenWork(msgspec.Struct, frozen=True):
    """All unfinished business of one conversation, each list in its order.

    `entries` waits, is no note nor parked, and is not part of `turn`. `outbox` has what is not sent; of these, the
    keys in `uncertain` were handed to the platform without a known outcome.
    """

    conversation: ConversationRecord
    entries: tuple[Entry, ...] = ()
    turn: OpenTurn | None = None
    outbox: tuple[Outgoing, ...] = ()
    uncertain: frozenset[str] = frozenset()


class Ending(msgspec.Struct, frozen=True):
    """The one transaction that ends a turn (D3).

    `items` replaces what was appended before: what history keeps. `used` are the ids of the entries
    that this turn used up; entries that it had taken and does not use go back to WAITING. `reply` is
    the number of a completed turn's reply. `outgoing` goes into the outbox. `context_from`, if not
    None, moves the start of the context.
    """

    address: Address
    turn: int
    end: TurnEnd
    items: tuple[Item, ...]
    used: tuple[str, ...]
    reply: int | None = None
    outgoing: Outgoing | None = None
    context_from: int | None = None


class Store(Protocol):
    """See the head of this module for what holds for all of it."""

    # -- entries

    def admit(self, entry: Entry) -> Awaitable[Admission]:
        """Keep a new entry as WAITING, or find the one with the same address and id (D1).

        One insert, which is the duplicate filter as well. The second delivery gets the entry as it
        was stored the first time.
        """

    def amend(self, entry: Entry) -> Awaitable[bool]:
        """Replace text, attachments, quote, `when` and `parked` of a WAITING entry (D9); False if it waits no more."""

    def settle(
        self, address: Address, ids: Sequence[str], state: EntryState, outgoing: Outgoing | None = None
    ) -> Awaitable[None]:
        """Move WAITING entries to a final state and put `outgoing` into the outbox, as one transaction.

        Ids that wait no more are left as they are. An `outgoing` whose key is known changes nothing.
        """

    # -- turns

    def start_turn(
        self, address: Address, turn: int, items: Sequence[Item], entries: Sequence[str]
    ) -> Awaitable[None]:
        """Record that turn number `turn` runs with this prompt and has taken these WAITING entries."""

    def plan(self, address: Address, turn: int, step: Step) -> Awaitable[None]:
        """Record the calls of a step before the first of them starts, and anew before one starts later (D4).

        `step.results` has what is certain if the program dies now: of calls that finished, or have not begun.
        """

    def append(
        self, address: Address, turn: int, items: Sequence[Item], entries: Sequence[str] = ()
    ) -> Awaitable[None]:
        """Add finished items to a running turn, and the entries it took meanwhile; forgets the plan.

        With an empty `items` it only takes the entries and the plan stays.
        """

    def halt(self, address: Address, turn: int) -> Awaitable[None]:
        """Note that this running turn is being stopped: after a crash it ends, and does not go on (I1).

        A turn that has ended already is left as it is.
        """

    def finish(self, ending: Ending) -> Awaitable[None]:
        """End a turn: history, outbox, entries and reply number in one transaction (D3)."""

    # -- conversations

    def conversation(self, address: Address) -> Awaitable[ConversationRecord]:
        """The record of this conversation; a fresh one (all zero) where there was none."""

    def conversations(self) -> Awaitable[list[ConversationRecord]]:
        """Every conversation there is, in the order of their addresses' string forms."""

    def history(self, address: Address) -> Awaitable[list[TurnRecord]]:
        """The ended turns of the present epoch from `context_from` on, oldest first."""

    def reset(self, address: Address) -> Awaitable[ConversationRecord]:
        """Start the next epoch: an empty history; the old one stays stored (T7)."""

    def set_busy(self, address: Address, busy: When | None) -> Awaitable[None]:
        """Override the configured busy mode of one conversation, or with None stop doing so."""

    def replies(self, address: Address, numbers: Sequence[int]) -> Awaitable[dict[int, str]]:
        """The final texts of these reply numbers, as far as they exist."""

    def text_of(self, address: Address, platform_id: str) -> Awaitable[str | None]:
        """The text of the message that the platform keeps under this id in this conversation, if it is ours."""

    def waiting(self, address: Address) -> Awaitable[list[Entry]]:
        """What waits here and no turn has taken, in order."""

    def notes(self, address: Address) -> Awaitable[list[Entry]]:
        """The AT_REPLY entries and parked events that wait here and no turn has taken, in order."""

    def open_work(self) -> Awaitable[list[OpenWork]]:
        """All unfinished business, for the start of a run (D6); conversations without any are left out.

        Waiting notes and parked events are none: they start nothing (A3, I10), and are read with their conversation.
        """

    # -- outbox

    def post(self, outgoing: Outgoing) -> Awaitable[bool]:
        """Put a message into the outbox; False where its key is known already."""

    def sending(self, key: str) -> Awaitable[None]:
        """Note that this message is being handed to the platform: from now on its outcome is uncertain."""

    def sent(self, key: str, platform_ids: Sequence[str] = ()) -> Awaitable[None]:
        """The platform has it, under these ids."""

    def unsent(self, key: str) -> Awaitable[None]:
        """The platform certainly does not have it: it waits again."""

    def undeliverable(self, key: str, reason: str) -> Awaitable[None]:
        """It will never be taken; `reason` is kept beside it."""

    # -- jobs

    def add_job(self, job: Job) -> Awaitable[JobAdded]:
        """Keep a new job as QUEUED with the epoch of its conversation, or find the one with its address and key (J3).

        Where it depends on an id that does not exist nothing is stored (J4).
        """

    def run_job(self, id: str, at: float, runs: int) -> Awaitable[bool]:
        """Note before its work begins that a job runs, for the time number `runs`; False where it has ended."""

    def note_job(self, id: str, progress: str, fraction: float | None) -> Awaitable[None]:
        """Keep the progress of a running job; one that has ended is left as it is."""

    def stop_job(self, id: str) -> Awaitable[bool]:
        """Note that the end of this job was asked for; False where it has ended or is not there (J5)."""

    def end_job(self, id: str, end: JobEnd, entry: Entry | None = None) -> Awaitable[JobEnded]:
        """Put a job into its final state and admit its event, in one transaction (J7).

        A job that has ended already stays as it is, and `entry` is not admitted. `StoreError` where there
        is no such job. Where the job has a callback, its delivery is due from the same transaction on.
        """

    def job(self, id: str) -> Awaitable[Job | None]:
        """The job with this id."""

    def jobs(
        self, address: Address | None = None, *, limit: int = 100, final: bool | None = None
    ) -> Awaitable[list[Job]]:
        """The latest jobs, newest first: of one conversation or all; `final` picks ended or open ones."""

    def open_jobs(self) -> Awaitable[list[Job]]:
        """Every job that has not ended, oldest first, for the start of a run (J12)."""

    def purge_jobs(self, before: float, limit: int, at: float) -> Awaitable[list[str]]:
        """Take the results out of some ended jobs and mark them as purged at `at`; gives their ids, none when done.

        First those that ended until `before`; then, while the kept ones together have more than `limit`
        bytes (`JobEnd.size`), the oldest. What has no size is left as it is, and what has not ended too.
        """

    def purged_jobs(self) -> Awaitable[list[str]]:
        """Ids of some purged jobs whose output files may still be there, until `forget_outputs` names them."""

    def forget_outputs(self, ids: Sequence[str]) -> Awaitable[None]:
        """The output files of these purged jobs are gone."""

    def note_delivery(self, delivery: Delivery) -> Awaitable[None]:
        """Keep how the callback of a job stands; one that waits no more stays as it is."""

    def open_deliveries(self) -> Awaitable[list[Delivery]]:
        """Every callback that waits to be delivered, the one that is due first at the head."""

    def delivery(self, job: str) -> Awaitable[Delivery | None]:
        """The callback of this job; None where it has none, or has not ended."""

    async def close(self) -> None:
        """Commit what is queued, then let the data folder go. Nothing may be called afterwards."""
