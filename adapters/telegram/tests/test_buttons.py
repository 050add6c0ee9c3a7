"""Buttons under a message: pressing one is as if the person had typed what it sends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import pytest
import telegram as telegram_library

from hermes_core.errors import StoreUnwritable
from hermes_core.messages import Address, Choice, Message, Outgoing
from hermes_core.testing.platforms.telegram import TelegramServer
from hermes_telegram.convert import Me
from hermes_telegram.intake import Intake
from hermes_telegram.memory import Memory

CHOICES = (Choice("Yes, do it", "/status"), Choice("No", "no, do not " + "x" * 49))


async def offer(house: Any, address: Address) -> None:
    adapter = house.runtime.services.adapters["telegram"]
    await adapter.send(Outgoing("k", address, "Shall I? Type /status or no.", choices=CHOICES))


async def test_a_press_is_what_the_person_would_have_typed_and_is_answered(
    open_house: Any, telegram: TelegramServer
) -> None:
    async with open_house() as house:
        await house.up()
        await offer(house, Address("telegram", "42", "7"))
        (message,) = telegram.sent()
        rows = message["reply_markup"]["inline_keyboard"]
        assert [[one["text"] for one in row] for row in rows] == [["Yes, do it"], ["No"]]
        query = telegram.press(message, "No")
        await telegram.shown(f"you said: {CHOICES[1].send}")
        await telegram.until(lambda: telegram.presses[query] == "")
        command = telegram.press(message, "Yes, do it")
        await telegram.until(lambda: len(telegram.sent()) == 3)
        await telegram.until(lambda: telegram.presses[command] == "")
        await house.settled()
    assert house.asked() == [[CHOICES[1].send]]


@pytest.mark.parametrize(
    ("chat", "topic"), [(-100, None), (-200, 5), (-200, 1)], ids=["group", "topic", "general"]
)
async def test_a_press_in_a_group_or_topic_is_answered_there(
    open_house: Any, telegram: TelegramServer, chat: int, topic: int | None
) -> None:
    telegram.chat(chat, forum=topic is not None, topics={5} if topic else set())
    place = Address("telegram", "42", str(chat), str(topic) if topic else None)
    async with open_house(["Fine."]) as house:
        await house.up()
        await offer(house, place)
        query = telegram.press(telegram.sent(chat)[0], "No")
        await telegram.shown("Fine.", chat)
        await telegram.until(lambda: telegram.presses[query] == "")
        await house.settled(chat, topic)
    assert telegram.sent(chat)[1].get("message_thread_id") == telegram.sent(chat)[0].get("message_thread_id")


async def test_a_press_of_a_stranger_is_answered_and_does_nothing(
    open_house: Any, telegram: TelegramServer
) -> None:
    async with open_house(access={"allow": [], "owners": ["telegram:7"]}) as house:
        await house.up()
        telegram.chat(-100)
        await offer(house, Address("telegram", "42", "-100"))
        query = telegram.press(telegram.sent(-100)[0], "No", user=66)
        await telegram.until(lambda: telegram.presses[query] == "")
        telegram.say("hello")
        await telegram.shown("you said: hello")
        await house.settled()
    assert house.asked() == [["hello"]]


async def test_a_press_that_is_delivered_twice_counts_once(open_house: Any, telegram: TelegramServer) -> None:
    async with open_house(own={"busy": "followup"}) as house:
        await house.up()
        await offer(house, Address("telegram", "42", "7"))
        telegram.press(telegram.sent()[0], "No")
        await telegram.shown(f"you said: {CHOICES[1].send}")
        telegram.redeliver()
        telegram.say("after")
        await telegram.shown("you said: after")
        await house.settled()
    assert [one[-1] for one in house.asked()] == [CHOICES[1].send, "after"]


async def test_d1_a_press_that_is_not_kept_is_not_answered_and_comes_again(
    open_house: Any, telegram: TelegramServer, store: Any
) -> None:
    class Full:
        """A store whose disk is full for a while."""

        full = False

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def admit(self, entry: Any) -> Any:
            if self.full:
                raise StoreUnwritable("The disk is full.")
            return await store.admit(entry)

        async def close(self) -> None:
            """It is the fixture's."""

    disk = Full()
    async with open_house(store=disk) as house:
        await house.up()
        await offer(house, Address("telegram", "42", "7"))
        disk.full = True
        query = telegram.press(telegram.sent()[0], "No")
        polls = len(telegram.called("getUpdates"))
        await telegram.until(lambda: len(telegram.called("getUpdates")) >= polls + 2)
        assert telegram.presses[query] is None
        disk.full = False
        await telegram.shown(f"you said: {CHOICES[1].send}")
        await telegram.until(lambda: telegram.presses[query] == "")
        await house.settled()


async def test_an_old_button_whose_topic_is_not_told_any_more_says_so(
    open_house: Any, telegram: TelegramServer
) -> None:
    telegram.chat(-200, forum=True, topics={5})
    async with open_house() as house:
        await house.up()
        await offer(house, Address("telegram", "42", "-200", "5"))
        await offer(house, Address("telegram", "42", "7"))
        old = telegram.press(telegram.sent(-200)[0], "No", old=True)
        await telegram.until(lambda: "too old" in (telegram.presses[old] or ""))
        telegram.press(telegram.sent()[0], "No", old=True)  # here the chat alone says where
        await telegram.shown(f"you said: {CHOICES[1].send}")
        await house.settled()
    assert len(telegram.sent(-200)) == 1


async def test_the_time_of_a_press_is_when_it_comes_in_and_it_answers_nothing_natively() -> None:
    """Telegram does not say when a button was pressed."""
    taken: list[Message] = []
    answered: list[str] = []

    class Keeper:
        """A gateway that keeps what it is given."""

        async def receive(self, message: Message, committed: Callable[[], None]) -> None:
            taken.append(message)
            committed()

    class Answering:
        """A client that keeps what it would answer."""

        async def pressed(self, query: str, note: str = "") -> None:
            answered.append(query)

    async with asyncio.TaskGroup() as group:
        me, place = Me(42, "hermes_bot"), Memory(None)
        intake = Intake(
            cast("Any", Keeper()),
            cast("Any", Answering()),
            me,
            place,
            group.create_task,
            lambda address, message: None,
        )
        under = {"message_id": 3, "date": 1, "text": "Shall I?", "chat": {"id": 7, "type": "private"}}
        query = {"id": "q9", "chat_instance": "1", "data": "yes", "message": under}
        query["from"] = {"id": 7, "is_bot": False, "first_name": "Ann"}
        update = telegram_library.Update.de_json({"update_id": 1, "callback_query": query}, None)
        before = time.time()
        assert await intake.take((update,)) is None
    (message,) = taken
    assert (message.id, message.text, message.reply_to, message.author.id) == ("press:q9", "yes", None, "7")
    assert message.sent is not None
    assert before <= message.sent <= time.time()
    assert answered == ["q9"]
