"""The adapter: one bot on Telegram.

Theory of operation. Updates are taken in batches; of one conversation one after the other, of different
ones side by side. The offset that confirms a batch moves only behind what is committed (D1): what the
store did not take is delivered again, and the store knows what it has (D7). One connection is the long
poll's own. Two programs with one token see a 409 in turns; then neither hears everything, so that is said
plainly, again and again, until it ends (case 41).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final

import msgspec
import telegram
from telegram.error import Conflict, InvalidToken, NetworkError, TelegramError

from hermes_core.adapter import Broken, Drafted, Features, Gateway, Progress, Received, Sent, Shown, Working
from hermes_core.errors import ConfigError, SendError, StoreError
from hermes_core.messages import Address, Attachment, Outgoing
from hermes_core.pacing import Budget, Rate, Typing, Want
from hermes_telegram import limits
from hermes_telegram.client import Client, make_bot
from hermes_telegram.convert import PLATFORM, Edited, Ignored, Me, Migrated, Taken, convert
from hermes_telegram.memory import Memory
from hermes_telegram.polling import KINDS, poll, read, why
from hermes_telegram.render import cutter
from hermes_telegram.request import Flood, Request, failure
from hermes_telegram.settings import Settings, Webhook
from hermes_telegram.writing import Writing

__all__ = ["TelegramAdapter"]

log = logging.getLogger("hermes.telegram")

_FIRST_PAUSE: Final = 1.0  # seconds until a call that failed is made again; doubled each time
_LONGEST_PAUSE: Final = 30.0
_SAID_AGAIN: Final = 300.0  # seconds between two complaints about the same thing
_CONTINUED: Final = 256  # messages whose continuation may still come
_CONNECTING: Final = 5.0  # seconds for which a message waits for the connection before it is given back
_UNLIMITED: Final = (Rate(1_000_000.0, burst=1_000_000),)


class TelegramAdapter:
    """See the head of this module. `memory` outlives restarts; `webhook` is None where it polls."""

    platform = PLATFORM

    def __init__(
        self, token: str, settings: Settings, memory: Memory | None = None, webhook: Webhook | None = None
    ) -> None:
        self.features = Features(
            max_text=limits.TEXT,
            drafts=settings.drafts,
            status=True,
            receipts=True,
            edits=True,
            threads=True,
            native_replies=True,
        )
        self._token = token
        self._settings = settings
        self._memory = memory or Memory(None)
        self._webhook = webhook
        self._open = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._gateway: Gateway | None = None
        self._me = Me(0, "")
        self._client: Client
        self._writing: Writing
        self._budget = self._new_budget()
        self._typing = Typing(limits.TYPING)
        self._typists: dict[str, Address] = {}
        self._typed = asyncio.Event()
        self._newest: OrderedDict[Address, str] = OrderedDict()  # in groups: what a turn will answer
        self._answered: dict[Address, str | None] = {}  # while a turn runs: what it answers
        self._continued: OrderedDict[tuple[Address, str, str], float] = OrderedDict()

    def _new_budget(self) -> Budget:
        if self._settings.paced:
            return Budget(limits.rates, limits.ACCOUNT, time.monotonic)
        return Budget(lambda chat: _UNLIMITED, _UNLIMITED, time.monotonic)

    # ---- the adapter

    async def run(self, gateway: Gateway) -> None:
        """Connect and deliver until cancelled. `ConfigError`: the token is refused, or there is no webhook."""
        bot, polls = make_bot(self._token, self._settings.base_url)
        try:
            await self._connect(bot, gateway)
            async with asyncio.TaskGroup() as group:
                self._group, self._gateway = group, gateway
                self._client = Client(bot, self._memory)
                self._writing = Writing(
                    self._client,
                    self._budget,
                    cutter(pings=self._settings.pings),
                    self._memory,
                    group.create_task,
                    time.monotonic,
                )
                self._open.set()
                self._spawn(self._type())
                self._spawn(self._register(gateway))
                await (self._serve(bot, gateway) if self._webhook else self._poll(bot, polls, gateway))
        except BaseExceptionGroup as several:
            wrong = several.subgroup(ConfigError)
            raise (wrong or several).exceptions[0] from several
        finally:
            self._open.clear()
            self._group = self._gateway = None
            self._typing = Typing(limits.TYPING)
            await bot.shutdown()

    async def send(self, outgoing: Outgoing) -> Sent:
        """Deliver one message whole; waits for the chat's budget, and a while for the connection."""
        try:
            async with asyncio.timeout(_CONNECTING):
                await self._open.wait()
        except TimeoutError:
            raise SendError("Telegram is not connected.", retry_after=0.0) from None
        address = outgoing.address
        self._stop_typing(address)
        answers = outgoing.answers if address.channel.startswith("-") else None
        return Sent(await self._writing.deliver(outgoing, answers))

    def show(self, address: Address, shown: Shown) -> None:
        """Show something passing, in a task of its own."""
        if not self._open.is_set():
            return
        match shown:
            case Drafted():
                self._stop_typing(address)
                self._writing.drafted(address, shown, self._answered.get(address))
            case Broken():
                self._writing.broken(address, shown)
            case Working():
                self._working(address, shown.activity.state)
            case Received():
                self._spawn(self._receipt(address, shown))
            case Progress():
                self._writing.progress(address, shown)

    async def find(self, key: str, address: Address) -> Sent | None:
        """Telegram keeps no history that a bot could ask."""
        return None

    async def fetch(self, attachment: Attachment) -> bytes:
        """The content of a file that came with a message; `SendError` where Telegram does not give it."""
        if (attachment.size or 0) > limits.DOWNLOAD:
            raise SendError(
                f"{attachment.name} is over {limits.DOWNLOAD // 2**20} MB; a bot gets no larger files.",
                permanent=True,
            )
        await self._open.wait()
        try:
            file = await self._client.bot.get_file(attachment.ref)
            return bytes(await file.download_as_bytearray())
        except TelegramError as error:
            raise failure(error) from error

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._group is not None, "only while it runs"
        return self._group.create_task(work)

    # ---- connecting

    async def _connect(self, bot: telegram.Bot, gateway: Gateway) -> None:
        """Learn who we are, and end a webhook that would keep the updates; for ever, until it works."""
        pause = _FIRST_PAUSE
        while True:
            try:
                await bot.initialize()
                if self._webhook is None:
                    await bot.delete_webhook()
                break
            except InvalidToken:
                raise self._refused() from None  # the library's text has the token in it
            except TelegramError as error:
                wait = error.seconds if isinstance(error, Flood) else pause
                log.warning("Telegram cannot be reached, next try in %.0f s: %s", wait, error)
                await asyncio.sleep(wait)
                pause = min(2 * pause, _LONGEST_PAUSE)
        names = frozenset(name for one in gateway.commands() for name in (one.name, *one.aliases))
        self._me = Me(bot.id, bot.username, names, self._memory.channel)

    def _refused(self) -> ConfigError:
        return ConfigError(
            "Telegram refuses the bot's token.",
            f"Get one from @BotFather, and put it into the variable {self._settings.token_env}.",
        )

    async def _register(self, gateway: Gateway) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                left = await self._client.register(gateway.commands())
            except SendError as error:
                if error.permanent:
                    log.error("the commands could not be registered: %s", error)
                    return
                await asyncio.sleep(error.retry_after if error.retry_after is not None else pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                if left:
                    log.warning(
                        "these commands work when typed, but are not in Telegram's menu (it has %d places and "
                        "takes a-z, 0-9 and _): %s",
                        limits.COMMANDS,
                        ", ".join(left),
                    )
                return

    # ---- what comes in

    async def _poll(self, bot: telegram.Bot, polls: Request, gateway: Gateway) -> None:
        offset: int | None = None
        connected, pause, said = False, _FIRST_PAUSE, -_SAID_AGAIN
        while True:
            try:
                # The first poll waits for nothing: it shows whether updates arrive at all.
                updates = await poll(bot, polls, offset, limits.POLL if connected else 0)
            except InvalidToken:
                raise self._refused() from None
            except TelegramError as error:
                now = time.monotonic()
                if connected or now - said >= _SAID_AGAIN:
                    log.error("no messages arrive: %s", why(error))
                    said = now
                if isinstance(error, Conflict) and "webhook" in error.message:
                    await self._connect(bot, gateway)
                connected = False
                await asyncio.sleep(error.seconds if isinstance(error, Flood) else pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            if not connected:
                connected = True
                gateway.ready()
            fresh = [one for one in updates if offset is None or one.update_id >= offset]
            stuck = await self._take_all(fresh, gateway)
            if updates and not fresh:  # a server that knows no offsets: do not ask it all the time
                await asyncio.sleep(_FIRST_PAUSE)
            elif stuck is None:
                offset, pause = updates[-1].update_id + 1 if updates else offset, _FIRST_PAUSE
            else:
                offset = stuck
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _serve(self, bot: telegram.Bot, gateway: Gateway) -> None:
        """Have the updates brought to the webhook, one at a time: so their order holds."""
        assert self._webhook is not None
        pause = _FIRST_PAUSE
        while True:
            try:
                await bot.set_webhook(
                    self._webhook.url,
                    secret_token=self._webhook.secret,
                    max_connections=1,
                    allowed_updates=KINDS,
                )
                break
            except NetworkError as error:
                log.warning("the webhook could not be set: %s", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        gateway.ready()
        await asyncio.Event().wait()

    async def brought(self, update: bytes) -> bool:
        """Take an update that the webhook got; False where it is not kept, and has to be brought again."""
        if self._gateway is None or not self._open.is_set():
            return False
        parsed = read(msgspec.json.decode(update), self._client.bot)
        return await self._take_all((parsed,), self._gateway) is None

    async def _take_all(self, updates: Sequence[telegram.Update], gateway: Gateway) -> int | None:
        """Take a batch; gives the first update that the store did not take, if any."""
        chains: dict[Address, list[tuple[int, Taken | Edited]]] = {}
        for update in updates:
            match self._converted(update):
                case Taken() as taken if self._is_meant(taken):
                    chains.setdefault(taken.message.address, []).append((update.update_id, taken))
                case Edited() as edited:
                    chains.setdefault(edited.address, []).append((update.update_id, edited))
                case Migrated() as moved:
                    self._memory.move(moved.old, moved.new)
        if len(chains) == 1:
            (chain,) = chains.values()
            return await self._take(chain, gateway)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._take(chain, gateway)) for chain in chains.values()]
        return min((first for task in tasks if (first := task.result()) is not None), default=None)

    def _converted(self, update: telegram.Update) -> Taken | Edited | Migrated | Ignored:
        try:
            return convert(update, self._me)
        except Exception as error:
            log.error("update %d could not be read and is passed over", update.update_id, exc_info=error)
            return Ignored("unreadable")

    async def _take(self, chain: Iterable[tuple[int, Taken | Edited]], gateway: Gateway) -> int | None:
        """Take what came for one conversation, in its order; stops at what the store does not take."""
        for update_id, what in chain:
            if isinstance(what, Edited):
                await gateway.edited(what.address, what.id, what.text)
                continue
            message = what.message
            if message.group:
                self._newest[message.address] = message.id
                if len(self._newest) > _CONTINUED:
                    self._newest.popitem(last=False)
            try:
                await gateway.receive(message)
            except StoreError as error:
                log.error("a message is not kept and will be delivered again: %s", error)
                return update_id
        return None

    def _is_meant(self, taken: Taken) -> bool:
        """X4; the rest of a paste or album belongs to its beginning, though it names nobody."""
        message = taken.message
        key = (message.address, message.author.id, taken.album)
        sent = message.sent or 0.0
        if not taken.meant and sent - self._continued.get(key, 0.0) > limits.ALBUM_OR_PASTE:
            return False
        if message.group and message.partial:
            self._continued[key] = sent
            if len(self._continued) > _CONTINUED:
                self._continued.popitem(last=False)
        return True

    # ---- what is shown

    def _working(self, address: Address, state: str) -> None:
        key = str(address)
        if state == "idle":
            self._answered.pop(address, None)
            self._writing.paused(address)
        elif address not in self._answered:
            self._answered[address] = self._newest.pop(address, None)
        if state in ("thinking", "tool"):
            self._typists[key] = address
            self._typing.start(key, time.monotonic() + limits.TYPING_AFTER)
            self._typed.set()
        else:
            self._stop_typing(address)

    def _stop_typing(self, address: Address) -> None:
        key = str(address)
        self._typing.stop(key)
        self._typists.pop(key, None)

    async def _type(self) -> None:
        while True:
            due, at = self._typing.due(time.monotonic())
            for key in due:
                address = self._typists[key]
                if self._budget.ask(address.channel, Want.TYPING) == 0.0:
                    self._spawn(self._type_once(address))
            self._typed.clear()
            try:
                async with asyncio.timeout(None if at is None else max(0.0, at - time.monotonic())):
                    await self._typed.wait()
            except TimeoutError:
                continue

    async def _type_once(self, address: Address) -> None:
        try:
            await self._client.typing(address)
        except SendError as error:
            self._parked(address, error)

    async def _receipt(self, address: Address, received: Received) -> None:
        """A reaction on the message (T6); where reactions are not allowed there is none."""
        emoji = limits.REACTIONS.get(received.kind)
        if emoji is None or not received.id.rpartition("/")[2].isdigit():
            return
        wait = self._budget.ask(address.channel, Want.STREAM_EDIT)
        if wait > 0.0:
            await asyncio.sleep(min(wait, limits.TYPING))
            if self._budget.ask(address.channel, Want.STREAM_EDIT) > 0.0:
                return
        try:
            await self._client.react(address, received.id, emoji)
        except SendError as error:
            self._parked(address, error)

    def _parked(self, address: Address, error: SendError) -> None:
        log.info("something passing was not shown in %s: %s", address, error)
        if error.retry_after is not None:
            self._budget.blocked(address.channel, error.retry_after)
