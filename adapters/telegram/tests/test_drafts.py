"""Replies that are shown while they are written (R3)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hermes_core.adapter import Progress
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Address, ToolCall
from hermes_core.testing.model import Hold
from hermes_core.testing.platforms.telegram import Fault, Limits, Refusal, TelegramServer, flood
from hermes_core.tools import Tool, tool
from hermes_core.writing import Doubt, Draft, Journal
from hermes_telegram.client import make_bot


@tool
async def look() -> str:
    """Look at the thing."""
    return "green"


async def test_r3_a_reply_appears_while_it_is_written_and_ends_as_one_whole_message(
    open_house: Any, telegram: TelegramServer
) -> None:
    first, second = Hold(), Hold()
    async with open_house([["This is **the", first, " beginning**", second, ", and the end."]]) as house:
        await house.up()
        telegram.say("tell me")
        await telegram.shown("This is **the")
        first.release()
        await telegram.shown("This is **the beginning**")
        second.release()
        await telegram.shown("This is the beginning, and the end.")
        await house.settled()
    assert telegram.texts() == ["This is the beginning, and the end."]
    assert all(one.outcome == "ok" for one in telegram.called("editMessageText"))


async def test_i5_an_interrupt_closes_the_draft_with_a_mark(
    open_house: Any, telegram: TelegramServer
) -> None:
    hold = Hold()
    async with open_house([["A long story", hold]]) as house:
        await house.up()
        telegram.say("tell me")
        await telegram.shown("A long story")
        telegram.say("/stop")
        await telegram.shown("A long story\n\n✂ interrupted")
        await house.settled()
    assert telegram.texts()[0] == "A long story\n\n✂ interrupted"


async def test_a_draft_that_was_deleted_meanwhile_is_posted_anew(
    open_house: Any, telegram: TelegramServer
) -> None:
    hold = Hold()
    async with open_house([["Some text", hold, " and more."]]) as house:
        await house.up()
        telegram.say("go")
        await telegram.shown("Some text")
        telegram.fail("editMessageText", Fault(Refusal(400, "Bad Request: message to edit not found")))
        hold.release()
        await telegram.shown("Some text and more.")
        await house.settled()


async def test_case_35_a_rate_limit_slows_the_draft_and_never_loses_the_end(
    open_house: Any, telegram: TelegramServer
) -> None:
    hold = Hold()
    async with open_house([["Slow text", hold, " with an end."]]) as house:
        await house.up()
        telegram.say("go")
        await telegram.shown("Slow text")
        telegram.fail("editMessageText", Fault(flood(1)), Fault(flood(1)))
        hold.release()
        await telegram.shown("Slow text with an end.")
        await house.settled()
    assert telegram.texts() == ["Slow text with an end."]


async def test_case_33_what_is_sent_edited_and_typed_in_one_chat_keeps_the_platforms_limits(
    open_house: Any, telegram: TelegramServer
) -> None:
    strict = TelegramServer(limits=Limits(chat=3, group=20, everywhere=30))
    text = [f"word{n} " for n in range(300)]
    async with strict as server:
        hold = Hold()
        async with open_house(
            [[*text[:100], hold, *text[100:]], "two", "three"], server=server, own={"paced": True}
        ) as house:
            await house.up()
            server.say("one")
            await server.until(lambda: bool(server.texts()))
            hold.release()
            await server.shown("".join(text).strip())
            for word in ("two", "three"):
                server.say(word)
                await server.shown(word)
            await house.settled()
    assert [one.outcome for one in server.calls if one.outcome not in ("ok", "cut")] == []
    times = [one.at for one in server.calls if one.method in ("sendMessage", "editMessageText")]
    assert all(b - a > 0.9 for a, b in itertools.pairwise(times[3:]))


async def test_case_34_one_chats_flood_wait_of_200_s_does_not_stop_another_chat(
    open_house: Any, telegram: TelegramServer
) -> None:
    telegram.chat(8)
    telegram.fail("sendMessage", Fault(flood(200)))
    async with open_house() as house:
        await house.up()
        telegram.say("hello", chat=8, user=8)
        await telegram.until(lambda: len(telegram.called("sendMessage", 8)) == 1)
        telegram.say("hello")
        await telegram.shown("you said: hello", within=3)
        assert telegram.texts(8) == []


async def test_r3_a_draft_of_a_program_that_was_killed_gets_its_end_in_the_same_message(
    open_house: Any, telegram: TelegramServer, store: Any
) -> None:
    class Kept:
        """The store of both houses."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def close(self) -> None:
            """It is the fixture's."""

    hold = Hold()
    async with open_house([["The beginning", hold]], store=Kept()) as house:
        await house.up()
        telegram.say("tell me")
        await telegram.shown("The beginning")
    async with open_house(["The whole story."], store=Kept()) as house:
        await telegram.shown("The whole story.")
        await house.settled()
    assert telegram.texts() == ["The whole story."]


async def test_a_text_before_a_tool_call_stands_as_a_message_of_its_own(
    open_house: Any, telegram: TelegramServer
) -> None:
    hold = Hold()

    class Tools:
        """One tool."""

        @hookimpl
        def hermes_tools(self) -> Iterable[Tool]:
            return [look]

    scripts = [["Let me **look**.", hold, ToolCall("c1", "look", "{}")], "It is *green*."]
    async with open_house(scripts, plugins=[Tools()]) as house:
        await house.up()
        telegram.say("what colour?")
        await telegram.shown("Let me **look**.")
        hold.release()
        await telegram.until(lambda: telegram.texts() == ["Let me look.", "It is green."])
        await house.settled()
    assert telegram.texts() == ["Let me look.", "It is green."]


async def test_a_command_is_answered_while_a_draft_is_being_written(
    open_house: Any, telegram: TelegramServer
) -> None:
    hold = Hold()
    async with open_house([["A story", hold, " ends."]]) as house:
        await house.up()
        telegram.say("tell me")
        await telegram.shown("A story")
        telegram.say("/status")
        await telegram.until(lambda: len(telegram.texts()) == 2)
        assert telegram.texts()[0] == "A story"
        hold.release()
        await telegram.shown("A story ends.")
        await house.settled()
    assert telegram.texts()[0] == "A story ends."


async def test_in_a_group_the_draft_answers_the_message_that_began_the_turn(
    open_house: Any, telegram: TelegramServer
) -> None:
    hold = Hold()
    async with open_house([["A story", hold, " ends."]]) as house:
        await house.up()
        asked = telegram.say("@hermes_bot tell us", -100)
        await telegram.shown("A story", -100)
        hold.release()
        await telegram.shown("A story ends.", -100)
        await house.settled(-100)
    (sent,) = telegram.called("sendMessage", -100)
    assert sent.parameters["reply_parameters"]["message_id"] == asked["message_id"]


async def test_d5_replies_that_come_faster_than_they_are_sent_keep_their_order_and_stand_once(
    open_house: Any, telegram: TelegramServer
) -> None:
    telegram.fail("sendMessage", Fault(flood(1)))
    async with open_house(own={"busy": "followup"}) as house:
        await house.up()
        for n in range(6):
            telegram.say(f"number {n}")
        await telegram.until(lambda: len(telegram.texts()) == 6)
        await house.settled()
    assert telegram.texts() == [f"you said: number {n}" for n in range(6)]


async def test_j13_the_line_of_a_job_is_edited_in_place(open_house: Any, telegram: TelegramServer) -> None:
    async with open_house() as house:
        await house.up()
        adapter = house.runtime.services.adapters["telegram"]
        place = Address("telegram", "42", "7")
        adapter.show(place, Progress("j1", "building, 10%"))
        await telegram.shown("building, 10%")
        adapter.show(place, Progress("j1", "building, 50%"))
        adapter.show(place, Progress("j1", "built", done=True))
        await telegram.shown("built")
    assert telegram.texts() == ["built"]


async def test_t6_a_message_that_waits_gets_a_reaction(open_house: Any, telegram: TelegramServer) -> None:
    hold = Hold()
    async with open_house([["A story", hold, " ends."]], own={"busy": "steer"}) as house:
        await house.up()
        telegram.say("tell me")
        await telegram.shown("A story")
        hint = telegram.say("make it short")
        await telegram.until(lambda: telegram.chat(7).reactions.get(hint["message_id"]) == "✍")
        hold.release()
        await telegram.until(lambda: len(house.asked()) == 2)
        await house.settled()
    assert "make it short" in house.asked()[1][-1]


async def test_d5_a_text_whose_first_message_may_be_out_when_it_is_killed_comes_with_a_mark(
    open_house: Any, telegram: TelegramServer, store: Any, tmp_path: Path
) -> None:
    class Kept:
        """The store of both houses."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def close(self) -> None:
            """It is the fixture's."""

    async with open_house([["The beginning", Hold()]], store=Kept()) as house:
        await house.up()
        telegram.say("tell me")
        await telegram.shown("The beginning")
    journal = Journal(tmp_path / "telegram" / "42.drafts")  # killed before Telegram's answer was read
    doubt = Doubt("The beginning", 0.0)
    journal.note(Draft("telegram:42:7", "telegram:42:7#turn:1", text="The beginning", doubt=doubt))
    async with open_house(["The **whole** story."], store=Kept()) as house:
        await telegram.shown("↻ (may be a repeat)\n\nThe whole story.")
        await house.settled()
    assert len(telegram.texts()) == 2


async def test_d5_a_reply_that_waits_for_the_end_of_a_429_at_a_stop_comes_without_a_mark(
    open_house: Any, telegram: TelegramServer, store: Any
) -> None:
    class Kept:
        """The store of both houses."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def close(self) -> None:
            """It is the fixture's."""

    telegram.fail("sendMessage", Fault(flood(60)))
    async with open_house(["The whole story, as it is."], store=Kept()) as house:
        await house.up()
        telegram.say("tell me")
        await telegram.until(lambda: bool(telegram.called("sendMessage")))
        outbox = house.runtime.services.outbox
        await telegram.until(lambda: not outbox.empty(Address("telegram", "42", "7")))
        assert telegram.texts() == []
    async with open_house(store=Kept()) as house:
        await telegram.shown("The whole story, as it is.")
        await house.settled()
    assert telegram.texts() == ["The whole story, as it is."]


async def test_r3_a_draft_that_no_turn_goes_on_with_is_closed_though_nobody_says_anything(
    open_house: Any, telegram: TelegramServer, tmp_path: Path
) -> None:
    half, whole = await two_texts(telegram)
    journal = Journal(tmp_path / "telegram" / "42.drafts")
    journal.note(Draft("telegram:42:7", "telegram:42:7#turn:5", ids=(half,), text="Half of it"))
    journal.note(Draft("telegram:42:8", "telegram:42:8#turn:6", ids=(whole,), whole=True))
    async with open_house() as house:
        await house.up()
        await telegram.shown("Half of it\n\n✂ interrupted")
    assert telegram.texts(8) == ["All of it"]
    assert not any(draft.text for draft in Journal(tmp_path / "telegram" / "42.drafts").drafts())


async def test_r3_a_reply_that_was_whole_as_it_was_drafted_is_not_taken_for_a_half_one_later(
    open_house: Any, telegram: TelegramServer, tmp_path: Path
) -> None:
    hold = Hold()
    async with open_house([["All of it.", hold]]) as house:
        await house.up()
        telegram.say("tell me")
        await telegram.shown("All of it.")
        hold.release()
        await house.settled()
    assert not telegram.called("editMessageText")
    drafts = Journal(tmp_path / "telegram" / "42.drafts").drafts()
    assert [(draft.text, len(draft.ids)) for draft in drafts] == [("", 1)]
    async with open_house() as house:
        await house.up()
        telegram.say("and now?")
        await telegram.shown("you said: and now?")
        await house.settled()
    assert telegram.texts()[0] == "All of it."


async def two_texts(telegram: TelegramServer) -> tuple[str, str]:
    """Two messages of an earlier run of the bot, in two chats; gives their ids."""
    bot, _ = make_bot(telegram.token, telegram.base_url)
    telegram.chat(8)
    async with bot:
        half = await bot.send_message(7, "Half of it")
        whole = await bot.send_message(8, "All of it")
    return str(half.message_id), str(whole.message_id)
