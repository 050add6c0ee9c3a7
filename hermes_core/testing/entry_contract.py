"""EntryContract: the part of `StoreContract` that is about entries."""

from __future__ import annotations

import pytest

from hermes_core.errors import StoreError
from hermes_core.messages import (
    Attachment,
    Author,
    Entry,
    EntryState,
    TurnEnd,
    When,
)
from hermes_core.store import Ending, Store
from hermes_core.testing.store_values import (
    HERE,
    ODD_IDS,
    THERE,
    entry,
    outgoing,
    waiting_ids,
)

__all__ = ["EntryContract"]


class EntryContract:
    """Give it a `store` fixture. `Store` and CONTRACT rules in brackets say what is tested."""

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
