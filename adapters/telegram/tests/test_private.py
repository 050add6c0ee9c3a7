"""One person and the agent in a private chat."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from hermes_core.errors import ModelError
from hermes_core.testing.model import Hold
from hermes_core.testing.platforms.telegram import Fault, Refusal, TelegramServer, flood
from hermes_telegram import limits


async def test_a_message_gets_a_reply_with_its_formatting_as_entities(
    open_house: Any, telegram: TelegramServer
) -> None:
    async with open_house(["**Hello** `x_y` 🎉 *there*"]) as house:
        await house.up()
        telegram.say("hi")
        await telegram.shown("Hello x_y 🎉 there")
        await house.settled()
    (sent,) = telegram.called("sendMessage")
    assert [(e["type"], e["offset"], e["length"]) for e in sent.parameters["entities"]] == [
        ("bold", 0, 5),
        ("code", 6, 3),
        ("italic", 13, 5),
    ]
    assert house.asked() == [["hi"]]


async def test_d8_what_waited_while_the_program_was_off_is_answered_in_its_order(
    open_house: Any, telegram: TelegramServer
) -> None:
    for word in ("one", "two", "three"):
        telegram.say(word)
    async with open_house(own={"busy": "followup"}) as house:
        await telegram.until(lambda: len(telegram.texts()) == 3)
        await house.settled()
    assert telegram.texts() == ["you said: one", "you said: two", "you said: three"]


async def test_d8_what_is_written_now_is_answered_though_this_clock_is_two_hours_ahead(
    open_house: Any, telegram: TelegramServer
) -> None:
    async with open_house() as house:
        house.runtime.services.wall = lambda: time.time() + 7200
        await house.up()
        telegram.say("hello")
        await telegram.shown("you said: hello")


async def test_case_5_the_same_message_delivered_twice_is_answered_once(
    open_house: Any, telegram: TelegramServer
) -> None:
    async with open_house() as house:
        await house.up()
        message = telegram.say("once")
        await telegram.shown("you said: once")
        telegram.repeat(message)
        telegram.say("after")
        await telegram.shown("you said: after")
        await house.settled()
    assert telegram.texts() == ["you said: once", "you said: after"]


async def test_d1_d7_the_offset_moves_only_behind_what_is_committed(
    open_house: Any, telegram: TelegramServer, store: Any
) -> None:
    class Full:
        """A store whose disk is full for a while."""

        full = True

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def admit(self, entry: Any) -> Any:
            if self.full:
                from hermes_core.errors import StoreUnwritable

                raise StoreUnwritable("The disk is full.")
            return await store.admit(entry)

        async def close(self) -> None:
            """It is the fixture's."""

    disk = Full()
    async with open_house(store=disk) as house:
        await house.up()
        message = telegram.say("keep me")
        update = 1000
        await telegram.until(lambda: len(telegram.called("getUpdates")) >= 3)
        assert telegram.offset <= update  # not confirmed: it is delivered again
        disk.full = False
        await telegram.shown("you said: keep me")
        await telegram.until(lambda: telegram.offset == update + 1)
        await house.settled()
    assert message["text"] == "keep me"
    assert [text for text in telegram.texts() if text.startswith("you said")] == ["you said: keep me"]


async def test_case_9_d9_an_edit_of_a_message_that_waits_replaces_it(
    open_house: Any, telegram: TelegramServer
) -> None:
    hold = Hold()
    async with open_house([["thinking", hold, " done"]], own={"busy": "queue"}) as house:
        await house.up()
        telegram.say("first")
        await hold.reached.wait()
        second = telegram.say("no, I ment")
        await telegram.until(lambda: telegram.chat(7).reactions.get(second["message_id"]) == "👀")
        telegram.edit(second, "no, I meant")
        update = 1002
        await telegram.until(lambda: telegram.offset == update + 1)
        hold.release()
        await telegram.shown("you said: no, I meant")
        await house.settled()
    assert house.asked()[1][-1] == "no, I meant"


async def test_t3_a_native_reply_to_the_agent_is_a_turn_of_its_own_with_the_quoted_reply(
    open_house: Any, telegram: TelegramServer
) -> None:
    async with open_house(["The answer is 42."]) as house:
        await house.up()
        telegram.say("what is it?")
        await telegram.shown("The answer is 42.")
        await house.settled()
        answer = next(m for m in telegram.chat(7).messages.values() if m["from"]["id"] == telegram.id)
        telegram.say("why?", reply_to_message=answer)
        await telegram.until(lambda: len(telegram.texts()) == 2)
        await house.settled()
    assert "42" in house.asked()[1][-1]
    assert house.asked()[1][-1].endswith("why?")


@pytest.mark.parametrize("busy", ["interrupt", "queue", "steer", "followup"])
async def test_case_8_t1_a_paste_that_telegram_split_is_read_as_one(
    open_house: Any, telegram: TelegramServer, busy: str
) -> None:
    async with open_house(["Read."], own={"busy": busy}) as house:
        await house.up()
        telegram.say("a" * 4096)
        telegram.say("b" * 100)
        await telegram.shown("Read.")
        await house.settled()
    (asked,) = house.asked()
    assert "a" * 4096 in asked[0]
    assert "b" * 100 in "".join(asked)


@pytest.mark.parametrize("busy", ["interrupt", "followup"])
async def test_t1_an_album_is_read_as_one_with_all_its_photos(
    open_house: Any, telegram: TelegramServer, busy: str
) -> None:
    def photo(name: str) -> list[dict[str, Any]]:
        return [
            {"file_id": f"{name}-{n}", "file_unique_id": name, "width": n, "height": n, "file_size": n}
            for n in (90, 800)
        ]

    async with open_house(["Nice."], own={"busy": busy}) as house:
        await house.up()
        telegram.say(photo=photo("a"), caption="look", media_group_id="album")
        telegram.say(photo=photo("b"), media_group_id="album")
        await telegram.shown("Nice.")
        await house.settled()
    (request,) = house.model.requests
    files = [one.ref for item in request.items for one in item.attachments]
    assert files == ["a-800", "b-800"]


async def test_r2_a_long_reply_is_split_within_the_limit_and_nothing_is_lost(
    open_house: Any, telegram: TelegramServer
) -> None:
    words = [f"word{n}" for n in range(2000)]
    async with open_house([" ".join(words)]) as house:
        await house.up()
        telegram.say("much")
        await telegram.until(lambda: sum(len(t.split()) for t in telegram.texts()) == len(words))
        await house.settled()
    assert " ".join(telegram.texts()).split() == words
    assert all(len(text) <= 4096 for text in telegram.texts())


async def test_case_38_entities_that_the_platform_refuses_leave_plain_text(
    open_house: Any, telegram: TelegramServer
) -> None:
    telegram.fail("sendMessage", Fault(Refusal(400, "Bad Request: can't parse entities: nobody knows why")))
    async with open_house(["**bold** words"]) as house:
        await house.up()
        telegram.say("hi")
        await telegram.shown("bold words")
        await house.settled()
    assert telegram.texts() == ["bold words"]
    assert not telegram.called("sendMessage")[-1].parameters.get("entities")


async def test_d5_a_send_that_was_cut_after_it_was_done_is_repeated_with_a_mark(
    open_house: Any, telegram: TelegramServer
) -> None:
    telegram.fail("sendMessage", Fault(cut="after"))
    async with open_house(["**Yes.**"]) as house:
        await house.up()
        telegram.say("?")
        await telegram.shown("↻ (may be a repeat)\n\nYes.")
        await house.settled()
    assert telegram.texts() == ["Yes.", "↻ (may be a repeat)\n\nYes."]


@pytest.mark.parametrize(
    "fault", [Fault(flood(1)), Fault(Refusal(500, "Internal Server Error"))], ids=["429", "500"]
)
async def test_d5_a_send_that_was_refused_for_now_is_made_again_without_a_mark(
    open_house: Any, telegram: TelegramServer, fault: Fault
) -> None:
    telegram.fail("sendMessage", fault)
    async with open_house(["Yes."]) as house:
        await house.up()
        telegram.say("?")
        await telegram.shown("Yes.")
        await house.settled()
    assert telegram.texts() == ["Yes."]


async def test_a_person_who_blocked_the_bot_is_given_up_and_others_are_served(
    open_house: Any, telegram: TelegramServer, caplog: pytest.LogCaptureFixture
) -> None:
    telegram.chat(8).blocked = True
    async with open_house() as house:
        await house.up()
        telegram.say("hello", chat=8, user=8)
        await telegram.until(lambda: bool(telegram.called("sendMessage", 8)))
        await house.settled(8)
        telegram.say("hello")
        await telegram.shown("you said: hello")
        await house.settled()
    assert len(telegram.called("sendMessage", 8)) == 1
    assert "bot was blocked by the user" in caplog.text


async def test_who_blocks_the_bot_while_it_writes_is_given_up_too_and_the_log_says_why(
    open_house: Any, telegram: TelegramServer, caplog: pytest.LogCaptureFixture
) -> None:
    hold = Hold()
    telegram.chat(8)
    async with open_house([["Half of it", hold, " and the rest"]]) as house:
        await house.up()
        telegram.say("go on", chat=8, user=8)
        await telegram.shown("Half of it", 8)
        telegram.chat(8).blocked = True
        hold.release()
        await house.settled(8)
    assert len(telegram.called("sendMessage", 8)) <= 2
    assert "bot was blocked by the user" in caplog.text


async def test_e11_r4_a_name_with_an_at_rings_at_nobody(open_house: Any, telegram: TelegramServer) -> None:
    async with open_house(["ask @somebody"]) as house:
        await house.up()
        telegram.say("who?")
        await telegram.shown("ask @\u2060somebody")
        await house.settled()
    assert telegram.texts() == ["ask @\u2060somebody"]


async def test_case_42_typing_is_shown_while_the_agent_thinks_and_not_after_the_reply(
    open_house: Any, telegram: TelegramServer
) -> None:
    hold = Hold()
    async with open_house([[hold, "Done."]]) as house:
        await house.up()
        telegram.say("go")
        await telegram.until(lambda: bool(telegram.called("sendChatAction")))
        hold.release()
        await telegram.shown("Done.")
        await house.settled()
    methods = [one.method for one in telegram.calls]
    assert "sendChatAction" not in methods[methods.index("sendMessage") :]


async def test_case_42_typing_ends_with_a_turn_that_fails(open_house: Any, telegram: TelegramServer) -> None:
    hold = Hold()
    async with open_house([[hold, ModelError("The model is out.")], [Hold()]]) as house:
        await house.up()
        telegram.say("go")
        await telegram.until(lambda: bool(telegram.called("sendChatAction")))
        hold.release()
        await telegram.until(lambda: any("The model is out." in one for one in telegram.texts()))
        await house.settled()
        typed = len(telegram.called("sendChatAction"))
        await asyncio.sleep(limits.TYPING + 0.5)  # when the sign would be due again
    assert len(telegram.called("sendChatAction")) == typed


async def test_case_42_typing_goes_on_behind_a_commands_answer_and_ends_with_a_turn_that_says_nothing(
    open_house: Any, telegram: TelegramServer
) -> None:
    async with open_house([[Hold()]]) as house:
        await house.up()
        telegram.say("go")
        await telegram.until(lambda: bool(telegram.called("sendChatAction")))
        telegram.say("/status")
        await telegram.until(lambda: len(telegram.texts()) == 1)
        await telegram.until(lambda: telegram.typing())
        telegram.say("/stop")
        await telegram.until(lambda: len(telegram.texts()) == 2)
        await house.settled()
        typed = len(telegram.called("sendChatAction"))
        await asyncio.sleep(limits.TYPING + 0.5)
    assert len(telegram.called("sendChatAction")) == typed


async def test_case_37_a_table_is_aligned_text_and_not_pipes(
    open_house: Any, telegram: TelegramServer
) -> None:
    async with open_house(["| name | price |\n|---|---:|\n| tea | 3 |\n| coffee | 12 |"]) as house:
        await house.up()
        telegram.say("a table")
        await telegram.until(lambda: bool(telegram.texts()))
        await house.settled()
    (message,) = telegram.sent()
    assert [one["type"] for one in message["entities"]] == ["pre"]
    assert "|" not in message["text"].replace("│", "")
    rows = [line for line in message["text"].splitlines() if "tea" in line or "coffee" in line]
    assert len({len(row) for row in rows}) == 1


async def test_d8_what_is_older_than_an_hour_is_reported_and_not_answered(
    open_house: Any, telegram: TelegramServer
) -> None:
    telegram.say("yesterday", date=int(time.time()) - 86_400)
    telegram.say("just now", date=int(time.time()) - 60)
    async with open_house() as house:
        await telegram.shown("you said: just now")
        await telegram.until(lambda: any("was not answered" in one for one in telegram.texts()))
        await house.settled()
    assert house.asked() == [["just now"]]


async def test_in_a_private_chat_only_what_is_not_the_latest_message_is_answered_natively(
    open_house: Any, telegram: TelegramServer
) -> None:
    hold = Hold()
    async with open_house([[hold, "First."], "Second."], own={"busy": "followup"}) as house:
        await house.up()
        first = telegram.say("one")
        await hold.reached.wait()
        telegram.say("two")
        await telegram.until(lambda: telegram.offset > 1001)
        hold.release()
        await telegram.shown("Second.")
        await house.settled()
    answered = [one.get("reply_to_message", {}).get("message_id") for one in telegram.sent()]
    assert answered == [first["message_id"], None]
