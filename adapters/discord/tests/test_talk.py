"""What people and the agent say to each other, through discord.py and real sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes_core.adapter import Activity, Progress, Working
from hermes_core.errors import ModelError
from hermes_core.messages import Author, Entry, ToolCall, When
from hermes_core.testing.model import Hold, Script
from hermes_core.testing.platforms.discord import FakeDiscord

from .bench import Bench, until


async def test_a_direct_message_is_answered(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct("ann")
    async with Bench(tmp_path, discord) as bench:
        await discord.say(chat, "ann", "good morning")
        assert await bench.heard(chat) == ["you said: good morning"]


async def test_d8_what_is_written_now_is_answered_though_this_clock_is_two_hours_ahead(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct("ann")
    async with Bench(tmp_path, discord, ahead=7200) as bench:
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


async def test_case_36_a_long_answer_arrives_whole_in_several_messages_r2(
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


async def test_case_42_typing_is_shown_while_a_turn_thinks_and_not_after_it(
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


async def test_case_42_typing_ends_with_a_turn_that_fails_or_ends_without_a_word(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat, hold = discord.direct(), Hold()
    async with Bench(tmp_path, discord, [[hold, ModelError("The model is out.")]]) as bench:
        adapter: Any = bench.runtime.services.adapters["discord"]
        await discord.say(chat, "ann", "think")
        await until(lambda: discord.typing == [chat])
        hold.release()
        await until(lambda: "The model is out." in "".join(discord.texts(chat)))
        assert adapter._writing._typist._typing.due(1e12)[0] == []
        adapter.show(bench.address(chat), Working(Activity("tool")))
        await until(lambda: discord.typing == [chat, chat])
        adapter.show(bench.address(chat), Working(Activity("idle")))
        assert adapter._writing._typist._typing.due(1e12)[0] == []


async def test_case_33_sending_editing_and_typing_together_stay_within_what_a_channel_is_allowed(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat, holds = discord.direct(), [Hold() for _ in range(8)]
    script = [one for hold in holds for one in (hold, "more and more words ")]
    async with Bench(tmp_path, discord, [script], settings={"busy": "queue"}) as bench:
        await discord.say(chat, "ann", "go on")
        for number, hold in enumerate(holds):
            await hold.reached.wait()
            for job in range(3):
                bench.runtime.services.show(bench.address(chat), Progress(f"{job}", f"job {job}: {number}"))
            await discord.say(chat, "ann", f"and {number}")
            hold.release()
        await until(lambda: "and 7" in bench.model.texts()[-1], 30.0)
        await until(lambda: bench.runtime.services.outbox.empty(bench.address(chat)), 30.0)
        wanted = "more and more words " * len(holds)
        assert wanted.strip() in discord.texts(chat)
        assert not [one for one in discord.requests if one.status == 429]


@pytest.mark.parametrize("trouble", ["limited", "cut before", "cut after", "503"])
async def test_case_35_whatever_meets_the_last_edit_the_whole_text_stands_there_once(
    trouble: str, tmp_path: Path, discord: FakeDiscord
) -> None:
    chat, hold = discord.direct(), Hold()
    async with Bench(tmp_path, discord, [["This is the beginning of it", hold, " and this is its end."]]):
        await discord.say(chat, "ann", "go on")
        await until(lambda: discord.texts(chat) == ["This is the beginning of it"])
        if trouble == "limited":
            discord.limit("PATCH", "/messages", 0.3)
        elif trouble == "503":
            discord.fail("PATCH", "/messages", 503, {"message": "503: Service Unavailable", "code": 0})
        else:
            discord.fail("PATCH", "/messages", cut=trouble.removeprefix("cut "))
        hold.release()
        await until(lambda: discord.texts(chat) == ["This is the beginning of it and this is its end."])
        assert not discord.faults


async def test_case_37_a_table_is_aligned_text_and_not_pipes(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    table = "| name | price |\n|---|---:|\n| tea | 3 |\n| coffee | 12 |"
    async with Bench(tmp_path, discord, [table]) as bench:
        await discord.say(chat, "ann", "what do you have?")
        (shown,) = await bench.heard(chat)
        assert shown.startswith("```")
        lines = [line for line in shown.splitlines() if "3" in line or "12" in line]
        assert lines[0].index("3") + 1 == lines[1].index("12") + 2
        assert "|---" not in shown


async def test_case_38_what_looks_like_broken_markup_is_shown_as_it_was_meant(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord, ["**open and `never closed, 2 * 3 < [7](, C:\\dir_name_x"]) as bench:
        await discord.say(chat, "ann", "say something odd")
        (shown,) = await bench.heard(chat)
        assert shown.replace("\\", "") == "**open and `never closed, 2 * 3 < [7](, C:dir_name_x"


async def test_case_35_a_text_whose_first_post_was_taken_and_not_confirmed_has_its_end_all_the_same(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat, hold = discord.direct(), Hold()
    discord.fail("POST", "/messages", cut="after")
    async with Bench(tmp_path, discord, [["This is the beginning of it", hold, " and this is its end."]]):
        await discord.say(chat, "ann", "go on")
        await until(lambda: discord.texts(chat) == ["This is the beginning of it"])
        hold.release()
        await until(lambda: discord.texts(chat) == ["This is the beginning of it and this is its end."])
        assert len(discord.mine(chat)) == 1


@pytest.mark.parametrize("busy", ["queue", "followup"])
async def test_a_reply_that_grows_answers_the_message_that_its_turn_is_for(
    busy: str, tmp_path: Path, discord: FakeDiscord
) -> None:
    chat, holds = discord.direct(), [Hold() for _ in range(3)]
    scripts: list[Script] = [
        [f"This is number {n} of several answers", hold, "."] for n, hold in enumerate(holds)
    ]
    async with Bench(tmp_path, discord, scripts, settings={"busy": busy}):
        asked = [await discord.say(chat, "ann", "one")]
        await until(lambda: len(discord.texts(chat)) == 1)
        asked += [await discord.say(chat, "ann", text) for text in ("two", "three")]
        await until(lambda: len(discord.reactions) == 2)
        turns = 2 if busy == "queue" else 3
        for number, hold in enumerate(holds[:turns], 1):
            await until(lambda number=number: len(discord.texts(chat)) == number)  # type: ignore[misc]
            hold.release()
        await until(lambda: sum(one.endswith(".") for one in discord.texts(chat)) == turns)
        answered = [one.get("message_reference", {}).get("message_id") for one in discord.mine(chat)]
        assert answered == ([asked[0], asked[2]] if busy == "queue" else [asked[0], None, asked[2]])


async def test_what_nobody_asked_for_answers_no_message(tmp_path: Path, discord: FakeDiscord) -> None:
    chat, hold = discord.direct(), Hold()
    async with Bench(tmp_path, discord, ["done", ["The job that you began has ended", hold]]) as bench:
        await discord.say(chat, "ann", "begin a job")
        await bench.heard(chat)
        event = Entry("job:1:done", bench.address(chat), Author(""), "[event] job_completed", When.EVENT)
        bench.runtime.router.deliver((await bench.store.admit(event)).entry)
        await bench.heard(chat, 2)
        hold.release()
        assert "message_reference" not in discord.mine(chat)[1]
