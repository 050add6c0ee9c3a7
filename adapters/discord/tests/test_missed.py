"""What came while the program was down, and what a dead run left behind (D6, D8, R3)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_core.messages import Address, Message, Outgoing, ToolCall, turn_key
from hermes_core.testing.driver import RecordingGateway
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold, Script
from hermes_core.testing.platforms.discord import FakeDiscord
from hermes_core.writing import Doubt, Draft, Journal
from hermes_discord.adapter import DiscordAdapter
from hermes_discord.notebook import Notebook

from .bench import Bench, until


def journal(folder: Path) -> Journal:
    """What a run in this folder remembers of the texts that it shows."""
    return Journal(folder / "discord" / "drafts.jsonl")


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


async def test_d8_what_is_older_than_catch_up_is_counted_and_said_not_answered(
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
        assert any(one.startswith("2 messages came here more than 1 h ago") for one in shown)
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
    address = Address("discord", discord.me["id"], chat)
    journal(tmp_path).note(
        Draft(str(address), turn_key(address, 77), ids=(left["id"],), text="It was going to be a very")
    )
    async with Bench(tmp_path, discord):
        await discord.say(chat, "ann", "hello again")
        await until(lambda: "you said: hello again" in discord.texts(chat))
        await until(lambda: discord.texts(chat)[0] == "It was going to be a very\n\n*✂ interrupted*")
    assert all(one.whole for one in journal(tmp_path).drafts())


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


async def test_an_event_that_the_library_cannot_read_does_not_end_the_connection(
    tmp_path: Path, discord: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        await discord.gateway.dispatch("MESSAGE_CREATE", {"id": "5"})  # of a shape that is not known yet
        await discord.gateway.dispatch("BRAND_NEW", {"what": "nobody knows"})
        await discord.say(chat, "ann", "hello")
        assert await bench.heard(chat) == ["you said: hello"]
        assert len(discord.gateway.identified) == 1
    assert "MESSAGE_CREATE of Discord cannot be read and is left out" in caplog.text


async def test_r3_a_draft_that_no_turn_goes_on_with_is_closed_though_nobody_says_anything(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    left = discord.world.write(chat, discord.me, "It was going to be a very")
    address = Address("discord", discord.me["id"], chat)
    journal(tmp_path).note(
        Draft(str(address), turn_key(address, 77), ids=(left["id"],), text="It was going to be a very")
    )
    async with Bench(tmp_path, discord):
        await until(lambda: discord.texts(chat) == ["It was going to be a very\n\n*✂ interrupted*"])


@pytest.mark.parametrize("goes_on", [True, False])
async def test_r3_a_draft_that_was_posted_in_the_instant_of_the_crash_gets_its_end_or_its_mark(
    goes_on: bool, tmp_path: Path, discord: FakeDiscord
) -> None:
    store, chat = MemoryStore(), discord.direct()
    started = "It was going to be a very"
    left = discord.world.write(chat, discord.me, started, ago=600.0)  # nothing was noted of it but the intent
    address = Address("discord", discord.me["id"], chat)
    doubt = Doubt(started, time.time() - 600.0)
    journal(tmp_path).note(Draft(str(address), turn_key(address, 1), text=started, doubt=doubt))
    if goes_on:
        await store.post(Outgoing(f"{address}#turn:1", address, "It is over.", turn="1"))
    async with Bench(tmp_path, discord, store=store):
        wanted = "It is over." if goes_on else f"{started}\n\n*✂ interrupted*"
        await until(lambda: discord.texts(chat) == [wanted])
        assert discord.mine(chat)[0]["id"] == left["id"]


SHORT = "Yes."


@pytest.mark.parametrize(
    ("ago", "refers", "shown"),
    [
        pytest.param(600.0, True, [SHORT], id="it answers the very message, so it is the one"),
        pytest.param(
            600.0, False, [SHORT, f"*(may be a repeat)*\n{SHORT}"], id="it may be another, so it has its mark"
        ),
        pytest.param(0.0, False, [SHORT, SHORT], id="it is so new that the nonce would have found it"),
    ],
)
async def test_d5_a_short_reply_whose_fate_is_unknown_is_neither_lost_nor_shown_as_news_twice(
    ago: float, refers: bool, shown: list[str], tmp_path: Path, discord: FakeDiscord
) -> None:
    store, chat = MemoryStore(), discord.direct()
    asked = await discord.say(chat, "ann", "is it so?", told=False, ago=1000.0)
    discord.world.write(chat, discord.me, SHORT, ago=ago, reply_to=asked if refers else None)
    address = Address("discord", discord.me["id"], chat)
    await store.post(Outgoing(f"{address}#turn:1", address, SHORT, turn="1", answers=asked))
    async with Bench(tmp_path, discord, store=store) as bench:
        await until(lambda: bench.runtime.services.outbox.empty(address))
        assert discord.texts(chat) == shown


async def test_nothing_is_kept_of_a_reply_in_doubt_that_is_never_taken(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    store, chat = MemoryStore(), discord.direct()
    address = Address("discord", discord.me["id"], chat)
    discord.world.write(chat, discord.me, SHORT)
    discord.closed_to[chat] = (403, 50007)
    await store.post(Outgoing(f"{address}#turn:1", address, SHORT, turn="1"))
    async with Bench(tmp_path, discord, store=store) as bench:
        adapter: Any = bench.runtime.services.adapters["discord"]
        await until(lambda: discord.calls("POST", f"{chat}/messages"))
        await until(lambda: bench.runtime.services.outbox.empty(address))
        assert discord.calls("GET", f"{chat}/messages")
        assert adapter._doubtful == {}


class Held(RecordingGateway):
    """Commits nothing before `free` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.free = asyncio.Event()

    async def receive(self, message: Message, committed: Callable[[], None] | None = None) -> None:
        await self.free.wait()
        await super().receive(message, committed)


async def test_d8_what_the_agent_posts_hides_no_message_that_is_not_committed_yet(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    path, chat, gateway = tmp_path / "notebook.json", discord.direct(), Held()
    adapter = DiscordAdapter(
        discord.token,
        base_url=discord.base_url,
        gateway_url=discord.gateway_url,
        slash=False,
        notebook=path,
    )
    run = asyncio.create_task(adapter.run(gateway))
    await until(lambda: discord.gateway.connected)
    said = await discord.say(chat, "ann", "hello")
    await until(lambda: Notebook(path).known(chat) is not None)
    address = Address("discord", discord.me["id"], chat)
    sent = await adapter.send(Outgoing("notice", address, "Please wait."))
    await until(lambda: Notebook(path).posted())  # the platform has told of it
    known = Notebook(path).known(chat)
    assert known is not None
    assert int(known.last) < int(said)
    gateway.free.set()
    await until(lambda: Notebook(path).known(chat).last == sent.ids[0])  # type: ignore[union-attr]
    assert len(gateway.messages) == 1
    run.cancel()
    await asyncio.wait({run}, timeout=1.0)


async def test_d8_of_many_known_channels_only_those_with_news_are_read(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    store, rooms = MemoryStore(), [discord.room(f"room-{n}") for n in range(3)]
    async with Bench(tmp_path, discord, store=store) as bench:
        for room in rooms:
            await discord.say(room, "ann", f"{discord.mention} hello")
            await bench.heard(room)
    book = Notebook(tmp_path / "discord" / "notebook.json")
    assert [book.known(room).last for room in rooms] == [discord.mine(room)[-1]["id"] for room in rooms]  # type: ignore[union-attr]
    await discord.say(rooms[1], "ann", f"{discord.mention} are you there?", told=False)
    before = len(discord.requests)
    async with Bench(tmp_path, discord, store=store) as bench:
        await bench.heard(rooms[1], 2)
        read = [
            one.path for one in discord.requests[before:] if one.method == "GET" and "/messages" in one.path
        ]
        assert read == [f"/channels/{rooms[1]}/messages"]


async def test_d8_a_channel_that_was_deleted_is_looked_for_once(tmp_path: Path, discord: FakeDiscord) -> None:
    gone = discord.direct("ann")
    book = Notebook(tmp_path / "discord" / "notebook.json")
    book.meet(gone, f"discord:{discord.me['id']}:{gone}", None, "1")
    book.write()
    del discord.world.channels[gone]
    store, other = MemoryStore(), discord.direct("bob")
    for number in (1, 2):
        async with Bench(tmp_path, discord, store=store) as bench:
            await discord.say(other, "bob", f"hello {number}")
            await bench.heard(other, number)
            known = other if number == 2 else gone  # read in this order
            await until(lambda known=known: discord.calls("GET", f"{known}/messages"))  # type: ignore[misc]
    assert [one.status for one in discord.calls("GET", f"{gone}/messages")] == [404]


async def test_a_notebook_with_nonsense_in_it_does_not_keep_it_from_its_work(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    folder = tmp_path / "discord"
    folder.mkdir()
    known = '{"address": "nowhere", "guild": null, "last": "1"}'
    (folder / "notebook.json").write_text(f'{{"channels": {{"general": {known}, "{chat}": {known}}}}}')
    (folder / "drafts.jsonl").write_text('{"nothing": 1}\n{"address": "nowhere", "key": "k", "text": "t"}\n')
    async with Bench(tmp_path, discord) as bench:
        await discord.say(chat, "ann", "hello")
        assert await bench.heard(chat) == ["you said: hello"]
        assert len(discord.gateway.identified) == 1


async def test_d5_a_reply_that_grew_and_one_behind_a_tool_are_found_by_their_key(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    store, chat, hold = MemoryStore(), discord.direct(), Hold()
    scripts: list[Script] = [
        ["The beginning of an answer", hold, " and its end"],
        ["I look it up for you, one moment please", ToolCall("1", "none", "{}")],
        "Here you are.",
    ]
    async with Bench(tmp_path, discord, scripts[:1], store=store):
        await discord.say(chat, "ann", "go on")
        await until(lambda: discord.texts(chat))
        hold.release()
        await until(lambda: discord.texts(chat) == ["The beginning of an answer and its end"])
    async with Bench(tmp_path, discord, scripts[1:], store=store) as bench:
        assert await found(bench, chat, 1) == (discord.mine(chat)[0]["id"],)
        await discord.say(chat, "ann", "look it up")
        await until(lambda: "Here you are." in discord.texts(chat))
        await until(lambda: bench.runtime.services.outbox.empty(bench.address(chat)))
    async with Bench(tmp_path, discord, store=store) as bench:
        assert await found(bench, chat, 2) == (discord.mine(chat)[2]["id"],)


async def found(bench: Bench, chat: str, turn: int) -> tuple[str, ...] | None:
    """The messages of the reply of this turn, as they are found by its key."""
    address = bench.address(chat)
    sent = await bench.runtime.services.adapters["discord"].find(turn_key(address, turn), address)
    return sent.ids if sent is not None else None
