"""TurnContract: the part of `StoreContract` that is about turns."""

from __future__ import annotations

import msgspec
import pytest

from hermes_core.errors import StoreError
from hermes_core.messages import (
    Attachment,
    Item,
    Said,
    SaidKind,
    Step,
    TurnEnd,
    TurnRecord,
)
from hermes_core.store import ConversationRecord, Ending, OpenTurn, Store
from hermes_core.testing.store_values import (
    ASKED,
    COUNTED,
    HERE,
    PLANNED,
    THERE,
    entry,
    outgoing,
    run_turn,
    waiting_ids,
)

__all__ = ["TurnContract"]


class TurnContract:
    """Give it a `store` fixture. `Store` and CONTRACT rules in brackets say what is tested."""

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

    async def test_the_latest_plan_of_a_step_counts_with_the_results_that_are_certain(
        self, store: Store
    ) -> None:
        """(D4)"""
        await store.start_turn(HERE, 1, [ASKED], [])
        await store.plan(HERE, 1, PLANNED)
        later = msgspec.structs.replace(PLANNED, results=COUNTED.results)
        assert later != PLANNED
        await store.plan(HERE, 1, later)
        (work,) = await store.open_work()
        assert work.turn == OpenTurn(TurnRecord(1, (ASKED,)), (), later)

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
