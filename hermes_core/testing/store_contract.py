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
from typing import Final

import msgspec
import pytest

from hermes_core.errors import StoreError
from hermes_core.messages import (
    Address,
    Attachment,
    Author,
    Entry,
    EntryState,
    Item,
    Outgoing,
    Said,
    SaidKind,
    Step,
    ToolCall,
    ToolResult,
    TurnEnd,
    TurnRecord,
    When,
)
from hermes_core.store import ConversationRecord, Ending, OpenTurn, OpenWork, Store
from hermes_core.testing.job_contract import JobContract

__all__ = ["HERE", "THERE", "DurableStoreContract", "StoreContract", "entry", "outgoing", "run_turn"]

HERE: Final = Address("test", "bot", "here")
THERE: Final = Address("test", "bot", "there", "thread:1 %")
ADA: Final = Author("42", "Ada")
ASKED: Final = Said(SaidKind.MESSAGE, "how many?")
CALL: Final = ToolCall("c1", "count", '{"of": "files"}')
PLANNED: Final = Step("let me count", (CALL,), opaque={"signature": [1, None]})
COUNTED: Final = Step("let me count", (CALL,), (ToolResult("c1", "3"),))
ODD_IDS: Final = ("", "0", "a'b\"c", "line\nline", "\x00", "💧" * 40, "x" * 2000, "%s?")


def entry(id_: str, address: Address = HERE, when: When = When.QUEUE, text: str = "hello") -> Entry:
    """A message of Ada's."""
    return Entry(id_, address, ADA, text, when, arrived=12.5)


def outgoing(key: str, address: Address = HERE, text: str = "an answer") -> Outgoing:
    """A message that is to leave."""
    return Outgoing(key, address, text, answers="7")


async def run_turn(store: Store, turn: int, reply: int | None = None, address: Address = HERE) -> None:
    """One turn from start to end; with a `reply` it is a completed one."""
    await store.start_turn(address, turn, [ASKED], [])
    end = TurnEnd.INTERRUPTED if reply is None else TurnEnd.COMPLETED
    await store.finish(Ending(address, turn, end, (ASKED, Step(f"text {turn}")), (), reply))


async def waiting_ids(store: Store, address: Address = HERE) -> list[str]:
    return [one.id for one in await store.waiting(address)]


async def numbers(store: Store, address: Address = HERE) -> list[int]:
    return [turn.number for turn in await store.history(address)]


class StoreContract(JobContract):
    """Give it a `store` fixture. `Store` and CONTRACT rules in brackets say what is tested."""

    # -- entries

    async def test_an_admitted_entry_waits_with_its_place_in_the_order(self, store: Store) -> None:
        """(D1)"""
        first, second = await store.admit(entry("a")), await store.admit(entry("b"))
        assert first.fresh
        assert second.fresh
        assert 0 < first.entry.seq < second.entry.seq
        assert await store.waiting(HERE) == [first.entry, second.entry]

    async def test_every_field_of_an_entry_comes_back_as_it_went_in(self, store: Store) -> None:
        photo = Attachment("a.png", "image/png", 12, "file:1")
        author = Author("9", "Bé", bot=True)
        text = "té\x00xt\n\u2028 💧"
        full = Entry(
            "m1", THERE, author, text, When.AT_REPLY, 0, 7, True, True, True, (photo,), "quoted", 1.25
        )
        admitted = (await store.admit(full)).entry
        assert [admitted] == await store.waiting(THERE)
        for name in Entry.__struct_fields__:
            if name != "seq":
                assert getattr(admitted, name) == getattr(full, name), name

    async def test_a_second_delivery_gets_the_entry_as_it_was_stored_the_first_time(
        self, store: Store
    ) -> None:
        """(D1)"""
        first = await store.admit(entry("a"))
        again = await store.admit(entry("a", text="changed"))
        assert not again.fresh
        assert again.entry == first.entry
        assert await store.waiting(HERE) == [first.entry]

    @pytest.mark.parametrize("state", [one for one in EntryState if one is not EntryState.WAITING])
    async def test_a_second_delivery_is_known_also_when_the_first_has_ended(
        self, store: Store, state: EntryState
    ) -> None:
        """(D1)"""
        await store.admit(entry("a"))
        await store.settle(HERE, ["a"], state)
        assert not (await store.admit(entry("a"))).fresh
        assert await store.waiting(HERE) == []

    async def test_the_same_id_at_another_address_is_another_entry(self, store: Store) -> None:
        assert (await store.admit(entry("a"))).fresh
        assert (await store.admit(entry("a", THERE))).fresh
        assert await waiting_ids(store, HERE) == await waiting_ids(store, THERE) == ["a"]

    async def test_any_text_can_be_an_id(self, store: Store) -> None:
        for odd in ODD_IDS:
            assert (await store.admit(entry(odd))).fresh
            assert not (await store.admit(entry(odd))).fresh
        assert await waiting_ids(store) == list(ODD_IDS)

    async def test_an_edit_replaces_what_waits_and_keeps_its_place(self, store: Store) -> None:
        """(D9)"""
        first = (await store.admit(entry("a"))).entry
        await store.admit(entry("b"))
        photo = Attachment("a.png")
        edit = Entry("a", HERE, Author("other"), "edited", When.STEER, 99, attachments=(photo,), arrived=99.0)
        assert await store.amend(edit)
        edited, _ = await store.waiting(HERE)
        assert (edited.text, edited.when, edited.attachments) == ("edited", When.STEER, (photo,))
        assert (edited.seq, edited.author, edited.arrived) == (first.seq, first.author, first.arrived)

    async def test_an_edit_of_what_waits_no_more_changes_nothing(self, store: Store) -> None:
        """(D9)"""
        await store.admit(entry("taken"))
        await store.admit(entry("gone"))
        await store.start_turn(HERE, 1, [], ["taken"])
        await store.settle(HERE, ["gone"], EntryState.CANCELLED)
        assert not await store.amend(entry("taken", text="edited"))
        assert not await store.amend(entry("gone", text="edited"))
        assert not await store.amend(entry("never seen"))
        assert not await store.amend(entry("taken", THERE))
        assert (await store.admit(entry("taken"))).entry.text == "hello"

    async def test_settling_ends_entries_and_answers_in_one_go(self, store: Store) -> None:
        """(D2)"""
        await store.admit(entry("a"))
        await store.admit(entry("b"))
        await store.settle(HERE, ["a", "unknown"], EntryState.HANDLED, outgoing("k"))
        assert await waiting_ids(store) == ["b"]
        assert [one.key for one in (await store.open_work())[0].outbox] == ["k"]

    async def test_settling_leaves_what_a_turn_has_taken(self, store: Store) -> None:
        """(D9)"""
        await store.admit(entry("a"))
        await store.start_turn(HERE, 1, [], ["a"])
        await store.settle(HERE, ["a"], EntryState.CANCELLED)
        await store.finish(Ending(HERE, 1, TurnEnd.INTERRUPTED, (), ()))
        assert await waiting_ids(store) == ["a"]

    async def test_settling_answers_once_also_when_it_is_done_twice(self, store: Store) -> None:
        await store.admit(entry("a"))
        await store.settle(HERE, ["a"], EntryState.REFUSED, outgoing("k", text="no"))
        await store.settle(HERE, ["a"], EntryState.HANDLED, outgoing("k", text="yes"))
        assert [one.text for one in (await store.open_work())[0].outbox] == ["no"]

    async def test_settling_as_waiting_is_refused(self, store: Store) -> None:
        await store.admit(entry("a"))
        with pytest.raises(StoreError):
            await store.settle(HERE, ["a"], EntryState.WAITING, outgoing("k"))
        assert (await store.open_work())[0].outbox == ()

    # -- turns

    async def test_a_turn_takes_what_it_names_and_gives_back_what_it_does_not_use(self, store: Store) -> None:
        """(D3)"""
        for id_ in "abcd":
            await store.admit(entry(id_))
        await store.start_turn(HERE, 1, [ASKED], ["c", "a"])
        assert await waiting_ids(store) == ["b", "d"]
        await store.append(HERE, 1, [COUNTED], ["d"])
        assert await waiting_ids(store) == ["b"]
        await store.finish(Ending(HERE, 1, TurnEnd.FAILED, (ASKED,), ("c",)))
        assert await waiting_ids(store) == ["a", "b", "d"]

    async def test_an_entry_that_waits_can_be_used_without_having_been_taken(self, store: Store) -> None:
        await store.admit(entry("a"))
        await store.start_turn(HERE, 1, [ASKED], [])
        await store.finish(Ending(HERE, 1, TurnEnd.COMPLETED, (ASKED,), ("a",), 1))
        assert await store.waiting(HERE) == []

    async def test_a_running_turn_can_be_read_back_with_its_plan(self, store: Store) -> None:
        """(D4)"""
        for id_ in "abc":
            await store.admit(entry(id_))
        await store.start_turn(HERE, 4, [ASKED], ["b"])
        await store.plan(HERE, 4, PLANNED)
        await store.append(HERE, 4, [], ["a"])
        (work,) = await store.open_work()
        assert work.turn is not None
        assert [one.id for one in work.turn.entries] == ["a", "b"]
        assert work.turn == OpenTurn(TurnRecord(4, (ASKED,)), work.turn.entries, PLANNED)
        assert [one.id for one in work.entries] == ["c"]
        assert await store.history(HERE) == []

    async def test_a_turn_that_was_being_stopped_is_known_as_such(self, store: Store) -> None:
        """(I1)"""
        await store.start_turn(HERE, 1, [ASKED], [])
        await store.halt(HERE, 2)
        await store.halt(THERE, 1)
        assert [work.turn.halted for work in await store.open_work() if work.turn] == [False]
        await store.halt(HERE, 1)
        assert [work.turn.halted for work in await store.open_work() if work.turn] == [True]
        await store.finish(Ending(HERE, 1, TurnEnd.INTERRUPTED, (ASKED,), ()))
        await store.halt(HERE, 1)
        await store.start_turn(HERE, 2, [ASKED], [])
        assert [work.turn.halted for work in await store.open_work() if work.turn] == [False]

    async def test_finished_items_forget_the_plan(self, store: Store) -> None:
        """(D4)"""
        await store.start_turn(HERE, 1, [ASKED], [])
        await store.plan(HERE, 1, PLANNED)
        hint = Said(SaidKind.STEER, "faster", author="Ada", attachments=(Attachment("x"),))
        await store.append(HERE, 1, [COUNTED, hint])
        (work,) = await store.open_work()
        assert work.turn == OpenTurn(TurnRecord(1, (ASKED, COUNTED, hint)), ())

    async def test_a_turn_has_its_own_items_and_those_of_no_other(self, store: Store) -> None:
        for turn in (1, 2):
            await store.start_turn(HERE, turn, [ASKED], [])
            await store.append(HERE, turn, [COUNTED])
            await store.finish(Ending(HERE, turn, TurnEnd.INTERRUPTED, (ASKED,), ()))
        await store.start_turn(THERE, 1, [ASKED], [])
        await store.start_turn(HERE, 3, [COUNTED], [])
        turns = [work.turn for work in await store.open_work()]
        assert turns == [OpenTurn(TurnRecord(3, (COUNTED,)), ()), OpenTurn(TurnRecord(1, (ASKED,)), ())]

    async def test_the_end_replaces_the_items_and_does_everything_at_once(self, store: Store) -> None:
        """(D3)"""
        await store.admit(entry("a"))
        await store.start_turn(HERE, 3, [ASKED], ["a"])
        await store.append(HERE, 3, [COUNTED])
        kept: tuple[Item, ...] = (ASKED, COUNTED, Step("three"))
        await store.finish(Ending(HERE, 3, TurnEnd.COMPLETED, kept, ("a",), 1, outgoing("r1")))
        assert await store.history(HERE) == [TurnRecord(3, kept, TurnEnd.COMPLETED, 1)]
        assert await store.conversation(HERE) == ConversationRecord(HERE, turns=3, replies=1)
        (work,) = await store.open_work()
        assert (work.entries, work.turn, [one.key for one in work.outbox]) == ((), None, ["r1"])

    async def test_one_turn_at_a_time_and_each_number_once(self, store: Store) -> None:
        """(T)"""
        await store.admit(entry("a"))
        await store.start_turn(HERE, 2, [ASKED], [])
        for number in (1, 2, 3):
            with pytest.raises(StoreError):
                await store.start_turn(HERE, number, [ASKED], ["a"])
        await store.start_turn(THERE, 1, [ASKED], [])
        assert await waiting_ids(store) == ["a"]
        assert (await store.conversation(HERE)).turns == 2

    async def test_a_turn_that_does_not_run_cannot_go_on_or_end(self, store: Store) -> None:
        await run_turn(store, 1, reply=1)
        await store.admit(entry("a"))
        for turn in (1, 2):
            with pytest.raises(StoreError):
                await store.plan(HERE, turn, PLANNED)
            with pytest.raises(StoreError):
                await store.append(HERE, turn, [COUNTED], ["a"])
            with pytest.raises(StoreError):
                await store.finish(Ending(HERE, turn, TurnEnd.COMPLETED, (), ("a",), 2, outgoing("k")))
        assert await waiting_ids(store) == ["a"]
        assert (await store.conversation(HERE)).replies == 1
        assert (await store.open_work())[0].outbox == ()

    async def test_an_ending_that_fails_leaves_the_turn_as_it_was(self, store: Store) -> None:
        """(D3)"""
        await run_turn(store, 1, reply=1)
        await store.admit(entry("a"))
        await store.start_turn(HERE, 2, [ASKED], ["a"])
        before = await store.open_work()
        with pytest.raises(StoreError):  # there is a reply 1 already
            await store.finish(Ending(HERE, 2, TurnEnd.COMPLETED, (), ("a",), 1, outgoing("k"), 2))
        assert await store.open_work() == before

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
