"""The adapter: one bot on Telegram.

Theory of operation. It connects, for ever, and then polls, or has updates brought to its webhook. What
comes in goes through `Intake`, which lives as long as the connection; what is written goes through the core's
`Writing`, which outlives it. One connection is the long poll's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, Final

import msgspec
import telegram
from telegram.error import Conflict, InvalidToken, TelegramError

from hermes_core.adapter import Features, Gateway, KnownCommand, Received, Sent, Shown
from hermes_core.errors import ConfigError, HermesError, SendError
from hermes_core.messages import Address, Attachment, Outgoing
from hermes_core.pacing import Budget, Rate, Want
from hermes_core.writing import Journal, Style, Writing
from hermes_telegram import limits
from hermes_telegram.client import Client, make_bot, native
from hermes_telegram.convert import PLATFORM, Me
from hermes_telegram.files import Files
from hermes_telegram.intake import Intake
from hermes_telegram.memory import Memory
from hermes_telegram.polling import FIRST_PAUSE, LONGEST_PAUSE, Polling, read
from hermes_telegram.render import INTERRUPTED, REPEAT, ROOM, Cutter, one_line
from hermes_telegram.request import Flood
from hermes_telegram.settings import Settings, Webhook
from hermes_telegram.webhook import hook, watch

__all__ = ["TelegramAdapter"]

log = logging.getLogger("hermes.telegram")

_CONNECTING: Final = 5.0  # seconds for which a download waits for the connection
LOOK: Final = 2.0  # seconds between two looks whether there are other commands to register
_UNLIMITED: Final = (Rate(1_000_000.0, burst=1_000_000),)


class _Line(msgspec.Struct, frozen=True):
    """What lives as long as one connection."""

    client: Client
    intake: Intake
    files: Files


class TelegramAdapter:
    """See the head of this module. `folder` outlives restarts; `webhook` is None where it polls."""

    platform = PLATFORM

    def __init__(
        self, token: str, settings: Settings, folder: Path | None = None, webhook: Webhook | None = None
    ) -> None:
        self.features = Features(
            max_text=ROOM,
            drafts=settings.drafts,
            status=True,
            receipts=True,
            edits=True,
            threads=True,
            native_replies=True,
            downloads=True,
            max_file=limits.UPLOAD_LOCAL if settings.local_server else limits.UPLOAD,
            buttons=True,
            registers=True,
            catches_up=True,
        )
        self._token = token
        self._settings = settings
        self._webhook = webhook
        self.handle = ""  # before Telegram has said who the bot is
        account = token.partition(":")[0]
        self._memory = Memory(folder / f"{account}.json" if folder else None)
        self._cut = Cutter(pings=settings.pings)
        self._budget = self._new_budget()  # outlives a connection: the platform does not forget either
        self._writing = Writing(
            Style(
                self._cut,
                INTERRUPTED,
                whole=self._cut.whole,
                repeat=REPEAT,
                line=one_line,
                tempo=lambda chat: limits.GROUP_TEMPO if _group(chat) else limits.TEMPO,
                typing_every=limits.TYPING,
                typing_after=limits.TYPING_AFTER,
            ),
            self._budget,
            Journal(folder / f"{account}.drafts" if folder else None),
        )
        self._open = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._line: _Line

    def _new_budget(self) -> Budget:
        if self._settings.paced:
            return Budget(limits.rates, limits.ACCOUNT, time.monotonic)
        return Budget(lambda chat: _UNLIMITED, _UNLIMITED, time.monotonic)

    # ---- the adapter

    async def run(self, gateway: Gateway) -> None:
        """Connect and deliver until cancelled. `ConfigError`: the token is refused, or there is no webhook."""
        bot, polls = make_bot(self._token, self._settings.base_url, dated=gateway.dated)
        files = Files(bot, local=self._settings.local_server)
        try:
            me = await self._connect(bot, gateway)
            async with asyncio.TaskGroup() as group:
                self._group = group
                client = Client(bot, self._memory, self._natively)
                intake = Intake(gateway, client, me, self._memory, self._spawn, self._writing.heard)
                self._line = _Line(client, intake, files)
                self._open.set()
                self._spawn(self._writing.run(client, gateway.settled, typing=client.typing))
                self._spawn(self._register(gateway, client))
                if self._webhook is not None:
                    await hook(bot, self._webhook)
                    gateway.ready()
                    await watch(bot, self._webhook, gateway.alive)
                polling = Polling(bot, polls, intake.take, gateway.ready, gateway.alive)
                while True:
                    try:
                        await polling.run()
                    except Conflict:  # somebody set a webhook
                        await self._connect(bot, gateway)
        except* InvalidToken:
            raise self._refused() from None  # the library's text has the token in it
        finally:
            self._open.clear()
            self._group = None
            await files.close()
            await bot.shutdown()

    async def send(self, outgoing: Outgoing) -> Sent:
        """Deliver one message whole; waits for the chat's budget, and a while for the connection."""
        return await self._writing.send(outgoing)

    def show(self, address: Address, shown: Shown) -> None:
        """Show something passing, in a task of its own."""
        if not isinstance(shown, Received):
            self._writing.show(address, shown)
        elif self._open.is_set():
            self._spawn(self._receipt(address, shown))

    async def find(self, key: str, address: Address) -> Sent | None:
        """Telegram keeps no history that a bot could ask."""
        return None

    async def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The content of a file that came with a message, of up to 20 MB (any size from one's own server)."""
        await self._connected(
            HermesError(f"Telegram is not connected, so {attachment.name} cannot be had now.")
        )
        async with contextlib.aclosing(self._line.files.content(attachment)) as pieces:
            async for piece in pieces:
                yield piece

    async def brought(self, update: bytes) -> bool:
        """Take an update that the webhook got; False where it is not kept, and has to be brought again.

        `msgspec.DecodeError` for what is no update.
        """
        if not self._open.is_set():
            return False
        raw = msgspec.json.decode(update, type=dict[str, Any])
        if not isinstance(raw.get("update_id"), int):
            raise msgspec.ValidationError("an update has a number")
        parsed = read(raw, self._line.client.bot)
        return await self._line.intake.take((parsed,)) is None

    # ---- connecting

    async def _connected(self, otherwise: HermesError) -> None:
        try:
            async with asyncio.timeout(_CONNECTING):
                await self._open.wait()
        except TimeoutError:
            raise otherwise from None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._group is not None, "only while it runs"
        return self._group.create_task(work)

    async def _connect(self, bot: telegram.Bot, gateway: Gateway) -> Me:
        """Learn who we are, and end a webhook that would keep the updates; for ever, until it works."""
        pause = FIRST_PAUSE
        while True:
            try:
                await bot.initialize()
                if self._webhook is None:
                    await bot.delete_webhook()  # what waits is kept (D8)
                break
            except InvalidToken:
                raise
            except TelegramError as error:
                wait = error.seconds if isinstance(error, Flood) else pause
                log.warning("Telegram cannot be reached, next try in %.0f s: %s", wait, error)
                await asyncio.sleep(wait)
                pause = min(2 * pause, LONGEST_PAUSE)
        self.handle = bot.username
        return Me(bot.id, bot.username, gateway.knows, self._memory.channel)

    def _refused(self) -> ConfigError:
        return ConfigError(
            "Telegram refuses the bot's token.",
            f"Get one from @BotFather, and put it into the variable {self._settings.token_env}.",
        )

    async def _register(self, gateway: Gateway, client: Client) -> None:
        """Register the commands now, and anew when there are others."""
        known: tuple[KnownCommand, ...] | None = None
        while True:
            commands = gateway.commands()
            if commands != known:
                await self._register_all(commands, client)
                known = commands
            await asyncio.sleep(LOOK)

    async def _register_all(self, commands: tuple[KnownCommand, ...], client: Client) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                left = await client.register(commands)
            except SendError as error:
                if error.permanent:
                    log.error("the commands could not be registered: %s", error)
                    return
                await asyncio.sleep(error.retry_after if error.retry_after is not None else pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                if left:
                    log.warning(
                        "these commands work when typed, but are not in Telegram's menu (it has %d places and "
                        "takes a-z, 0-9 and _): %s",
                        limits.COMMANDS,
                        ", ".join(left),
                    )
                return

    # ---- what is shown

    def _natively(self, address: Address, answers: str | None) -> int | None:
        """What a message answers natively. In a private chat the latest message is answered anyway."""
        newest = self._line.intake.newest.get(address)
        if _group(address) or self._settings.quotes == "always" or newest != answers:
            return native(answers)
        return None

    async def _receipt(self, address: Address, received: Received) -> None:
        """A reaction on the message (T6); where reactions are not allowed there is none."""
        emoji = limits.REACTIONS.get(received.kind)
        number = native(received.id)
        if emoji is None or number is None:
            return
        wait = self._budget.ask(address.channel, Want.STREAM_EDIT)
        if wait > 0.0:
            await asyncio.sleep(min(wait, limits.TYPING))
            if self._budget.ask(address.channel, Want.STREAM_EDIT) > 0.0:
                return
        try:
            await self._line.client.react(address, number, emoji)
        except SendError as error:
            log.info("a receipt was not shown in %s: %s", address, error)
            if error.retry_after is not None:
                self._budget.blocked(address.channel, error.retry_after)


def _group(address: Address) -> bool:
    return address.channel.startswith("-")
