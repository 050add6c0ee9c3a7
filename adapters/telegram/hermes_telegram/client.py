"""Client: the few calls that the adapter makes, each on a conversation's address.

`SendError` is all that they raise. Where the platform moved a group to a supergroup, a call follows it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import telegram
from telegram.error import BadRequest, ChatMigrated, TelegramError

from hermes_core.adapter import KnownCommand
from hermes_core.errors import SendError
from hermes_core.markup import Part
from hermes_core.messages import Address, Attachment
from hermes_core.writing import Place
from hermes_telegram import limits, render
from hermes_telegram.convert import GENERAL, message_id
from hermes_telegram.files import is_photo, opened
from hermes_telegram.memory import Memory
from hermes_telegram.render import Content
from hermes_telegram.request import Request, failure

__all__ = ["Client", "make_bot", "native"]

log = logging.getLogger("hermes.telegram")

T = TypeVar("T")
_PREVIEW: Final = telegram.LinkPreviewOptions(is_disabled=True)  # a preview makes Telegram fetch the address
_UNCHANGED: Final = "message is not modified"
_LOST: Final = "📎 {name} could not be sent: {why}"
_UPLOADED: Final = 120.0  # seconds in which Telegram says that it has a file
# Errors for which the same text without its entities would be refused as well.
_PLAIN_FAILS: Final = (
    "chat not found",
    "thread not found",
    "not enough rights",
    "text is empty",
    "topic_closed",
    "entity too large",
)


def make_bot(
    token: str,
    base_url: str,
    silence: float = 10.0,
    dated: Callable[[str | None], None] = lambda header: None,
) -> tuple[telegram.Bot, Request]:
    """The library's bot on this server, and the connection of its long poll, which is kept for that.

    `silence`: so many seconds after a poll's empty answer was due, its connection counts as lost (case 43). `dated`:
    see `Gateway.dated`.
    """
    root = base_url.rstrip("/")
    polls = Request(dated, connection_pool_size=1, read_timeout=silence, connect_timeout=10.0)
    bot = telegram.Bot(
        token,
        base_url=f"{root}/bot",
        base_file_url=f"{root}/file/bot",
        request=Request(
            dated, connection_pool_size=64, read_timeout=20.0, pool_timeout=20.0, connect_timeout=10.0
        ),
        get_updates_request=polls,
    )
    return bot, polls


class Client:
    """Calls of one bot: `hermes_core.writing.Calls`, and those for what is shown beside the texts.

    `natively`: the number of the message that one there answers natively, of the one that it answers.
    """

    def __init__(
        self, bot: telegram.Bot, memory: Memory, natively: Callable[[Address, str | None], int | None]
    ) -> None:
        self.bot = bot
        self._memory = memory
        self._natively = natively

    async def post(self, place: Place, content: Content) -> str:
        """Post a message; gives its id. Entities that the platform refuses are left out (R1)."""
        address = place.address
        shown = render.marked(content.part) if place.repeat else content.part
        answers = self._natively(address, place.answers)
        reply = None
        if answers is not None:
            reply = telegram.ReplyParameters(answers, allow_sending_without_reply=True)
        more: dict[str, Any] = {
            "message_thread_id": int(address.thread) if address.thread not in (None, GENERAL) else None,
            "reply_parameters": reply,
            "reply_markup": render.keyboard(content.choices),
        }

        async def text(chat: int, part: Part, entities: bool) -> telegram.Message:
            return await self.bot.send_message(
                chat,
                part.text,
                entities=render.entities(part) if entities else None,
                link_preview_options=_PREVIEW,
                **more,
            )

        async def posted(chat: int) -> telegram.Message:
            file = content.file
            if file is None:
                return await _or_plain(shown, lambda entities: text(chat, shown, entities))
            try:
                return await _or_plain(shown, lambda entities: self._file(chat, file, shown, entities, more))
            except (BadRequest, OSError) as error:
                why = error.message if isinstance(error, BadRequest) else "it cannot be read any more"
                log.error("%s could not be sent: %s", file.name, why)
            lost = Part(_LOST.format(name=file.name, why=why))
            if not shown.text:
                return await text(chat, lost, False)
            return await _or_plain(shown, lambda entities: text(chat, _below(shown, lost), entities))

        sent = await self._call(address, posted)
        return message_id(sent.chat.id, int(address.channel), sent.message_id)

    async def _file(
        self, chat: int, file: Attachment, caption: Part, entities: bool, place: Mapping[str, Any]
    ) -> telegram.Message:
        """A photo where Telegram takes it for one, else a document. `BadRequest`, `OSError`: it is not sent."""
        more = {
            "caption": caption.text or None,
            "caption_entities": render.entities(caption) if entities else None,
            "read_timeout": _UPLOADED,
            **place,
        }
        if is_photo(file):
            try:
                with opened(file) as content:
                    return await self.bot.send_photo(chat, content, **more)
            except BadRequest as error:
                if not _is_about_photo(error):
                    raise
        with opened(file) as content:
            return await self.bot.send_document(chat, content, disable_content_type_detection=True, **more)

    async def edit(self, place: Place, id: str, content: Content) -> str:
        """Replace what a message shows; one that shows it already is no error. `permanent`: it is gone.

        A text cannot become a file: it is removed, and the file is posted anew.
        """
        part = render.marked(content.part) if place.repeat else content.part
        keyboard = render.keyboard(content.choices)

        async def once(chat: int, entities: bool) -> None:
            marks = render.entities(part) if entities else None
            try:
                if content.file is not None:
                    await self.bot.edit_message_caption(
                        chat, _number(id), caption=part.text, caption_entities=marks, reply_markup=keyboard
                    )
                    return
                await self.bot.edit_message_text(
                    part.text,
                    chat,
                    _number(id),
                    entities=marks,
                    link_preview_options=_PREVIEW,
                    reply_markup=keyboard,
                )
            except BadRequest as error:
                if _UNCHANGED not in error.message.lower():
                    raise

        try:
            await self._call(
                place.address, lambda chat: _or_plain(part, lambda entities: once(chat, entities))
            )
        except SendError as error:
            if content.file is not None and error.permanent:
                await self.delete(place, id)
            raise
        return id

    async def pressed(self, query: str, note: str = "") -> None:
        """Tell who pressed a button that it was taken, else his client waits; `note` is shown to him.

        Raises nothing: after some minutes Telegram takes no answer any more, and what was pressed is kept.
        """
        try:
            await self.bot.answer_callback_query(query, note or None, show_alert=bool(note))
        except TelegramError as error:
            log.info("the press of a button could not be answered: %s", error)

    async def delete(self, place: Place, id: str) -> str:
        """Remove a message."""
        await self._call(place.address, lambda chat: self.bot.delete_message(chat, _number(id)))
        return id

    async def typing(self, address: Address) -> None:
        """Show that the agent works; the General topic has to be named here."""
        thread = int(address.thread) if address.thread is not None else None
        await self._call(
            address, lambda chat: self.bot.send_chat_action(chat, "typing", message_thread_id=thread)
        )

    async def react(self, address: Address, number: int, emoji: str) -> None:
        """Put the bot's own reaction on a message; "" takes it away."""
        await self._call(address, lambda chat: self.bot.set_message_reaction(chat, number, emoji or None))

    async def register(self, known: Iterable[KnownCommand]) -> list[str]:
        """Register commands, in their order; gives the names that found no place, or cannot be written on Telegram."""
        fitting: list[telegram.BotCommand] = []
        left: list[str] = []
        for one in known:
            if limits.COMMAND_NAME.fullmatch(one.name) and len(fitting) < limits.COMMANDS:
                help_ = (one.help or one.usage or one.name)[: limits.COMMAND_DESCRIPTION]
                fitting.append(telegram.BotCommand(one.name, help_))
            else:
                left.append(one.name)
        try:
            await self.bot.set_my_commands(fitting)
        except TelegramError as error:
            raise failure(error) from error
        return left

    async def _call(self, address: Address, call: Callable[[int], Awaitable[T]]) -> T:
        try:
            try:
                return await call(self._memory.chat(int(address.channel)))
            except ChatMigrated as moved:
                self._memory.move(int(address.channel), moved.new_chat_id)
                log.warning("the group %s is now the supergroup %d", address.channel, moved.new_chat_id)
                return await call(moved.new_chat_id)
        except TelegramError as error:
            raise failure(error) from error


def native(id: str | None) -> int | None:
    """Telegram's number of a message that can be answered or marked; None for what is no message: a press."""
    number = (id or "").rpartition("/")[2]
    return int(number) if number.isdecimal() else None


def _number(id: str) -> int:
    return int(id.rpartition("/")[2])


def _below(part: Part, line: Part) -> Part:
    return Part(f"{part.text}\n\n{line.text}", part.entities)


def _is_about_photo(error: BadRequest) -> bool:
    text = error.message.lower()
    return "photo" in text or "image" in text


async def _or_plain(part: Part, once: Callable[[bool], Awaitable[T]]) -> T:
    """With entities, and where the platform refuses those, without; never for any other reason (R1, case 38)."""
    try:
        return await once(True)
    except BadRequest as error:
        text = error.message.lower()
        if not part.entities or "entit" not in text or any(known in text for known in _PLAIN_FAILS):
            raise
        log.warning("Telegram refuses the formatting, the text goes out plain: %s", error.message)
        return await once(False)
