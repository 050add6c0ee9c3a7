"""StoreContract: what every `Store` must do, as tests that a store of one's own inherits.

    class TestMyStore(DurableStoreContract):
        @pytest.fixture
        async def store(self): ...          # a fresh, empty store; closed afterwards

        @pytest.fixture
        def reopen(self, store): ...        # an async function: closes it, and opens the same data anew

Needs pytest and pytest-asyncio in auto mode. A store that forgets takes `StoreContract`, without
`reopen`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest

from hermes_core.errors import StoreError
from hermes_core.messages import (
    Address,
    EntryState,
    Step,
    TurnEnd,
    When,
)
from hermes_core.store import ConversationRecord, Ending, OpenWork, Store
from hermes_core.testing.entry_contract import EntryContract
from hermes_core.testing.job_contract import JobContract
from hermes_core.testing.store_values import (
    ASKED,
    HERE,
    PLANNED,
    THERE,
    entry,
    numbers,
    outgoing,
    run_turn,
    waiting_ids,
)
from hermes_core.testing.turn_contract import TurnContract

__all__ = ["HERE", "THERE", "DurableStoreContract", "StoreContract", "entry", "outgoing", "run_turn"]


class StoreContract(EntryContract, TurnContract, JobContract):
    """Give it a `store` fixture. `Store` and CONTRACT rules in brackets say what is tested."""

    # -- conversations

    async def test_an_unknown_conversation_is_all_zero_and_reading_does_not_make_it(
        self, store: Store
    ) -> None:
        assert await store.conversation(HERE) == ConversationRecord(HERE)
        assert not await store.history(HERE)
        assert not await store.waiting(HERE)
        assert await store.replies(HERE, [1]) == {}
        assert not await store.conversations()
        assert not await store.open_work()

    async def test_conversations_come_in_the_order_of_their_addresses(self, store: Store) -> None:
        places = [Address("test", "bot", channel) for channel in ("b", "é", "a", "💧", "Z", "a:b")]
        for place in places:
            await store.set_busy(place, When.STEER)
        found = await store.conversations()
        assert [str(one.address) for one in found] == sorted(map(str, places))
        assert {one.busy for one in found} == {When.STEER}

    async def test_the_busy_mode_can_be_set_and_unset(self, store: Store) -> None:
        await store.set_busy(HERE, When.FOLLOWUP)
        assert (await store.conversation(HERE)).busy is When.FOLLOWUP
        await store.set_busy(HERE, None)
        assert (await store.conversation(HERE)).busy is None

    async def test_a_message_is_found_by_the_ids_under_which_the_platform_keeps_it(
        self, store: Store
    ) -> None:
        """(T3)"""
        await store.post(outgoing("k", text="first part, second part"))
        await store.post(outgoing("other"))
        await store.sent("k", ["p1", "p2"])
        await store.sent("other", [])
        assert await store.text_of(HERE, "p2") == "first part, second part"
        assert await store.text_of(HERE, "p3") is None
        assert await store.text_of(THERE, "p1") is None

    async def test_a_parked_event_is_read_with_its_conversation_and_not_at_a_start(
        self, store: Store
    ) -> None:
        """(I10)"""
        await store.admit(entry("e1", when=When.EVENT))
        (one,) = await store.waiting(HERE)
        assert [work.entries for work in await store.open_work()] == [(one,)]
        assert await store.amend(msgspec.structs.replace(one, parked=True))
        assert await store.notes(HERE) == [msgspec.structs.replace(one, parked=True)]
        assert await store.open_work() == []
        await store.start_turn(HERE, 1, [], ["e1"])
        assert await store.notes(HERE) == []
        (work,) = await store.open_work()
        assert work.turn is not None
        assert [one.id for one in work.turn.entries] == ["e1"]

    async def test_waiting_notes_are_read_with_their_conversation_and_not_at_a_start(
        self, store: Store
    ) -> None:
        """(A3, A4)"""
        await store.admit(msgspec.structs.replace(entry("n1"), when=When.AT_REPLY, at_reply=3))
        await store.admit(msgspec.structs.replace(entry("n2"), when=When.AT_REPLY, at_reply=0))
        assert [(one.id, one.at_reply) for one in await store.notes(HERE)] == [("n1", 3), ("n2", 0)]
        assert await store.open_work() == []
        await store.admit(entry("m"))
        await store.start_turn(HERE, 1, [ASKED], ["n2", "m"])
        (work,) = await store.open_work()
        assert work.turn is not None
        assert [one.id for one in work.turn.entries] == ["n2", "m"]
        assert [one.id for one in await store.notes(HERE)] == ["n1"]
        await store.finish(Ending(HERE, 1, TurnEnd.INTERRUPTED, (ASKED,), ("m",)))
        assert [one.id for one in await store.notes(HERE)] == ["n1", "n2"]
        await store.settle(HERE, ["n1"], EntryState.CANCELLED)
        assert [one.id for one in await store.notes(HERE)] == ["n2"]

    async def test_history_begins_where_the_context_does(self, store: Store) -> None:
        for number in (1, 2, 3):
            await run_turn(store, number, reply=number)
        await store.start_turn(HERE, 10, [ASKED], [])
        await store.finish(Ending(HERE, 10, TurnEnd.INTERRUPTED, (ASKED,), (), context_from=3))
        assert await numbers(store) == [3, 10]
        assert (await store.conversation(HERE)).context_from == 3

    async def test_a_reset_starts_an_empty_history_and_goes_on_counting(self, store: Store) -> None:
        """(T7)"""
        await run_turn(store, 1, reply=1)
        await run_turn(store, 1, reply=1, address=THERE)
        await store.admit(entry("note"))
        assert await store.reset(HERE) == ConversationRecord(HERE, epoch=1, turns=1, replies=1)
        assert await store.history(HERE) == []
        await run_turn(store, 2, reply=2)
        assert await numbers(store) == [2]
        assert await numbers(store, THERE) == [1]
        assert await waiting_ids(store) == ["note"]
        assert await store.replies(HERE, [1, 2]) == {1: "text 1", 2: "text 2"}

    async def test_a_turn_that_ends_after_a_reset_belongs_to_the_old_history(self, store: Store) -> None:
        """(T7)"""
        await store.start_turn(HERE, 1, [ASKED], [])
        await store.reset(HERE)
        await store.finish(Ending(HERE, 1, TurnEnd.INTERRUPTED, (ASKED,), (), context_from=1))
        assert await store.history(HERE) == []
        assert (await store.conversation(HERE)).context_from == 0

    async def test_replies_are_found_by_number(self, store: Store) -> None:
        await run_turn(store, 1, reply=1)
        await run_turn(store, 2)
        await store.start_turn(HERE, 3, [ASKED], [])
        sent = outgoing("r2", text="as people saw it")
        await store.finish(Ending(HERE, 3, TurnEnd.COMPLETED, (ASKED, Step("raw")), (), 2, sent))
        await store.start_turn(HERE, 4, [ASKED], [])
        await store.finish(Ending(HERE, 4, TurnEnd.COMPLETED, (ASKED,), (), 3))
        assert await store.replies(HERE, [3, 2, 1, 4]) == {1: "text 1", 2: "as people saw it", 3: ""}
        assert await store.replies(THERE, [1]) == {}

    # -- outbox

    async def test_a_message_is_posted_once_and_leaves_in_order(self, store: Store) -> None:
        """(D5)"""
        assert await store.post(outgoing("a"))
        assert await store.post(outgoing("b"))
        assert not await store.post(outgoing("a", THERE, "other"))
        (work,) = await store.open_work()
        assert [(one.key, one.text) for one in work.outbox] == [("a", "an answer"), ("b", "an answer")]
        assert 0 < work.outbox[0].seq < work.outbox[1].seq

    async def test_a_message_is_uncertain_from_the_hand_over_to_the_answer(self, store: Store) -> None:
        """(D5)"""
        for key in ("sent", "unsent", "cut", "never"):
            await store.post(outgoing(key))
            await store.sending(key)
        await store.post(outgoing("waits"))
        await store.sent("sent", ["1", "2"])
        await store.unsent("unsent")
        await store.undeliverable("never", "the chat was deleted")
        (work,) = await store.open_work()
        assert [one.key for one in work.outbox] == ["unsent", "cut", "waits"]
        assert work.uncertain == {"cut"}

    async def test_what_was_sent_or_given_up_stays_so(self, store: Store) -> None:
        """(D5)"""
        for key in ("sent", "never"):
            await store.post(outgoing(key))
        await store.sent("sent")
        await store.undeliverable("never", "blocked")
        for key in ("sent", "never", "unknown"):
            await store.sending(key)
            await store.unsent(key)
            assert await store.open_work() == []
        assert not await store.post(outgoing("sent"))

    # -- all of it

    async def test_open_work_names_the_conversations_that_have_some_and_no_others(self, store: Store) -> None:
        """(D6)"""
        await run_turn(store, 1, reply=1)
        event = (await store.admit(entry("event", THERE, When.EVENT))).entry
        assert await store.open_work() == [OpenWork(ConversationRecord(THERE), (event,))]

    async def test_writes_happen_in_the_order_of_the_calls_and_the_last_can_be_awaited_alone(
        self, store: Store
    ) -> None:
        calls: Sequence[Awaitable[object]] = [store.admit(entry(str(number))) for number in range(50)]
        taking = store.start_turn(HERE, 1, [], ["3"])
        await store.settle(HERE, ["5"], EntryState.CANCELLED)
        assert await waiting_ids(store) == [str(number) for number in range(50) if number not in (3, 5)]
        await taking
        assert len(calls) == 50

    async def test_a_read_sees_every_write_that_was_queued_before_it(self, store: Store) -> None:
        writing = store.admit(entry("a"))
        reading = store.waiting(HERE)
        assert [one.id for one in await reading] == ["a"]
        assert (await writing).fresh

    async def test_a_write_that_fails_fails_alone(self, store: Store) -> None:
        """(D7)"""
        first = store.admit(entry("a"))
        failing = store.finish(Ending(HERE, 9, TurnEnd.COMPLETED, (), ("a",), 1))
        second = store.admit(entry("b"))
        assert (await first).fresh
        assert (await second).fresh
        with pytest.raises(StoreError):
            await failing
        assert await waiting_ids(store) == ["a", "b"]

    async def test_cancelling_the_wait_does_not_take_the_write_back(self, store: Store) -> None:
        async def wait() -> None:
            await store.admit(entry("a"))

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert await waiting_ids(store) == ["a"]


class DurableStoreContract(StoreContract):
    """A store whose data outlives it. Give it a `reopen` fixture as well."""

    async def test_everything_is_there_after_a_restart(
        self, store: Store, reopen: Callable[[], Awaitable[Store]]
    ) -> None:
        """(D6)"""
        await run_turn(store, 1, reply=1)
        for id_ in "abc":
            await store.admit(entry(id_))
        await store.admit(entry("a", THERE, When.AT_REPLY))
        await store.set_busy(THERE, When.STEER)
        await store.start_turn(HERE, 2, [ASKED], ["a"])
        await store.plan(HERE, 2, PLANNED)
        await store.post(outgoing("k"))
        await store.sending("k")
        before = (await store.open_work(), await store.conversations(), await store.history(HERE))
        again = await reopen()
        assert (await again.open_work(), await again.conversations(), await again.history(HERE)) == before
        assert not (await again.admit(entry("a"))).fresh
        assert (await again.admit(entry("d"))).entry.seq > max(one.seq for one in before[0][0].entries)

    async def test_closing_commits_what_is_queued(
        self, store: Store, reopen: Callable[[], Awaitable[Store]]
    ) -> None:
        calls: Sequence[Awaitable[object]] = [store.admit(entry(str(number))) for number in range(500)]
        again = await reopen()
        assert await waiting_ids(again) == [str(number) for number in range(500)]
        assert len(calls) == 500
