"""What people and the agent say to each other, through discord.py and real sockets."""

from __future__ import annotations

from pathlib import Path

from hermes_core.adapter import Progress
from hermes_core.messages import Said, ToolCall
from hermes_core.testing.model import Hold, Script
from hermes_core.testing.platforms.discord import FakeDiscord

from .bench import Bench, until


async def test_a_direct_message_is_answered(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct("ann")
    async with Bench(tmp_path, discord) as bench:
        await discord.say(chat, "ann", "good morning")
        assert await bench.heard(chat) == ["you said: good morning"]


async def test_in_a_room_only_what_addresses_the_agent_is_taken_x4(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    room = discord.room()
    async with Bench(tmp_path, discord) as bench:
        await discord.say(room, "bob", "did you see the game?")
        await discord.say(room, "robo", f"{discord.mention} beep", bot=True)
        await discord.say(room, "ann", f"{discord.mention} hello <@{discord.person('bob')['id']}>")
        assert await bench.heard(room) == ["you said: hello @Bob"]
        asked = discord.mine(room)[0]["id"]
        await discord.say(room, "bob", "no, yes", reply_to=asked)
        assert (await bench.heard(room, 2))[1].endswith("no, yes")
        assert len(bench.model.requests) == 2
        answered = [one["message_reference"]["message_id"] for one in discord.mine(room)]
        assert discord.world.messages[room][answered[0]]["author"]["username"] == "ann"


async def test_a_thread_is_a_conversation_of_its_own(tmp_path: Path, discord: FakeDiscord) -> None:
    room = discord.room()
    thread = discord.thread(room)
    async with Bench(tmp_path, discord) as bench:
        await discord.say(room, "ann", f"{discord.mention} in the room")
        await discord.say(thread, "ann", f"{discord.mention} in the thread")
        assert (await bench.heard(thread))[0].endswith("in the thread")
        assert (await bench.heard(room))[0].endswith("in the room")
        records = await bench.store.conversations()
        assert {one.address for one in records} == {bench.address(room), bench.address(room, thread)}


async def test_a_thread_that_nobody_announced_is_looked_up(tmp_path: Path, discord: FakeDiscord) -> None:
    room = discord.room()
    async with Bench(tmp_path, discord) as bench:
        thread = discord.thread(room)  # after the guild was told
        await discord.say(thread, "ann", f"{discord.mention} hello")
        await bench.heard(thread)
        assert [one.address for one in await bench.store.conversations()] == [bench.address(room, thread)]


async def test_a_long_answer_arrives_whole_in_several_messages_r2(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    lines = "\n\n".join(f"Paragraph {n}: " + "word " * 60 for n in range(20))
    code = "```python\n" + "\n".join(f"x{n} = {n}" for n in range(300)) + "\n```"
    async with Bench(tmp_path, discord, [f"{lines}\n\n{code}"]) as bench:
        await discord.say(chat, "ann", "tell me everything")
        await until(lambda: "x299 = 299" in "".join(discord.texts(chat)), 30.0)
        await until(lambda: bench.runtime.services.outbox.empty(bench.address(chat)))
        shown = discord.texts(chat)
        assert len(shown) > 3
        assert all(len(one) <= 2000 and one.count("```") % 2 == 0 for one in shown)
        assert all(f"Paragraph {n}:" in "".join(shown) for n in range(20))
        assert not [one for one in discord.requests if one.status >= 400]


async def test_nothing_that_the_model_writes_pings_anybody_r4(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord, ["@everyone look, <@700000000000000001>"]) as bench:
        await discord.say(chat, "ann", "shout")
        await bench.heard(chat)
        sent = [one.body for one in discord.calls("POST", "/messages")]
        assert sent
        assert all(one["allowed_mentions"] == {"parse": []} for one in sent)


async def test_a_reply_grows_while_it_is_written_and_ends_whole(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    hold = Hold()
    async with Bench(
        tmp_path, discord, [["This is the beginning of an answer", hold, " and **this** its end."]]
    ):
        await discord.say(chat, "ann", "go on")
        await until(lambda: discord.texts(chat) == ["This is the beginning of an answer"])
        hold.release()
        await until(
            lambda: discord.texts(chat) == ["This is the beginning of an answer and **this** its end."]
        )
        assert len(discord.mine(chat)) == 1


async def test_an_interrupted_reply_is_closed_with_a_mark_i5(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord, [["This will never come to an end", Hold()]]):
        await discord.say(chat, "ann", "go on")
        await until(lambda: discord.texts(chat) == ["This will never come to an end"])
        await discord.say(chat, "ann", "no, stop")
        await until(lambda: len(discord.texts(chat)) == 2)
        await until(lambda: discord.texts(chat)[0].endswith("*✂ interrupted*"))
        assert discord.texts(chat)[1] == "you said: no, stop"


async def test_an_edit_or_delete_of_a_message_that_waits_is_heeded_d9(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    hold = Hold()
    async with Bench(
        tmp_path, discord, [["One moment please, I write", hold]], settings={"busy": "queue"}
    ) as b:
        await discord.say(chat, "ann", "first")
        await hold.reached.wait()
        second = await discord.say(chat, "ann", "second")
        third = await discord.say(chat, "ann", "third")
        await until(lambda: len(discord.reactions) == 2)
        await discord.edit(chat, second, "second, better")
        await discord.delete(chat, third)
        await discord.say(chat, "ann", "fourth")
        await until(lambda: len(discord.reactions) == 3)
        hold.release()
        await until(lambda: len(b.model.requests) == 2)
        assert b.model.texts()[-1] == "second, better\nfourth"
        assert {emoji for _, emoji in discord.reactions} == {"🕓"}


async def test_files_are_handed_in_with_their_names_and_sizes(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    file = {"id": "1", "filename": "notes.txt", "size": 12, "content_type": "text/plain"}
    file |= {"url": "https://cdn.example/notes.txt", "proxy_url": "https://cdn.example/notes.txt"}
    async with Bench(tmp_path, discord) as bench:
        await discord.say(chat, "ann", "read this", fields={"attachments": [file]})
        await bench.heard(chat)
        said = bench.model.requests[0].items[0]
        assert isinstance(said, Said)
        attached = said.attachments[0]
        assert (attached.name, attached.media_type, attached.size) == ("notes.txt", "text/plain", 12)
        assert attached.ref == "https://cdn.example/notes.txt"


async def test_a_job_is_one_line_that_is_edited_in_place_j13(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        services, address = bench.runtime.services, bench.address(chat)
        for text, done in (("job a: 10 %", False), ("job a: 60 %", False), ("job a: done", True)):
            services.show(address, Progress("a", text, done))
            await until(lambda text=text: discord.texts(chat) == [text])  # type: ignore[misc]
        assert len(discord.calls("POST", "/messages")) == 1


async def test_a_tool_in_between_gives_two_texts_each_whole(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    call = ToolCall("1", "no_such_tool", "{}")
    scripts: list[Script] = [
        ["Let me look that up for you, one moment", call],
        "It is **Tuesday**, all day long.",
    ]
    async with Bench(tmp_path, discord, scripts):
        await discord.say(chat, "ann", "which day is it?")
        await until(lambda: len(discord.texts(chat)) == 2)
        await until(lambda: discord.texts(chat)[1] == "It is **Tuesday**, all day long.")
        assert discord.texts(chat)[0] == "Let me look that up for you, one moment"


async def test_typing_is_shown_while_a_turn_thinks_and_not_after_it(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    hold = Hold()
    async with Bench(tmp_path, discord, [[hold, "here"]]):
        await discord.say(chat, "ann", "think")
        await until(lambda: discord.typing == [chat])
        hold.release()
        await until(lambda: discord.texts(chat) == ["here"])
        assert discord.typing == [chat]
