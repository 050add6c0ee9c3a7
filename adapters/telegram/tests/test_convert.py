"""From updates as Telegram writes them to messages; pure."""

from __future__ import annotations

from typing import Any

import pytest
import telegram
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.messages import Address
from hermes_telegram.convert import Edited, Ignored, Me, Migrated, Taken, convert

ME = Me(42, "hermes_bot", {"status", "help"}.__contains__)
ANN = {"id": 7, "is_bot": False, "first_name": "Ann", "last_name": "Lee", "username": "ann"}
BOT = {"id": 42, "is_bot": True, "first_name": "Hermes", "username": "hermes_bot"}
PRIVATE = {"id": 7, "type": "private", "first_name": "Ann"}
GROUP = {"id": -100123, "type": "supergroup", "title": "Team"}
FORUM = {**GROUP, "is_forum": True}


def update(chat: dict[str, Any] = PRIVATE, kind: str = "message", **fields: Any) -> telegram.Update:
    message = {"message_id": 5, "from": ANN, "chat": chat, "date": 1_700_000_000, **fields}
    found = telegram.Update.de_json({"update_id": 1, kind: message}, None)
    assert found is not None
    return found


def taken(chat: dict[str, Any] = PRIVATE, **fields: Any) -> Taken:
    found = convert(update(chat, **fields), ME)
    assert isinstance(found, Taken), found
    return found


def entity(kind: str, offset: int, length: int, **more: Any) -> dict[str, Any]:
    return {"type": kind, "offset": offset, "length": length, **more}


def test_a_private_message_has_its_author_time_and_address() -> None:
    message = taken(text="hello").message
    assert message.id == "5"
    assert message.address == Address("telegram", "42", "7")
    assert (message.author.id, message.author.name, message.author.bot) == ("7", "Ann Lee", False)
    assert (message.text, message.sent, message.group, message.partial) == (
        "hello",
        1_700_000_000.0,
        False,
        False,
    )


@pytest.mark.parametrize(
    ("text", "entities", "read"),
    [
        ("🎉 see here", [entity("text_link", 3, 8, url="https://a.b/c")], "🎉 [see here](https://a.b/c)"),
        ("run ls now", [entity("code", 4, 2)], "run `ls` now"),
        ("x = 1", [entity("pre", 0, 5, language="python")], "```python\nx = 1\n```"),
        ("very bold", [entity("bold", 5, 4)], "very bold"),
        ("/help@hermes_bot me", [entity("bot_command", 0, 16)], "/help me"),
        ("@hermes_bot: do it", [entity("mention", 0, 11)], "do it"),
        ("ask @hermes_bot that", [entity("mention", 4, 11)], "ask @hermes_bot that"),
        ("🎉🎉 `a` b", [entity("code", 5, 3)], "🎉🎉 ``a`` b"),
    ],
    ids=["link", "code", "pre", "bold", "command", "own name first", "own name inside", "UTF-16"],
)
def test_entities_become_text_that_a_model_reads(text: str, entities: list[Any], read: str) -> None:
    assert taken(text=text, entities=entities).message.text == read


@pytest.mark.parametrize(
    ("fields", "meant"),
    [
        ({"text": "hello all"}, False),
        ({"text": "@Hermes_Bot hi", "entities": [entity("mention", 0, 11)]}, True),
        ({"text": "@hermes_bots hi", "entities": [entity("mention", 0, 12)]}, False),
        ({"text": "he said", "entities": [entity("text_mention", 0, 2, user=BOT)]}, True),
        ({"text": "/status", "entities": [entity("bot_command", 0, 7)]}, True),
        ({"text": "see /status", "entities": [entity("bot_command", 4, 7)]}, False),
        ({"caption": "@hermes_bot", "caption_entities": [entity("mention", 0, 11)], "photo": [
            {"file_id": "f", "file_unique_id": "f", "width": 1, "height": 1}]}, True),
    ],
    ids=["nobody", "named", "another name", "text mention", "command", "command inside", "caption"],
)  # fmt: skip
def test_who_is_meant_in_a_group(fields: dict[str, Any], meant: bool) -> None:
    assert taken(GROUP, **fields).meant is meant


def answer(**fields: Any) -> dict[str, Any]:
    return {"message_id": 3, "from": BOT, "chat": GROUP, "date": 1, "text": "mine", **fields}


def test_a_reply_to_the_agent_is_meant_for_it_and_keeps_what_it_answers() -> None:
    found = taken(GROUP, text="why?", reply_to_message=answer())
    assert found.meant
    assert found.message.reply_to == "3"
    assert found.message.text == "why?"


def test_a_reply_to_somebody_else_brings_the_beginning_of_what_was_said() -> None:
    other = answer(**{"from": {**ANN, "id": 8}}, text="The plan\nis good.")
    found = taken(text="is it?", reply_to_message=other)
    assert found.message.text == "> The plan is good.\n\nis it?"


def test_a_topics_beginning_is_not_what_its_messages_answer() -> None:
    begun = answer(message_id=9, text=None, forum_topic_created={"name": "t", "icon_color": 1})
    found = taken(FORUM, text="hi", message_thread_id=9, is_topic_message=True, reply_to_message=begun)
    assert found.message.reply_to is None
    assert not found.meant
    assert found.message.address.thread == "9"


def test_the_general_topic_is_a_conversation_of_its_own_and_a_thread_of_replies_is_none() -> None:
    assert taken(FORUM, text="hi").message.address.thread == "1"
    assert taken(GROUP, text="hi", message_thread_id=3).message.address.thread is None


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"text": "x", "from": BOT}, "itself"),
        ({"new_chat_title": "New"}, "service"),
        ({"text": "/status@other_bot", "entities": [entity("bot_command", 0, 17)]}, "another bot"),
        ({"text": "/unknown", "entities": [entity("bot_command", 0, 8)]}, "another bot"),
    ],
    ids=["itself", "service message", "named bot", "unknown command"],
)
def test_what_is_not_for_the_agent_is_passed_over(fields: dict[str, Any], why: str) -> None:
    found = convert(update(GROUP, **fields), ME)
    assert isinstance(found, Ignored)
    assert why in found.why


def test_an_unknown_command_in_a_private_chat_is_for_the_agent() -> None:
    found = taken(text="/unknown", entities=[entity("bot_command", 0, 8)])
    assert found.message.text == "/unknown"


def test_edits_and_migrations_are_told_apart() -> None:
    edited = convert(update(kind="edited_message", text="better", edit_date=2), ME)
    assert edited == Edited(Address("telegram", "42", "7"), "5", "better")
    assert convert(update(GROUP, migrate_to_chat_id=-100999), ME) == Migrated(-100123, -100999)


def test_after_a_migration_the_conversation_keeps_its_name_and_ids_do_not_collide() -> None:
    me = Me(42, "hermes_bot", lambda name: False, lambda chat: -5 if chat == -100123 else chat)
    found = convert(update(GROUP, text="hi"), me)
    assert isinstance(found, Taken)
    assert (found.message.address.channel, found.message.id) == ("-5", "-100123/5")


@pytest.mark.parametrize(("length", "partial"), [(100, False), (3899, False), (3900, True), (4096, True)])
def test_a_nearly_full_message_is_likely_a_part_of_a_paste(length: int, partial: bool) -> None:
    assert taken(text="a" * length).message.partial is partial


def test_a_paste_of_characters_of_two_units_is_cut_earlier() -> None:
    assert taken(text="🎉" * 2048).message.partial


def test_of_a_message_that_was_quoted_in_part_that_part_is_read() -> None:
    other = answer(**{"from": {**ANN, "id": 8}}, text="A long plan. It is good. And so on.")
    found = taken(text="is it?", reply_to_message=other, quote={"text": "It is good.", "position": 13})
    assert found.message.text == "> It is good.\n\nis it?"


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        ({"type": "user", "sender_user": {"id": 8, "is_bot": False, "first_name": "Ben"}}, "Ben"),
        ({"type": "hidden_user", "sender_user_name": "Cy"}, "Cy"),
        ({"type": "chat", "sender_chat": GROUP}, "Team"),
        ({"type": "channel", "chat": {**GROUP, "type": "channel"}, "message_id": 3}, "Team"),
    ],
    ids=["person", "hidden", "group", "channel"],
)
def test_what_was_forwarded_says_from_whom_and_is_no_command(origin: dict[str, Any], name: str) -> None:
    command = [entity("bot_command", 0, 5)]
    found = taken(text="/stop now", entities=command, forward_origin={**origin, "date": 1})
    assert found.message.text == f"[forwarded from {name}]\n/stop now"
    in_group = taken(GROUP, text="/help now", entities=command, forward_origin={**origin, "date": 1})
    assert not in_group.meant


def test_a_document_keeps_its_name_type_and_size() -> None:
    document = {"file_id": "f1", "file_unique_id": "u", "file_name": "a.txt", "mime_type": "text/plain"}
    message = taken(document={**document, "file_size": 12}, caption="read it").message
    (file,) = message.attachments
    assert (file.name, file.media_type, file.size, file.ref) == ("a.txt", "text/plain", 12, "f1")
    assert message.text == "read it"


@given(st.text(min_size=1, max_size=40), st.data())
def test_whatever_is_styled_all_the_text_is_there(text: str, data: st.DataObject) -> None:
    units = len(text.encode("utf-16-le", "surrogatepass")) // 2
    offset = data.draw(st.integers(0, units - 1))
    length = data.draw(st.integers(1, units - offset))
    kind = data.draw(st.sampled_from(["bold", "italic", "code", "pre", "spoiler", "underline"]))
    found = convert(update(text=text, entities=[entity(kind, offset, length)]), ME)
    if kind in ("bold", "italic", "spoiler", "underline"):
        assert isinstance(found, Taken)
        assert found.message.text == text
    else:
        assert isinstance(found, Taken | Ignored)


def test_x4_another_bot_is_told_as_one_for_the_core_to_decide() -> None:
    found = taken(text="beep", **{"from": {**BOT, "id": 9}})
    assert (found.message.author.id, found.message.author.bot) == ("9", True)
