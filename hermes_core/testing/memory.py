"""MemoryStore: the contract of `Store` without a disk, for tests and benchmarks.

Everything is done at the call; what a method returns is done already, and awaiting it does not let
other tasks run. A test that needs the real order of things uses `SQLiteStore`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import force_setattr, replace

from hermes_core.job import Delivery, Job, JobAdded, JobEnd, JobEnded
from hermes_core.messages import (
    Address,
    Entry,
    EntryState,
    Item,
    Outgoing,
    Step,
    TurnEnd,
    TurnRecord,
    When,
)
from hermes_core.store import Admission, ConversationRecord, Ending, OpenTurn, OpenWork
from hermes_core.testing.done import DONE, Done, Refused
from hermes_core.testing.memory_jobs import MemoryJobs

__all__ = ["MemoryStore"]


@dataclass(slots=True)
class _Turn:
    number: int
    epoch: int
    items: list[Item]
    planned: Step | None = None
    halted: bool = False
    end: TurnEnd | None = None
    reply: int | None = None

    def record(self) -> TurnRecord:
        return TurnRecord(self.number, tuple(self.items), self.end, self.reply)


@dataclass(slots=True)
class _Conversation:
    record: ConversationRecord
    entries: dict[str, Entry] = field(default_factory=dict)  # every one there ever was
    waiting: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)  # by the running turn
    ended: list[_Turn] = field(default_factory=list)
    running: _Turn | None = None
    replies: dict[int, str] = field(default_factory=dict)
    unsent: dict[str, Outgoing] = field(default_factory=dict)
    delivered: dict[str, str] = field(default_factory=dict)  # texts by the platform's ids

    def in_order(self, ids: Iterable[str]) -> list[Entry]:
        return sorted((self.entries[id_] for id_ in ids), key=lambda entry: entry.seq)

    def take(self, ids: Iterable[str]) -> None:
        taken = self.waiting.intersection(ids)
        self.waiting -= taken
        self.taken |= taken


class MemoryStore:
    """`Store` that forgets everything with its last reference; any event loop, one thread."""

    def __init__(self) -> None:
        self._conversations: dict[Address, _Conversation] = {}
        self._seq = 0
        self._outbox: dict[str, Address] = {}  # every key there ever was
        self._uncertain: set[str] = set()
        self._jobs = MemoryJobs(lambda entry: self.admit(entry).value.entry)

    # -- entries

    def admit(self, entry: Entry) -> Done[Admission]:
        here = self._conversations.get(entry.address)
        if here is None:
            here = self._at(entry.address)
        id_ = entry.id
        known = here.entries.get(id_)
        if known is not None:
            return Done(Admission(known, False))
        self._seq += 1
        force_setattr(entry, "seq", self._seq)  # in place of a copy: nobody has seen it with another one
        here.entries[id_] = entry
        here.waiting.add(id_)
        return Done(Admission(entry, True))

    def amend(self, entry: Entry) -> Done[bool]:
        here = self._conversations.get(entry.address)
        if here is None or entry.id not in here.waiting:
            return Done(False)
        here.entries[entry.id] = replace(
            here.entries[entry.id],
            text=entry.text,
            attachments=entry.attachments,
            when=entry.when,
            quote=entry.quote,
            parked=entry.parked,
        )
        return Done(True)

    def settle(
        self, address: Address, ids: Sequence[str], state: EntryState, outgoing: Outgoing | None = None
    ) -> Done[None]:
        if state is EntryState.WAITING:
            return Refused("An entry can only be settled as used, handled, refused or cancelled.")
        here = self._conversations.get(address)
        if here is not None:
            here.waiting.difference_update(ids)
        if outgoing is not None:
            self._post(outgoing)
        return DONE

    # -- turns

    def start_turn(
        self, address: Address, turn: int, items: Sequence[Item], entries: Sequence[str]
    ) -> Done[None]:
        here = self._conversations.get(address)
        if turn <= (0 if here is None else here.record.turns):
            return Refused(f"Turn {turn} cannot start: a later one, or itself, was started before.")
        if here is not None and here.running is not None:
            return Refused(f"Turn {turn} cannot start: another one runs in this conversation.")
        here = self._at(address)
        here.record = replace(here.record, turns=turn)
        here.running = _Turn(turn, here.record.epoch, list(items))
        here.take(entries)
        return Done(None)

    def plan(self, address: Address, turn: int, step: Step) -> Done[None]:
        running = self._peek(address).running
        if running is None or running.number != turn:
            return _not_running(turn)
        running.planned = step
        return Done(None)

    def append(
        self, address: Address, turn: int, items: Sequence[Item], entries: Sequence[str] = ()
    ) -> Done[None]:
        here = self._peek(address)
        running = here.running
        if running is None or running.number != turn:
            return _not_running(turn)
        if items:
            running.items += items
            running.planned = None
        here.take(entries)
        return Done(None)

    def halt(self, address: Address, turn: int) -> Done[None]:
        running = self._peek(address).running
        if running is not None and running.number == turn:
            running.halted = True
        return Done(None)

    def finish(self, ending: Ending) -> Done[None]:
        here = self._peek(ending.address)
        turn = here.running
        if turn is None or turn.number != ending.turn:
            return _not_running(ending.turn)
        if ending.reply is not None and ending.reply <= here.record.replies:
            return Refused(f"Reply {ending.reply} is there already.")
        turn.items, turn.end, turn.reply, turn.planned = list(ending.items), ending.end, ending.reply, None
        here.running = None
        here.ended.append(turn)
        here.waiting |= here.taken
        here.waiting.difference_update(ending.used)
        here.taken.clear()
        if ending.reply is not None:
            here.record = replace(here.record, replies=ending.reply)
            here.replies[ending.reply] = _final_text(ending)
        if ending.context_from is not None and turn.epoch == here.record.epoch:
            here.record = replace(here.record, context_from=ending.context_from)
        if ending.outgoing is not None:
            self._post(ending.outgoing)
        return Done(None)

    # -- conversations

    def conversation(self, address: Address) -> Done[ConversationRecord]:
        return Done(self._peek(address).record)

    def conversations(self) -> Done[list[ConversationRecord]]:
        return Done(sorted((here.record for here in self._conversations.values()), key=_by_address))

    def history(self, address: Address) -> Done[list[TurnRecord]]:
        here = self._peek(address)
        return Done(
            [
                turn.record()
                for turn in here.ended
                if turn.epoch == here.record.epoch and turn.number >= here.record.context_from
            ]
        )

    def reset(self, address: Address) -> Done[ConversationRecord]:
        here = self._at(address)
        here.record = replace(here.record, epoch=here.record.epoch + 1)
        return Done(here.record)

    def set_busy(self, address: Address, busy: When | None) -> Done[None]:
        here = self._at(address)
        here.record = replace(here.record, busy=busy)
        return Done(None)

    def replies(self, address: Address, numbers: Sequence[int]) -> Done[dict[int, str]]:
        known = self._peek(address).replies
        return Done({number: known[number] for number in numbers if number in known})

    def text_of(self, address: Address, platform_id: str) -> Done[str | None]:
        return Done(self._peek(address).delivered.get(platform_id))

    def waiting(self, address: Address) -> Done[list[Entry]]:
        here = self._peek(address)
        return Done(here.in_order(here.waiting))

    def notes(self, address: Address) -> Done[list[Entry]]:
        here = self._peek(address)
        return Done([entry for entry in here.in_order(here.waiting) if _starts_nothing(entry)])

    def open_work(self) -> Done[list[OpenWork]]:
        every = [
            OpenWork(
                here.record,
                tuple(entry for entry in here.in_order(here.waiting) if not _starts_nothing(entry)),
                _open_turn(here),
                tuple(here.unsent.values()),
                frozenset(self._uncertain.intersection(here.unsent)),
            )
            for here in self._conversations.values()
        ]
        found = [work for work in every if work.entries or work.turn is not None or work.outbox]
        return Done(sorted(found, key=lambda work: str(work.conversation.address)))

    # -- outbox

    def post(self, outgoing: Outgoing) -> Done[bool]:
        return Done(self._post(outgoing))

    def sending(self, key: str) -> Done[None]:
        if self._is_unsent(key):
            self._uncertain.add(key)
        return Done(None)

    def sent(self, key: str, platform_ids: Sequence[str] = ()) -> Done[None]:
        if platform_ids and self._is_unsent(key):
            address = self._outbox[key]
            here = self._conversations[address]
            here.delivered.update(dict.fromkeys(platform_ids, here.unsent[key].text))
        return self._leave(key)

    def unsent(self, key: str) -> Done[None]:
        self._uncertain.discard(key)
        return Done(None)

    def undeliverable(self, key: str, reason: str) -> Done[None]:
        return self._leave(key)

    # -- jobs

    def add_job(self, job: Job) -> Done[JobAdded]:
        return Done(self._jobs.add(job))

    def run_job(self, id: str, at: float, runs: int) -> Done[bool]:
        return Done(self._jobs.run(id, at, runs))

    def note_job(self, id: str, progress: str, fraction: float | None) -> Done[None]:
        self._jobs.note(id, progress, fraction)
        return Done(None)

    def stop_job(self, id: str) -> Done[bool]:
        return Done(self._jobs.stop(id))

    def end_job(self, id: str, end: JobEnd, entry: Entry | None = None) -> Done[JobEnded]:
        if not end.state.final:
            return Refused(f"A job cannot end as {end.state.value}.")
        ended = self._jobs.end(id, end, entry)
        return Done(ended) if ended is not None else Refused(f"There is no job {id}.")

    def job(self, id: str) -> Done[Job | None]:
        return Done(self._jobs.one(id))

    def jobs(
        self, address: Address | None = None, *, limit: int = 100, final: bool | None = None
    ) -> Done[list[Job]]:
        return Done(self._jobs.latest(address, limit, final))

    def purge_jobs(self, before: float, limit: int, at: float) -> Done[list[str]]:
        return Done(self._jobs.purge(before, limit, at))

    def purged_jobs(self) -> Done[list[str]]:
        return Done(self._jobs.purged())

    def forget_outputs(self, ids: Sequence[str]) -> Done[None]:
        self._jobs.forget(ids)
        return Done(None)

    def open_jobs(self) -> Done[list[Job]]:
        return Done(self._jobs.unfinished())

    def note_delivery(self, delivery: Delivery) -> Done[None]:
        self._jobs.delivered(delivery)
        return DONE

    def open_deliveries(self) -> Done[list[Delivery]]:
        return Done(self._jobs.deliveries())

    def delivery(self, job: str) -> Done[Delivery | None]:
        return Done(self._jobs.delivery(job))

    async def close(self) -> None:
        """Nothing is held that had to be let go."""

    # -- parts

    def _at(self, address: Address) -> _Conversation:
        """The conversation, made if need be."""
        here = self._conversations.get(address)
        if here is None:
            here = self._conversations[address] = _Conversation(ConversationRecord(address))
        return here

    def _peek(self, address: Address) -> _Conversation:
        """The conversation, or an empty one that is not kept."""
        return self._conversations.get(address) or _Conversation(ConversationRecord(address))

    def _post(self, outgoing: Outgoing) -> bool:
        key = outgoing.key
        if key in self._outbox:
            return False
        self._outbox[key] = outgoing.address
        force_setattr(outgoing, "seq", len(self._outbox))
        self._at(outgoing.address).unsent[key] = outgoing
        return True

    def _is_unsent(self, key: str) -> bool:
        address = self._outbox.get(key)
        return address is not None and key in self._conversations[address].unsent

    def _leave(self, key: str) -> Done[None]:
        address = self._outbox.get(key)
        if address is not None and self._conversations[address].unsent.pop(key, None) is not None:
            self._uncertain.discard(key)
        return DONE


def _not_running(turn: int) -> Done[Any]:
    return Refused(f"Turn {turn} does not run in this conversation.")


def _by_address(record: ConversationRecord) -> str:
    return str(record.address)


def _final_text(ending: Ending) -> str:
    if ending.outgoing is not None:
        return ending.outgoing.text
    return next((item.text for item in reversed(ending.items) if isinstance(item, Step)), "")


def _open_turn(here: _Conversation) -> OpenTurn | None:
    if here.running is None:
        return None
    taken = tuple(here.in_order(here.taken))
    return OpenTurn(here.running.record(), taken, here.running.planned, here.running.halted)


def _starts_nothing(entry: Entry) -> bool:
    return entry.parked or entry.when is When.AT_REPLY
