"""Both stores keep the contract, and agree with each other on whatever is asked of them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_core.errors import StoreError
from hermes_core.messages import (
    Address,
    Author,
    Entry,
    EntryState,
    Outgoing,
    Said,
    SaidKind,
    Step,
    ToolCall,
    TurnEnd,
    When,
)
from hermes_core.store import Ending, Store
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.store_contract import DurableStoreContract, StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


class TestSQLiteStore(DurableStoreContract):
    @pytest.fixture
    async def opened(self, tmp_path: Path) -> AsyncIterator[list[SQLiteStore]]:
        """The store in use is the last one."""
        stores = [await SQLiteStore.open(tmp_path / "data")]
        yield stores
        await stores[-1].close()

    @pytest.fixture
    def store(self, opened: list[SQLiteStore]) -> SQLiteStore:
        return opened[-1]

    @pytest.fixture
    def reopen(self, opened: list[SQLiteStore], tmp_path: Path) -> Callable[[], Awaitable[Store]]:
        async def again() -> Store:
            await opened[-1].close()
            opened.append(await SQLiteStore.open(tmp_path / "data"))
            return opened[-1]

        return again


async def test_awaiting_the_store_in_memory_lets_nothing_else_run() -> None:
    """A benchmark of dispatching may use it: no call of it costs a turn of the event loop."""
    seen: list[str] = []
    asyncio.get_running_loop().call_soon(seen.append, "the loop turned")
    store = MemoryStore()
    await store.admit(Entry("a", Address("t", "b", "c"), Author("1"), "x", When.QUEUE))
    await store.open_work()
    assert seen == []
    await asyncio.sleep(0)
    assert seen == ["the loop turned"]


# ---- the same as in memory, whatever is asked

ADDRESSES = st.sampled_from([Address("t", "b", "1"), Address("t", "b", "2", "x")])
IDS = st.sampled_from(["a", "b", "c", "d"])
MANY_IDS = st.lists(IDS, max_size=3)
NUMBERS = st.integers(1, 5)
# Turns and replies are numbered from the latest one of the conversation on: mostly the right way.
STEPS_AHEAD = st.sampled_from([1, 1, 1, 1, 0, 2])
TEXTS = st.sampled_from(["", "one", "two\x00", "💧"])
ITEMS = st.lists(
    st.one_of(
        st.builds(Said, kind=st.sampled_from(SaidKind), text=TEXTS),
        st.builds(
            Step, text=TEXTS, calls=st.just((ToolCall("c", "n", "{}"),)), opaque=st.none() | st.just({"a": 1})
        ),
        st.builds(Step, text=TEXTS),
    ),
    max_size=2,
).map(tuple)
ENTRIES = st.builds(
    Entry,
    id=IDS,
    address=ADDRESSES,
    author=st.just(Author("1")),
    text=TEXTS,
    when=st.sampled_from(When),
    seq=st.integers(0, 9),
)
OUTGOING = st.builds(Outgoing, key=IDS, address=ADDRESSES, text=TEXTS)
STEPS = st.builds(Step, text=TEXTS)
ENDINGS = st.builds(
    Ending,
    address=ADDRESSES,
    turn=STEPS_AHEAD,
    end=st.sampled_from(TurnEnd),
    items=ITEMS,
    used=MANY_IDS.map(tuple),
    reply=st.none() | STEPS_AHEAD,
    outgoing=st.none() | OUTGOING,
    context_from=st.none() | NUMBERS,
)


def call(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, tuple[Any, ...]]]:
    return st.tuples(st.just(name), st.tuples(*arguments))


CALLS = st.one_of(
    call("admit", ENTRIES),
    call("admit", ENTRIES),
    call("amend", ENTRIES),
    call("settle", ADDRESSES, MANY_IDS, st.sampled_from(EntryState), st.none() | OUTGOING),
    call("start_turn", ADDRESSES, STEPS_AHEAD, ITEMS, MANY_IDS),
    call("start_turn", ADDRESSES, STEPS_AHEAD, ITEMS, MANY_IDS),
    call("plan", ADDRESSES, STEPS_AHEAD, STEPS),
    call("halt", ADDRESSES, STEPS_AHEAD),
    call("append", ADDRESSES, STEPS_AHEAD, ITEMS, MANY_IDS),
    call("finish", ENDINGS),
    call("finish", ENDINGS),
    call("reset", ADDRESSES),
    call("set_busy", ADDRESSES, st.none() | st.sampled_from(When)),
    call("post", OUTGOING),
    call("sending", IDS),
    call("sent", IDS, MANY_IDS),
    call("unsent", IDS),
    call("undeliverable", IDS, TEXTS),
)


async def numbered(store: MemoryStore, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The call with turn and reply counted from where its conversation stands."""
    if name == "finish":
        (ending,) = arguments
        record = await store.conversation(ending.address)
        reply = None if ending.reply is None else record.replies + ending.reply
        return (msgspec.structs.replace(ending, turn=record.turns + ending.turn - 1, reply=reply),)
    if name in ("start_turn", "plan", "halt", "append"):
        address, ahead, *rest = arguments
        record = await store.conversation(address)
        return (address, record.turns + ahead - (name != "start_turn"), *rest)
    return arguments


async def outcome(awaitable: Awaitable[Any]) -> Any:
    try:
        return await awaitable
    except StoreError as error:
        return type(error), str(error)


async def everything(store: Store) -> list[Any]:
    found: list[Any] = [await store.open_work(), await store.conversations()]
    for address in (Address("t", "b", "1"), Address("t", "b", "2", "x")):
        found += [
            await store.conversation(address),
            await store.history(address),
            await store.waiting(address),
            await store.replies(address, range(6)),
        ]
    return found


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(CALLS, st.booleans()), max_size=40))
def test_both_stores_answer_alike_whatever_is_asked(
    calls: list[tuple[tuple[str, tuple[Any, ...]], bool]],
) -> None:
    """Calls are queued without waiting, so that they share transactions; now and then all is read."""

    async def compare(folder: Path) -> None:
        memory, durable = MemoryStore(), await SQLiteStore.open(folder)
        expected, answers = [], []
        for (name, relative), look in calls:
            arguments = await numbered(memory, name, relative)
            expected.append(await outcome(getattr(memory, name)(*arguments)))
            answers.append(getattr(durable, name)(*arguments))
            if look:
                assert await everything(durable) == await everything(memory)
        assert [await outcome(answer) for answer in answers] == expected
        await durable.close()
        again = await SQLiteStore.open(folder)
        assert await everything(again) == await everything(memory)
        await again.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(compare(Path(folder)))
