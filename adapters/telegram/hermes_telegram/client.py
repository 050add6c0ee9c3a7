"""Client: the few calls that the adapter makes, each on a conversation's address.

`SendError` is all that they raise. Where the platform moved a group to a supergroup, a call follows it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

import telegram
from telegram.error import BadRequest, ChatMigrated, TelegramError

from hermes_core.adapter import KnownCommand
from hermes_core.markup import Part
from hermes_core.messages import Address
from hermes_telegram import limits, render
from hermes_telegram.convert import GENERAL, message_id
from hermes_telegram.memory import Memory
from hermes_telegram.request import Request, failure

__all__ = ["Client", "make_bot"]

log = logging.getLogger("hermes.telegram")

T = TypeVar("T")
_PREVIEW: Final = telegram.LinkPreviewOptions(is_disabled=True)  # a preview makes Telegram fetch the address
_UNCHANGED: Final = "message is not modified"
# Errors for which the same text without its entities would be refused as well.
_PLAIN_FAILS: Final = (
    "chat not found",
    "thread not found",
    "not enough rights",
    "text is empty",
    "topic_closed",
)


def make_bot(token: str, base_url: str) -> tuple[telegram.Bot, Request]:
    """The library's bot on this server, and the connection of its long poll, which is kept for that."""
    root = base_url.rstrip("/")
    polls = Request(connection_pool_size=1, read_timeout=10.0, connect_timeout=10.0)
    bot = telegram.Bot(
        token,
        base_url=f"{root}/bot",
        base_file_url=f"{root}/file/bot",
        request=Request(connection_pool_size=64, read_timeout=20.0, pool_timeout=20.0, connect_timeout=10.0),
        get_updates_request=polls,
    )
    return bot, polls


class Client:
    """Calls of one bot."""

    def __init__(self, bot: telegram.Bot, memory: Memory) -> None:
        self.bot = bot
        self._memory = memory

    async def post(self, address: Address, part: Part, *, answers: str | None, repeat: bool) -> str:
        """Post a message; gives its id. Entities that the platform refuses are left out (R1)."""
        shown = render.marked(part) if repeat else part
        reply = None
        if answers is not None:
            number = self._number(answers)
            reply = telegram.ReplyParameters(number, allow_sending_without_reply=True)
        thread = int(address.thread) if address.thread not in (None, GENERAL) else None

        async def once(chat: int, entities: bool) -> telegram.Message:
            return await self.bot.send_message(
                chat,
                shown.text,
                entities=render.entities(shown) if entities else None,
                message_thread_id=thread,
                reply_parameters=reply,
                link_preview_options=_PREVIEW,
            )

        sent = await self._call(address, lambda chat: _or_plain(chat, shown, once))
        return message_id(sent.chat.id, int(address.channel), sent.message_id)

    async def edit(self, address: Address, id: str, part: Part) -> str:
        """Replace what a message shows; one that shows it already is no error. `permanent`: it is gone."""

        async def once(chat: int, entities: bool) -> None:
            try:
                await self.bot.edit_message_text(
                    part.text,
                    chat,
                    self._number(id),
                    entities=render.entities(part) if entities else None,
                    link_preview_options=_PREVIEW,
                )
            except BadRequest as error:
                if _UNCHANGED not in error.message.lower():
                    raise

        await self._call(address, lambda chat: _or_plain(chat, part, once))
        return id

    async def delete(self, address: Address, id: str) -> str:
        """Remove a message."""
        await self._call(address, lambda chat: self.bot.delete_message(chat, self._number(id)))
        return id

    async def typing(self, address: Address) -> None:
        """Show that the agent works; the General topic has to be named here."""
        thread = int(address.thread) if address.thread is not None else None
        await self._call(
            address, lambda chat: self.bot.send_chat_action(chat, "typing", message_thread_id=thread)
        )

    async def react(self, address: Address, id: str, emoji: str) -> None:
        """Put the bot's own reaction on a message; "" takes it away."""
        await self._call(
            address, lambda chat: self.bot.set_message_reaction(chat, self._number(id), emoji or None)
        )

    async def register(self, known: Iterable[KnownCommand]) -> list[str]:
        """Register commands; gives the names that found no place, or cannot be written on Telegram."""
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

    def _number(self, id: str) -> int:
        return int(id.rpartition("/")[2])

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


async def _or_plain(chat: int, part: Part, once: Callable[[int, bool], Awaitable[Any]]) -> Any:
    """With entities, and where the platform refuses those, without; never for any other reason (R1)."""
    try:
        return await once(chat, True)
    except BadRequest as error:
        text = error.message.lower()
        if not part.entities or "entit" not in text or any(known in text for known in _PLAIN_FAILS):
            raise
        log.warning("Telegram refuses the formatting, the text goes out plain: %s", error.message)
        return await once(chat, False)
