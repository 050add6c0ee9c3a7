"""The adapter: one bot on Telegram.

Theory of operation. It connects, for ever, and then polls, or has updates brought to its webhook. What
comes in goes through `Intake`, what is written through `Writing`, the rest of what is shown through `Signs`;
these live as long as the connection, which ends with `run`. One connection is the long poll's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Final

import msgspec
import telegram
from telegram.error import Conflict, InvalidToken, TelegramError

from hermes_core.adapter import Broken, Drafted, Features, Gateway, Progress, Received, Sent, Shown, Working
from hermes_core.errors import ConfigError, HermesError, SendError
from hermes_core.messages import Address, Attachment, Outgoing
from hermes_core.pacing import Budget, Rate
from hermes_telegram import limits
from hermes_telegram.client import Client, make_bot, native
from hermes_telegram.convert import PLATFORM, Me
from hermes_telegram.files import Files
from hermes_telegram.intake import Intake
from hermes_telegram.memory import Memory
from hermes_telegram.polling import FIRST_PAUSE, LONGEST_PAUSE, Polling, read
from hermes_telegram.render import ROOM, Cutter
from hermes_telegram.request import Flood
from hermes_telegram.settings import Settings, Webhook
from hermes_telegram.signs import Signs
from hermes_telegram.webhook import hook, watch
from hermes_telegram.writing import Writing

__all__ = ["TelegramAdapter"]

log = logging.getLogger("hermes.telegram")

_CONNECTING: Final = 5.0  # seconds for which a message waits for the connection before it is given back
_UNLIMITED: Final = (Rate(1_000_000.0, burst=1_000_000),)


class _Line:
    """What lives as long as one connection."""

    def __init__(self, client: Client, intake: Intake, writing: Writing, signs: Signs, files: Files) -> None:
        self.client = client
        self.intake = intake
        self.writing = writing
        self.signs = signs
        self.files = files


class TelegramAdapter:
    """See the head of this module. `memory` outlives restarts; `webhook` is None where it polls."""

    platform = PLATFORM

    def __init__(
        self, token: str, settings: Settings, memory: Memory | None = None, webhook: Webhook | None = None
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
        self._memory = memory or Memory(None)
        self._webhook = webhook
        self.handle = ""  # before Telegram has said who the bot is
        self._open = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._line: _Line
        self._budget = self._new_budget()  # outlives a connection: the platform does not forget either
        self._answered: dict[Address, str | None] = {}  # while a turn runs: what it answers

    def _new_budget(self) -> Budget:
        if self._settings.paced:
            return Budget(limits.rates, limits.ACCOUNT, time.monotonic)
        return Budget(lambda chat: _UNLIMITED, _UNLIMITED, time.monotonic)

    # ---- the adapter

    async def run(self, gateway: Gateway) -> None:
        """Connect and deliver until cancelled. `ConfigError`: the token is refused, or there is no webhook."""
        bot, polls = make_bot(self._token, self._settings.base_url)
        files = Files(bot, local=self._settings.local_server)
        try:
            me = await self._connect(bot, gateway)
            async with asyncio.TaskGroup() as group:
                self._group = group
                line = self._line = self._new_line(bot, gateway, me, files)
                self._open.set()
                self._spawn(line.signs.run())
                self._spawn(self._register(gateway, line.client))
                self._spawn(line.writing.abandoned(gateway.settled))
                self._spawn(line.writing.warm())
                if self._webhook is not None:
                    await hook(bot, self._webhook)
                    gateway.ready()
                    await watch(bot, self._webhook, gateway.alive)
                polling = Polling(bot, polls, line.intake.take, gateway.ready, gateway.alive)
                while True:
                    try:
                        await polling.run()
                    except Conflict:  # somebody set a webhook
                        await self._connect(bot, gateway)
        except InvalidToken:
            raise self._refused() from None  # the library's text has the token in it
        except BaseExceptionGroup as several:
            if several.subgroup(InvalidToken) is not None:
                raise self._refused() from None
            raise several.exceptions[0] from several
        finally:
            self._open.clear()
            self._group = None
            await files.close()
            await bot.shutdown()

    def _new_line(self, bot: telegram.Bot, gateway: Gateway, me: Me, files: Files) -> _Line:
        client = Client(bot, self._memory)
        writing = Writing(
            client,
            self._budget,
            Cutter(pings=self._settings.pings),
            self._memory,
            self._spawn,
            time.monotonic,
        )
        intake = Intake(gateway, client, me, self._memory, self._spawn)
        return _Line(client, intake, writing, Signs(client, self._budget, self._spawn), files)

    async def send(self, outgoing: Outgoing) -> Sent:
        """Deliver one message whole; waits for the chat's budget, and a while for the connection."""
        await self._connected(SendError("Telegram is not connected.", retry_after=0.0))
        address = outgoing.address
        if outgoing.turn:  # the answer to a command ends no turn
            self._line.signs.rest(address)
        return Sent(await self._line.writing.deliver(outgoing, self._natively(address, outgoing.answers)))

    def show(self, address: Address, shown: Shown) -> None:
        """Show something passing, in a task of its own."""
        if not self._open.is_set():
            return
        line = self._line
        match shown:
            case Drafted():
                line.signs.rest(address)
                answers = self._natively(address, self._answered.get(address))
                line.writing.drafted(address, shown, answers)
            case Broken():
                line.writing.broken(address, shown)
            case Working():
                self._working(address, shown.activity.state)
            case Received():
                self._spawn(line.signs.receipt(address, shown))
            case Progress():
                line.writing.progress(address, shown)

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
        names = frozenset(name for one in gateway.commands() for name in (one.name, *one.aliases))
        return Me(bot.id, bot.username, names, self._memory.channel)

    def _refused(self) -> ConfigError:
        return ConfigError(
            "Telegram refuses the bot's token.",
            f"Get one from @BotFather, and put it into the variable {self._settings.token_env}.",
        )

    async def _register(self, gateway: Gateway, client: Client) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                left = await client.register(gateway.commands())
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
        group = address.channel.startswith("-")
        if group or self._settings.quotes == "always" or self._line.intake.newest.get(address) != answers:
            return native(answers)
        return None

    def _working(self, address: Address, state: str) -> None:
        line = self._line
        if state == "idle":
            self._answered.pop(address, None)
            line.writing.paused(address)
        elif address not in self._answered:
            self._answered[address] = line.intake.newest.get(address)
        if state in ("thinking", "tool"):
            line.signs.working(address)
        else:
            line.signs.rest(address)
