"""What came while the program was down, and what a dead run left behind (D6, D8, R3)."""

from __future__ import annotations

from pathlib import Path

from hermes_core.messages import Address, Outgoing
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold
from hermes_core.testing.platforms.discord import FakeDiscord
from hermes_discord.notebook import Notebook

from .bench import Bench, until


async def test_messages_of_the_downtime_are_taken_up_in_order_and_once_d8(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    store, room, chat = MemoryStore(), discord.room(), discord.direct()
    async with Bench(tmp_path, discord, store=store) as bench:
        await discord.say(room, "ann", f"{discord.mention} zero")
        await discord.say(chat, "ann", "zero")
        await bench.heard(room)
        await bench.heard(chat)
    for number in range(120):  # more than one page of the history
        await discord.say(room, "bob", f"chatter {number}", told=False)
    await discord.say(room, "ann", f"{discord.mention} one", told=False)
    await discord.say(chat, "ann", "two", told=False)
    async with Bench(tmp_path, discord, store=store, settings={"busy": "queue"}) as bench:
        assert (await bench.heard(room, 2))[1] == "you said: one"
        assert (await bench.heard(chat, 2))[1] == "you said: two"
        await discord.say(room, "ann", f"{discord.mention} three")
        assert (await bench.heard(room, 3))[2].endswith("three")
        assert len(bench.model.requests) == 3


async def test_what_is_older_than_catch_up_is_counted_and_said_not_answered(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    store, chat = MemoryStore(), discord.direct()
    first = await discord.say(chat, "ann", "long ago", told=False, ago=9000.0)
    book = Notebook(tmp_path / "discord" / "notebook.json")
    book.meet(chat, f"discord:{discord.me['id']}:{chat}", None, first)
    book.write()
    await discord.say(chat, "ann", "are you there?", told=False, ago=8000.0)
    await discord.say(chat, "ann", "hello?", told=False, ago=7000.0)
    await discord.say(chat, "ann", "this is new", told=False)
    async with Bench(tmp_path, discord, store=store, settings={"catch_up": "1h"}) as bench:
        shown = await bench.heard(chat, 2)
        assert any(one.startswith("2 messages came here while I was away") for one in shown)
        assert "you said: this is new" in shown
        assert len(bench.model.requests) == 1


async def test_d5_what_the_gateway_told_of_is_found_by_its_key_and_the_history_shows_no_nonce(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    store, chat = MemoryStore(), discord.direct()
    async with Bench(tmp_path, discord, store=store) as bench:
        await discord.say(chat, "ann", "hello")
        await bench.heard(chat)
        key = f"{bench.address(chat)}#turn:1"
        found = await bench.runtime.services.adapters["discord"].find(key, bench.address(chat))
        assert found is not None
        assert found.ids == (discord.mine(chat)[0]["id"],)
        assert await bench.runtime.services.adapters["discord"].find(f"{key}0", bench.address(chat)) is None
    async with Bench(tmp_path, discord, store=store) as bench:
        assert await bench.runtime.services.adapters["discord"].find(key, bench.address(chat)) == found
    async with Bench(tmp_path / "another", discord, store=store) as bench:
        assert await bench.runtime.services.adapters["discord"].find(key, bench.address(chat)) is None


async def test_the_message_of_a_text_that_a_crash_cut_off_gets_its_end_r3(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    store, chat = MemoryStore(), discord.direct()
    async with Bench(tmp_path, discord, [["The beginning of a long answer", Hold()]], store=store):
        await discord.say(chat, "ann", "go on")
        await until(lambda: discord.texts(chat) == ["The beginning of a long answer"])
    async with Bench(tmp_path, discord, ["The whole answer, at last"], store=store):
        await until(lambda: discord.texts(chat) == ["The whole answer, at last"])
        assert len(discord.mine(chat)) == 1


async def test_a_reply_that_is_in_the_history_is_not_posted_again_when_its_nonce_has_lapsed_d5(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    store, chat = MemoryStore(), discord.direct()
    asked = await discord.say(chat, "ann", "what is the capital of France?", told=False)
    texts = ["The capital of France is Paris.", "The capital of Spain is Madrid."]
    discord.world.write(chat, discord.me, texts[0])
    address = Address("discord", discord.me["id"], chat)
    for number, text in enumerate(texts, 1):
        await store.post(Outgoing(f"{address}#turn:{number}", address, text, turn=str(number), answers=asked))
    async with Bench(tmp_path, discord, store=store) as bench:
        await until(lambda: bench.runtime.services.outbox.empty(address))
        assert discord.texts(chat) == texts
        assert len(discord.calls("POST", "/messages")) == 1


async def test_a_draft_that_no_turn_goes_on_with_is_closed_with_a_mark_r3(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    left = discord.world.write(chat, discord.me, "It was going to be a very")
    book = Notebook(tmp_path / "discord" / "notebook.json")
    book.drafting(f"discord:{discord.me['id']}:{chat}#turn:77", 0, [left["id"]])
    async with Bench(tmp_path, discord):
        await discord.say(chat, "ann", "hello again")
        await until(lambda: "you said: hello again" in discord.texts(chat))
        await until(lambda: discord.texts(chat)[0] == "It was going to be a very\n\n*✂ interrupted*")
    assert Notebook(tmp_path / "discord" / "notebook.json").unfinished() == []


async def test_an_event_that_cannot_be_read_is_left_out_and_the_next_one_is_taken(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    room = discord.room()
    async with Bench(tmp_path, discord) as bench:
        unreadable = discord.world.channel(99)  # a kind of channel that the library does not know
        await discord.say(unreadable, "ann", f"{discord.mention} from the future")
        await discord.say(room, "ann", f"{discord.mention} hello")
        assert await bench.heard(room) == ["you said: hello"]
        assert len(discord.gateway.identified) == 1
