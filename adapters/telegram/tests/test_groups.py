"""Groups, forum topics and what becomes of them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from hermes_core.commands import Context, command
from hermes_core.hookspecs import hookimpl
from hermes_core.rules import Rules
from hermes_core.testing.model import Hold
from hermes_core.testing.platforms.telegram import TelegramServer

GROUP = -100
FORUM = -200
BOT = {"id": 9, "is_bot": True, "first_name": "Bot"}


@pytest.fixture
def open_eyes() -> TelegramServer:
    """A Telegram on which the bot sees everything in groups: privacy mode is off."""
    return TelegramServer(privacy=False)


async def test_x4_in_a_group_it_answers_mentions_replies_and_commands_and_nothing_else(
    open_house: Any, open_eyes: TelegramServer
) -> None:
    async with open_eyes as telegram, open_house(server=telegram, own={"busy": "followup"}) as house:
        await house.up()
        telegram.say("just talking", GROUP)
        telegram.say("/other@another_bot now", GROUP)
        telegram.say("/nobodys", GROUP)
        telegram.say("@someone hi", GROUP, entities=[{"type": "mention", "offset": 0, "length": 8}])
        asked = telegram.say("@hermes_bot, who are you?", GROUP)
        await telegram.until(lambda: len(telegram.texts(GROUP)) == 1)
        answer = next(m for m in telegram.chat(GROUP).messages.values() if m["from"]["id"] == telegram.id)
        telegram.say("and why?", GROUP, reply_to_message=answer)
        await telegram.until(lambda: len(telegram.texts(GROUP)) == 2)
        telegram.say("/status@Hermes_Bot", GROUP)
        await telegram.until(lambda: len(telegram.texts(GROUP)) == 3)
        await house.settled(GROUP)
        last = telegram.offset
    assert [one[-1].splitlines()[-1] for one in house.asked()] == ["who are you?", "and why?"]
    assert answer["reply_to_message"]["message_id"] == asked["message_id"]
    assert last > 1000 + 5  # what it passed over is confirmed all the same


async def test_x4_another_bot_does_not_set_it_off(open_house: Any, open_eyes: TelegramServer) -> None:
    async with open_eyes as telegram, open_house(server=telegram) as house:
        await house.up()
        telegram.say("@hermes_bot hello", GROUP, sender=BOT)
        telegram.say("@hermes_bot hello from a person", GROUP)
        await telegram.until(lambda: len(telegram.texts(GROUP)) == 1)
        await house.settled(GROUP)
    assert len(house.asked()) == 1


async def test_the_rest_of_a_paste_belongs_to_its_beginning_though_it_mentions_nobody(
    open_house: Any, open_eyes: TelegramServer
) -> None:
    async with open_eyes as telegram, open_house(["Read."], server=telegram) as house:
        await house.up()
        telegram.say("@hermes_bot " + "a" * 4000, GROUP)
        telegram.say("the end", GROUP)
        await telegram.shown("Read.", GROUP)
        await house.settled(GROUP)
    assert "the end" in "".join(house.asked()[0])


async def test_case_39_a_reply_in_a_topic_stays_in_it_and_topics_do_not_share_a_conversation(
    open_house: Any, telegram: TelegramServer
) -> None:
    telegram.chat(FORUM, forum=True, topics={5, 6})
    async with open_house() as house:
        await house.up()
        for topic in (5, 6):
            telegram.say(f"@hermes_bot in {topic}", FORUM, message_thread_id=topic, is_topic_message=True)
        await telegram.until(lambda: len(telegram.texts(FORUM)) == 2)
        await house.settled(FORUM, 5)
        await house.settled(FORUM, 6)
    assert [t.splitlines()[-1] for t in telegram.texts(FORUM, 5)] == ["you said: in 5"]
    assert [t.splitlines()[-1] for t in telegram.texts(FORUM, 6)] == ["you said: in 6"]


async def test_case_39_the_general_topic_is_named_for_typing_and_never_for_a_message(
    open_house: Any, telegram: TelegramServer
) -> None:
    telegram.chat(FORUM, forum=True, topics={5})
    hold = Hold()
    async with open_house([[hold, "Here."]]) as house:
        await house.up()
        telegram.say("@hermes_bot in general", FORUM)
        await telegram.until(lambda: bool(telegram.called("sendChatAction")))
        hold.release()
        await telegram.shown("Here.", FORUM)
        await house.settled(FORUM, 1)
    (typing, *_), (sent,) = telegram.called("sendChatAction"), telegram.called("sendMessage")
    assert typing.parameters["message_thread_id"] == 1
    assert "message_thread_id" not in sent.parameters
    assert all(one.outcome == "ok" for one in telegram.calls if one.method.startswith("send"))


async def test_when_a_group_becomes_a_supergroup_its_conversation_goes_on_there_also_after_a_restart(
    open_house: Any, telegram: TelegramServer, store: Any
) -> None:
    class Kept:
        """The store of both houses."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def close(self) -> None:
            """It is the fixture's."""

    telegram.chat(-5, "group")
    async with open_house(store=Kept()) as house:
        await house.up()
        telegram.say("@hermes_bot before", -5)
        await telegram.until(lambda: len(telegram.texts(-5)) == 1)
        await house.settled(-5)
        telegram.migrate(-5, -1005)
        telegram.say("@hermes_bot after", -1005)
        await telegram.until(lambda: len(telegram.texts(-1005)) == 1)
        await house.settled(-5)
    async with open_house(store=Kept()) as house:
        await house.up()
        telegram.say("@hermes_bot later", -1005)
        await telegram.until(lambda: len(telegram.texts(-1005)) == 2)
        await house.settled(-5)
    heard = "\n".join(house.asked()[-1])
    assert all(word in heard for word in ("before", "after", "later"))


async def test_a_send_to_a_group_that_moved_meanwhile_follows_it(
    open_house: Any, telegram: TelegramServer
) -> None:
    old = telegram.chat(-5, "group")
    async with open_house(["Here."]) as house:
        await house.up()
        telegram.chat(-1005, "supergroup")
        old.migrated = -1005
        telegram.say("@hermes_bot where?", -5)
        await telegram.shown("Here.", -1005)
        await house.settled(-5)
    assert telegram.texts(-5) == []


async def test_case_41_two_programs_with_one_token_are_told_so_plainly(
    open_house: Any, telegram: TelegramServer, caplog: pytest.LogCaptureFixture
) -> None:
    from hermes_telegram.client import make_bot

    other, _ = make_bot(telegram.token, telegram.base_url)
    async with other, open_house() as house:
        await house.up()
        await telegram.until(lambda: len(telegram.called("getUpdates")) >= 1)
        with caplog.at_level(logging.ERROR, "hermes.telegram"):
            await other.get_updates(timeout=0)
            await telegram.until(
                lambda: any("another program polls" in one.getMessage() for one in caplog.records)
            )
        telegram.say("still there?")
        await telegram.shown("you said: still there?")
        await house.settled()
    assert "(409)" in caplog.text


async def test_a_command_that_is_renamed_is_registered_and_heard_under_its_new_name(
    open_house: Any, open_eyes: TelegramServer
) -> None:
    def names() -> set[str]:
        return {one["command"] for one in telegram.commands}

    async with open_eyes as telegram, open_house(server=telegram) as house:
        await house.up()
        await telegram.until(lambda: "status" in names())
        rules = Rules(house.runtime.config.runtime.data_dir)
        rules.change("*", "commands", "status", name="state")
        await telegram.until(lambda: "state" in names())
        assert "status" not in names()
        telegram.say("/state", GROUP)
        await telegram.until(lambda: any("Now: " in text for text in telegram.texts(GROUP)))


async def test_case_31_commands_are_registered_by_need_and_what_finds_no_place_is_named(
    open_house: Any, telegram: TelegramServer, caplog: pytest.LogCaptureFixture
) -> None:
    def one(name: str) -> Any:
        @command(name, help="does something")
        def handler(context: Context) -> str:
            return name

        return handler

    class Many:
        @hookimpl
        def hermes_commands(self) -> Any:
            return [one(f"c{n:03}") for n in range(120)]

    with caplog.at_level(logging.WARNING, "hermes.telegram"):
        async with open_house(plugins=[Many()]) as house:
            await house.up()
            await telegram.until(lambda: bool(telegram.commands))
            total = len(house.plugins.commands.all())
    assert len(telegram.commands) == 100
    left = caplog.text.split("_): ")[1].splitlines()[0].split(", ")
    assert len(left) == total - 100
    assert not {"stop", "new", "help", "status", "interrupt", "queue", "reply", "busy"} & set(left)
    assert [one["command"] for one in telegram.commands][:3] == ["stop", "new", "help"]
