"""The Telegram of the testing kit refuses what Telegram refuses: asked by the real client library."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import telegram as library
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    NetworkError,
    TelegramError,
)

from hermes_core.testing.platforms.telegram import Fault, Limits, TelegramServer
from hermes_telegram.client import make_bot
from hermes_telegram.request import Flood

Call = Callable[[library.Bot], Awaitable[Any]]


@pytest.fixture
async def bot(telegram: TelegramServer) -> AsyncIterator[library.Bot]:
    made, _ = make_bot(telegram.token, telegram.base_url)
    telegram.chat(-9, "group").migrated = -1009
    telegram.chat(-10, forum=True, topics={4})
    telegram.chat(8).blocked = True
    async with made:
        yield made


def bold(offset: int, length: int) -> list[library.MessageEntity]:
    return [library.MessageEntity("bold", offset, length)]


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda b: b.send_message(99, "x"), BadRequest, "Chat not found"),
        (lambda b: b.send_message(8, "x"), Forbidden, "bot was blocked by the user"),
        (lambda b: b.send_message(-9, "x"), ChatMigrated, "-1009"),
        (lambda b: b.send_message(7, " \n"), BadRequest, "Message text is empty"),
        (lambda b: b.send_message(7, "🎉" * 4097), BadRequest, "Message is too long"),
        (lambda b: b.send_message(7, "🎉", entities=bold(0, 3)), BadRequest, "UTF-16 offset 2"),
        (lambda b: b.send_message(7, "🎉x", entities=bold(1, 2)), BadRequest, "middle of a UTF-16 symbol"),
        (lambda b: b.send_message(-10, "x", message_thread_id=1), BadRequest, "thread not found"),
        (lambda b: b.send_message(-10, "x", message_thread_id=5), BadRequest, "thread not found"),
        (lambda b: b.send_message(7, "x", reply_to_message_id=77), BadRequest, "replied not found"),
        (lambda b: b.edit_message_text("x", 7, 77), BadRequest, "to edit not found"),
        (lambda b: b.delete_message(7, 77), BadRequest, "to delete not found"),
        (lambda b: b.set_my_commands([(f"c{n}", "x") for n in range(101)]), BadRequest, "TOO_MUCH"),
        (lambda b: b.set_my_commands([("with-hyphen", "x")]), BadRequest, "COMMAND_INVALID"),
        (lambda b: b.get_file("none"), BadRequest, "file_id"),
    ],
    ids=[
        "no chat", "blocked", "migrated", "empty", "too long", "entity too long", "entity inside an emoji",
        "general topic", "no topic", "no reply", "no edit", "no delete", "too many commands", "bad command",
        "no file",
    ],
)  # fmt: skip
async def test_it_refuses_in_telegrams_words(
    bot: library.Bot, call: Call, kind: type[TelegramError], words: str
) -> None:
    with pytest.raises(kind) as refused:
        await call(bot)
    assert words.lower() in str(refused.value).lower()


@pytest.mark.parametrize(
    "call",
    [
        lambda b: b.send_message(7, "🎉" * 4096),
        lambda b: b.send_message(7, "🎉", entities=bold(0, 2)),
        lambda b: b.send_message(-10, "x", message_thread_id=4),
        lambda b: b.send_chat_action(-10, "typing", message_thread_id=1),
        lambda b: b.set_my_commands([(f"c{n}", "x") for n in range(100)]),
    ],
    ids=["4096 emoji", "whole emoji", "topic", "typing in general", "100 commands"],
)
async def test_it_takes_what_telegram_takes(bot: library.Bot, call: Call) -> None:
    assert await call(bot)


async def test_an_edit_that_changes_nothing_is_refused(bot: library.Bot) -> None:
    message = await bot.send_message(7, "same")
    with pytest.raises(BadRequest, match="not modified"):
        await bot.edit_message_text("same", 7, message.message_id)
    assert await bot.edit_message_text("other", 7, message.message_id)


async def test_updates_are_kept_until_an_offset_confirms_them(
    bot: library.Bot, telegram: TelegramServer
) -> None:
    telegram.say("one")
    telegram.say("two")
    first = await bot.get_updates()
    assert [one.message.text for one in first if one.message] == ["one", "two"]
    assert await bot.get_updates() == first
    (left,) = await bot.get_updates(offset=first[0].update_id + 1)
    assert left == first[1]
    assert await bot.get_updates(offset=left.update_id + 1) == ()


async def test_a_webhook_and_polling_exclude_each_other(bot: library.Bot, telegram: TelegramServer) -> None:
    await bot.set_webhook("http://127.0.0.1:9/x")
    with pytest.raises(Conflict, match="webhook is active"):
        await bot.get_updates()
    await bot.delete_webhook()
    assert await bot.get_updates() == ()


async def test_too_many_calls_are_refused_with_the_time_to_wait(bot: library.Bot) -> None:
    async with TelegramServer(limits=Limits(chat=2, retry_after=17)) as strict:
        strict.chat(7)
        made, _ = make_bot(strict.token, strict.base_url)
        async with made:
            message = await made.send_message(7, "one")
            await made.edit_message_text("two", 7, message.message_id)
            with pytest.raises(Flood) as flood:
                await made.send_chat_action(7, "typing")
    assert flood.value.seconds == 17


async def test_a_cut_before_does_nothing_and_a_cut_after_has_done_it(
    bot: library.Bot, telegram: TelegramServer
) -> None:
    telegram.fail("sendMessage", Fault(cut="before"), Fault(cut="after"))
    for text in ("before", "after"):
        with pytest.raises(NetworkError):
            await bot.send_message(7, text)
    assert telegram.texts() == ["after"]


async def test_a_wrong_token_is_unauthorized(telegram: TelegramServer) -> None:
    made, _ = make_bot("42:wrong", telegram.base_url)
    with pytest.raises(InvalidToken):
        await made.initialize()
    await made.shutdown()


def buttons(*data: str) -> library.InlineKeyboardMarkup:
    return library.InlineKeyboardMarkup(
        [[library.InlineKeyboardButton(one[:5], callback_data=one) for one in data]]
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda b: b.send_message(7, "x", reply_markup=buttons("x" * 65)), "BUTTON_DATA_INVALID"),
        (lambda b: b.send_document(7, b"x", caption="x" * 1025), "caption is too long"),
        (lambda b: b.send_document(7, b""), "must be non-empty"),
        (lambda b: b.send_document(7, bytes(101)), "Request Entity Too Large"),
        (lambda b: b.send_photo(7, b"no picture"), "IMAGE_PROCESS_FAILED"),
        (lambda b: b.answer_callback_query("99"), "query is too old"),
    ],
    ids=["data of a button", "caption", "empty", "too large", "no picture", "unknown press"],
)
async def test_it_refuses_files_and_buttons_as_telegram_does(
    bot: library.Bot, telegram: TelegramServer, call: Call, words: str
) -> None:
    telegram.max_upload = 100
    with pytest.raises(BadRequest, match=f"(?i){words}"):
        await call(bot)
    assert telegram.sent() == []


async def test_a_file_keeps_its_caption_and_is_no_text_to_edit(
    bot: library.Bot, telegram: TelegramServer
) -> None:
    sent = await bot.send_document(
        7, b"content", caption=" x y ", caption_entities=bold(1, 1), filename="ü.txt"
    )
    assert telegram.sent_files() == [("ü.txt", b"content")]
    assert (sent.caption, sent.caption_entities[0].offset) == ("x y", 0)
    with pytest.raises(BadRequest, match="no text in the message to edit"):
        await bot.edit_message_text("z", 7, sent.message_id)


@pytest.mark.parametrize(
    ("text", "entities", "kept", "where"),
    [
        ("  x  ", None, "x", []),
        ("  x  ", bold(0, 5), "  x", [(0, 3)]),
        ("  x  ", bold(1, 3), " x", [(0, 2)]),
        ("x  ", bold(1, 2), "x", []),
    ],
    ids=["none", "over all", "over a part", "over the end alone"],
)
async def test_white_space_goes_away_where_no_entity_keeps_it(
    bot: library.Bot, text: str, entities: Any, kept: str, where: list[tuple[int, int]]
) -> None:
    sent = await bot.send_message(7, text, entities=entities)
    assert sent.text == kept
    assert [(one.offset, one.length) for one in sent.entities] == where


async def test_an_edit_without_buttons_takes_them_away(bot: library.Bot, telegram: TelegramServer) -> None:
    sent = await bot.send_message(7, "x", reply_markup=buttons("yes", "no"))
    with pytest.raises(BadRequest, match="not modified"):
        await bot.edit_message_text("x", 7, sent.message_id, reply_markup=buttons("yes", "no"))
    await bot.edit_message_text("x", 7, sent.message_id)
    assert "reply_markup" not in telegram.sent()[0]


async def test_kinds_of_updates_that_nobody_asked_for_do_not_come(
    bot: library.Bot, telegram: TelegramServer
) -> None:
    await bot.get_updates(allowed_updates=["message"])
    telegram.edit(telegram.say("x"), "y")
    assert [one.edited_message for one in await bot.get_updates()] == [None]
