"""From Telegram's updates to our values: pure, on the library's own types.

Everything that Telegram says about a message is decided here: where it belongs, whether the agent is meant
(X4), what text stands in it, and which files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import telegram
from telegram.constants import ChatType, MessageEntityType

from hermes_core.markup.characters import utf16
from hermes_core.messages import Address, Attachment, Author, Message, first_words
from hermes_telegram.limits import NEARLY_FULL

__all__ = [
    "GENERAL",
    "PLATFORM",
    "Edited",
    "Ignored",
    "Me",
    "Migrated",
    "Pressed",
    "Taken",
    "convert",
    "message_id",
]

PLATFORM: Final = "telegram"
GENERAL: Final = "1"  # the General topic of a forum
_QUOTED: Final = 600  # characters of somebody else's message that stand in front of a reply to it


class Me(msgspec.Struct, frozen=True):
    """The bot's own account. `commands` says whether it has one of this name. `channel` gives the name of a chat's
    conversation: its first id (migration)."""

    id: int
    username: str
    commands: Callable[[str], bool] = lambda name: False
    channel: Callable[[int], int] = int


class Taken(msgspec.Struct, frozen=True):
    """A message. `meant` is False in a group where it neither names the agent, nor answers it, nor commands.

    `album` is the id that the parts of an album share.
    """

    message: Message
    meant: bool = True
    album: str = ""


class Edited(msgspec.Struct, frozen=True):
    """A message was edited (D9)."""

    address: Address
    id: str
    text: str


class Migrated(msgspec.Struct, frozen=True):
    """A group became the supergroup `new`."""

    old: int
    new: int


class Pressed(msgspec.Struct, frozen=True):
    """A button was pressed: as if the person had typed what it sends. `query` is to be answered in any case.

    `message` is None where Telegram does not say any more where the button stood, or it is not ours. Telegram
    does not say when it was pressed either: `sent` is left to who takes it.
    """

    query: str
    message: Message | None


class Ignored(msgspec.Struct, frozen=True):
    """Nothing for the agent; `why` is for the log."""

    why: str


def message_id(chat: int, channel: int, id: int) -> str:
    """The id that is unique in its conversation: after a migration Telegram counts from 1 again."""
    return str(id) if chat == channel else f"{chat}/{id}"


def convert(update: telegram.Update, me: Me) -> Taken | Edited | Migrated | Pressed | Ignored:
    """What an update is for the agent."""
    if update.callback_query is not None:
        return _pressed(update.callback_query, me)
    if update.edited_message is not None:
        return _edited(update.edited_message, me)
    message = update.message
    if message is None:
        return Ignored("no message")
    if message.migrate_to_chat_id is not None:
        return Migrated(message.chat.id, message.migrate_to_chat_id)
    if message.from_user is None or message.from_user.id == me.id:
        return Ignored("from nobody, or from the bot itself")
    if _for_another(message, me):
        return Ignored("a command for another bot")
    text, files = _text(message, me), tuple(_files(message))
    if not text and not files:
        return Ignored("a service message")
    user = message.from_user
    group = message.chat.type != ChatType.PRIVATE
    channel = me.channel(message.chat.id)
    reply = _answered(message)
    return Taken(
        Message(
            message_id(message.chat.id, channel, message.message_id),
            _address(message, me),
            Author(str(user.id), user.full_name or user.username or "", user.is_bot),
            text,
            files,
            message_id(message.chat.id, channel, reply.message_id) if reply is not None else None,
            group,
            message.media_group_id is not None or utf16(message.text or "") >= NEARLY_FULL,
            message.date.timestamp(),
        ),
        not group or _meant(message, me),
        message.media_group_id or "",
    )


def _edited(message: telegram.Message, me: Me) -> Edited | Ignored:
    if message.from_user is None or message.from_user.id == me.id:
        return Ignored("edited by nobody, or by the bot itself")
    id_ = message_id(message.chat.id, me.channel(message.chat.id), message.message_id)
    return Edited(_address(message, me), id_, _text(message, me))


def _pressed(query: telegram.CallbackQuery, me: Me) -> Pressed:
    under = query.message
    if under is None or not query.data:
        return Pressed(query.id, None)
    if isinstance(under, telegram.Message) and under.is_accessible:
        address = _address(under, me)
    elif under.chat.is_forum:  # an old message: its topic is not told any more
        return Pressed(query.id, None)
    else:
        address = Address(PLATFORM, str(me.id), str(me.channel(under.chat.id)))
    user = query.from_user
    author = Author(str(user.id), user.full_name or user.username or "")
    group = under.chat.type != ChatType.PRIVATE
    return Pressed(query.id, Message(f"press:{query.id}", address, author, query.data, group=group))


def _address(message: telegram.Message, me: Me) -> Address:
    """Chat and topic. A reply in an ordinary supergroup has a thread id, too, but is in no topic."""
    thread = None
    if message.is_topic_message and message.message_thread_id is not None:
        thread = str(message.message_thread_id)
    elif message.chat.is_forum:
        thread = GENERAL
    return Address(PLATFORM, str(me.id), str(me.channel(message.chat.id)), thread)


def _answered(message: telegram.Message) -> telegram.Message | None:
    """The message that this one answers. In a topic everything formally answers the topic's beginning."""
    reply = message.reply_to_message
    if reply is None or reply.forum_topic_created is not None:
        return None
    return None if message.is_topic_message and reply.message_id == message.message_thread_id else reply


# ---- who is meant


def _entities(message: telegram.Message) -> Iterable[tuple[telegram.MessageEntity, str]]:
    """Entities with the text that they cover, in their order.

    The library's own way raises for an entity that begins or ends inside a character.
    """
    units = (message.text or message.caption or "").encode("utf-16-le", "surrogatepass")
    for one in sorted(message.entities or message.caption_entities, key=lambda one: one.offset):
        covered = units[2 * max(0, one.offset) : 2 * (one.offset + one.length)]
        yield one, covered.decode("utf-16-le", "replace")


def _command(message: telegram.Message) -> tuple[str, str] | None:
    """Name and bot of the command that the message begins with; what was forwarded commands nothing."""
    if message.forward_origin is not None:
        return None
    for entity, text in _entities(message):
        if entity.type == MessageEntityType.BOT_COMMAND and entity.offset == 0:
            name, _, bot = text[1:].partition("@")
            return name.lower(), bot.lower()
    return None


def _for_another(message: telegram.Message, me: Me) -> bool:
    """A command with another bot's name; in a group, one without a name that is none of ours."""
    command = _command(message)
    if command is None:
        return False
    name, bot = command
    if bot:
        return bot != me.username.lower()
    return message.chat.type != ChatType.PRIVATE and not me.commands(name) and not _answers_me(message, me)


def _names_me(entity: telegram.MessageEntity, text: str, me: Me) -> bool:
    if entity.type == MessageEntityType.MENTION:
        return text.lower() == f"@{me.username.lower()}"
    return (
        entity.type == MessageEntityType.TEXT_MENTION and entity.user is not None and entity.user.id == me.id
    )


def _answers_me(message: telegram.Message, me: Me) -> bool:
    reply = _answered(message)
    return reply is not None and reply.from_user is not None and reply.from_user.id == me.id


def _meant(message: telegram.Message, me: Me) -> bool:
    return (
        _answers_me(message, me)
        or _command(message) is not None
        or any(_names_me(entity, text, me) for entity, text in _entities(message))
    )


# ---- what it says


def _text(message: telegram.Message, me: Me) -> str:
    """The text as the model reads it: links with their addresses, code marked, our own name taken away."""
    text = _marked(message, me)
    if message.location is not None and not text:
        text = f"[location: {message.location.latitude}, {message.location.longitude}]"
    elif message.contact is not None:
        text = f"[contact: {message.contact.first_name}, {message.contact.phone_number}]"
    elif message.sticker is not None:
        text = f"[sticker: {message.sticker.emoji or 'no emoji'}]"
    if message.forward_origin is not None:  # not this person's words, and so no command either
        return f"[forwarded from {_origin(message.forward_origin)}]\n{text}"
    if text.startswith("/") or _answers_me(message, me):
        return text
    reply = _answered(message)
    said = message.quote.text if message.quote is not None else reply and (reply.text or reply.caption)
    quoted = first_words(said or "", _QUOTED)
    return f"> {quoted}\n\n{text}" if quoted else text


def _origin(origin: telegram.MessageOrigin) -> str:
    match origin:
        case telegram.MessageOriginUser():
            return origin.sender_user.full_name
        case telegram.MessageOriginHiddenUser():
            return origin.sender_user_name
        case telegram.MessageOriginChat():
            return origin.sender_chat.title or "a chat"
        case telegram.MessageOriginChannel():
            return origin.chat.title or "a channel"
    return "somebody"


def _marked(message: telegram.Message, me: Me) -> str:
    text = message.text or message.caption or ""
    units = text.encode("utf-16-le", "surrogatepass")
    pieces: list[str] = []
    at = 0

    def until(offset: int) -> str:
        return units[2 * at : 2 * offset].decode("utf-16-le", "replace")

    for entity, covered in _entities(message):
        if entity.offset < at:  # inside one that is written already
            continue
        shown = _shown(entity, covered, me)
        if shown == covered:
            continue
        pieces += [until(entity.offset), shown]
        at = entity.offset + entity.length
    text = "".join([*pieces, until(len(units) // 2)])
    return text.strip().lstrip(",:").lstrip() if pieces else text


def _shown(entity: telegram.MessageEntity, covered: str, me: Me) -> str:
    match entity.type:
        case MessageEntityType.TEXT_LINK if entity.url:
            return f"[{covered}]({entity.url})"
        case MessageEntityType.CODE:
            return f"`{covered}`"
        case MessageEntityType.PRE:
            return f"```{entity.language or ''}\n{covered}\n```"
        case MessageEntityType.BOT_COMMAND if entity.offset == 0:
            return covered.partition("@")[0]
        case MessageEntityType.MENTION | MessageEntityType.TEXT_MENTION if entity.offset == 0 and _names_me(
            entity, covered, me
        ):
            return ""
    return covered


def _files(message: telegram.Message) -> Iterable[Attachment]:
    if message.photo:
        largest = max(message.photo, key=lambda one: one.width * one.height)
        yield Attachment("photo.jpg", "image/jpeg", largest.file_size, largest.file_id)
    for kind, name, media_type in (
        ("document", "document", "application/octet-stream"),
        ("audio", "audio.mp3", "audio/mpeg"),
        ("voice", "voice.ogg", "audio/ogg"),
        ("video", "video.mp4", "video/mp4"),
        ("video_note", "video.mp4", "video/mp4"),
    ):
        one = getattr(message, kind)
        if one is not None:
            yield Attachment(
                getattr(one, "file_name", None) or name,
                getattr(one, "mime_type", None) or media_type,
                one.file_size,
                one.file_id,
            )
