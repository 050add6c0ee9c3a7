"""DiscordAdapter: one bot, from its connection to what it sends and shows.

Theory of operation. `run` makes a new client and serves it until it fails for good, inside a task group
that owns every task of the adapter. discord.py hands events over one by one (`_told`); none of them is
waited for there. `send` needs the client of the moment, and asks to be tried again where there is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import aiohttp
import discord
import msgspec

from hermes_core.adapter import (
    Broken,
    Drafted,
    Gateway,
    Progress,
    Received,
    Sent,
    Shown,
    Working,
)
from hermes_core.errors import HermesError, SendError
from hermes_core.messages import Address, Attachment, Outgoing, turn_key
from hermes_core.pacing import Budget, Rate, Slot, Typing, Want
from hermes_discord.convert import target_of
from hermes_discord.doubt import settled
from hermes_discord.files import download
from hermes_discord.intake import Intake, remember
from hermes_discord.limits import CHANNEL_RATES, FEATURES, PLATFORM, REQUESTS, TYPING
from hermes_discord.line import Line
from hermes_discord.notebook import UNSURE, Notebook
from hermes_discord.render import CLOSED, Piece, complete, cut, dressed, nonce
from hermes_discord.slash import Slash
from hermes_discord.writing import Desk, Writing

__all__ = ["DiscordAdapter"]

log = logging.getLogger("hermes.discord")

RECEIPTS: Final = {"queued": "🕓", "steering": "↪️", "interrupting": "✋", "cancelled": "❌"}
BUSY: Final = ("thinking", "tool", "stopping")
SLOW: Final = 0.25  # seconds after which a turn shows that it is typing; most answers of commands are faster
WRITTEN_EVERY: Final = 1.0  # seconds between two writings of the notebook
_TROUBLE: Final = (HermesError, discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError)


class DiscordAdapter:
    """`notebook`: the file that outlives the process; None: nothing is taken up after a restart.

    `requests`: how many a second the platform allows the account. `heartbeat_timeout`: seconds of silence
    after which the connection counts as dead. `connect` makes the client of each connection.
    """

    platform = PLATFORM

    def __init__(
        self,
        token: str,
        *,
        base_url: str = "",
        gateway_url: str = "",
        message_content: bool = True,
        slash: bool = True,
        notebook: Path | None = None,
        requests: float = REQUESTS,
        heartbeat_timeout: float = 60.0,
        connect: Callable[..., Line] = Line,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.features = msgspec.structs.replace(FEATURES, registers=slash, catches_up=notebook is not None)
        self._token = token
        self._connect = connect
        self._place: dict[str, Any] = {
            "base_url": base_url,
            "gateway_url": gateway_url,
            "message_content": message_content,
            "heartbeat_timeout": heartbeat_timeout,
        }
        self._slashes = slash
        self._wall = wall
        self._clock = clock
        account = (Rate(requests, burst=max(1, int(requests))),)
        self._budget = Budget(lambda channel: CHANNEL_RATES, account, clock)
        self._desk = Desk(Notebook(notebook), self._budget, clock)
        self._writings: dict[str, Writing] = {}  # by the key of the reply that each becomes
        self._last: dict[Address, Writing] = {}
        self._dead = set(self._desk.notebook.unfinished())  # texts that a former run did not finish
        self._typing = Typing(TYPING)
        self._typed = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._intake: Intake | None = None
        self._slash: Slash | None = None
        self._doubtful: dict[str, list[discord.Message]] = {}  # what the history shows, by the key asked for
        self._asked: dict[Address, int | None] = {}
        self._lines: dict[str, tuple[str, str]] = {}

    # -- the connection

    async def run(self, gateway: Gateway) -> None:
        """Serve until cancelled; `ConfigError` for a refused token or a missing intent."""
        failure: BaseException | None = None
        async with asyncio.TaskGroup() as group:
            self._group = group
            line = self._connect(self._told, dated=gateway.dated, **self._place)
            self._intake = Intake(gateway, line, self._desk.notebook, self._spawn)
            self._slash = Slash(gateway, line, self._intake.address, self._spawn)
            self._gateway, self._line = gateway, line
            standing = [group.create_task(self._type()), group.create_task(self._note(self._slash))]
            try:
                await line.serve(self._token)
            except _TROUBLE as error:
                failure = error  # carried out of the group, which would wrap it
            finally:
                self._desk.line = self._group = None
                for task in [*standing, *self._tasks]:
                    task.cancel()
                self._desk.notebook.write()
        if failure is not None:
            raise failure

    def _told(self, event: str, args: tuple[Any, ...]) -> bool:
        """Take an event from discord.py; True if nobody else needs it."""
        assert self._intake is not None, "events come while the adapter runs"
        assert self._slash is not None, "events come while the adapter runs"
        match event:
            case "message":
                self._intake.message(args[0])
            case "posted":
                channel, id_, mark = args
                if mark is not None:
                    self._desk.notebook.post(mark, id_)
                self._intake.posted(channel, id_)
            case "socket_event_type":  # of every event, and nobody counts them
                pass
            case "raw_message_edit":
                self._intake.edited(args[0])
            case "raw_message_delete":
                self._intake.deleted(args[0].channel_id, {args[0].message_id})
            case "raw_bulk_message_delete":
                self._intake.deleted(args[0].channel_id, args[0].message_ids)
            case "interaction":
                self._spawn(self._slash.take(args[0]))
            case "connect":
                self._up(self._intake, self._slash)
            case "resumed":
                self._gateway.ready()
            case _:
                return False
        return True

    def _up(self, intake: Intake, slash: Slash) -> None:
        """A new session: messages arrive from now on, behind those that were missed."""
        first = self._desk.line is None
        self._desk.line = self._line
        intake.missed()
        self._gateway.ready()
        for address in {key.rpartition("#turn:")[0] for key in self._dead}:
            self._spawn(self._let_go(self._line, address))
        if first and self._slashes:
            self._spawn(slash.sync())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._group is None:
            work.close()
            return
        task = self._group.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except SendError as error:  # something passing was not shown; what must arrive goes through `send`
            log.info("not shown: %s", error)
        except Exception as error:  # the edge to the platform: a strange event must not end the connection
            log.error("an event of Discord, or something to be shown there, failed", exc_info=error)

    async def _note(self, slash: Slash) -> None:
        """Write down what was seen, and look after each heartbeat whether all is as it was."""
        beat = self._line.latency
        while True:
            await asyncio.sleep(WRITTEN_EVERY)
            self._desk.notebook.write()
            if self._line.latency != beat and math.isfinite(self._line.latency):  # one was acknowledged
                beat = self._line.latency
                self._gateway.alive()
                if self._slashes and slash.stale():
                    self._spawn(slash.sync())

    # -- sending

    async def send(self, outgoing: Outgoing) -> Sent:
        """Deliver one message whole, in place of its draft where there is one."""
        line = self._desk.line
        if line is None:
            raise SendError("There is no connection to Discord.", retry_after=1.0)
        address = outgoing.address
        self._stop_typing(address)
        writing = self._writings.pop(outgoing.key, None)
        if writing is not None:
            return await writing.finish(outgoing)
        slots, doubtful = await self._shown_already(line, outgoing)
        if doubtful:
            log.warning("%s may have been delivered before; it is sent again with a mark", outgoing.key)
            outgoing = msgspec.structs.replace(outgoing, repeat=True)
        writing = Writing(self._desk, line, target_of(address), outgoing.key, self._quoted(outgoing))
        return await writing.finish(outgoing, slots)

    async def _shown_already(self, line: Line, outgoing: Outgoing) -> tuple[tuple[Slot, ...], bool]:
        """The messages that show a part of this text, and whether others may: see `doubt`."""
        mine = self._doubtful.pop(outgoing.key, None)
        slash = self._slash if not outgoing.turn else None
        asked = slash is not None and slash.waits(outgoing.answers)
        if mine is None and not asked:
            return (), False
        pieces = dressed(cut(outgoing.text, True), outgoing.attachments, outgoing.choices)
        if slash is not None and asked and pieces and pieces[0].text:
            original = await slash.answer(outgoing.answers, pieces[0].text)
            if original is not None:
                return (Slot(original, Piece(pieces[0].text)),), False
        return settled(mine, outgoing, pieces, self._wall()) if mine is not None else ((), False)

    def _quoted(self, outgoing: Outgoing) -> int | None:
        """The message that this one answers natively; of one that is not there Discord makes no answer."""
        answers = outgoing.answers or ""
        return int(answers) if answers.isdigit() else None

    async def find(self, key: str, address: Address) -> Sent | None:
        """The message with this key, where the gateway has told us of it; None where that is not certain.

        Discord tells the nonce of a message once, when it is posted. So `send` then looks at what the history
        shows, and the platform itself refuses a nonce that it still knows.
        """
        ids = complete(key, self._desk.notebook.posted())
        if ids is not None:
            return Sent(ids)
        line = self._desk.line
        if line is None:
            raise SendError("There is no connection to Discord.", retry_after=1.0)
        remember(self._doubtful, key, await line.mine(target_of(address)))
        return None

    def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The content of a file that came with a message; see `Downloads.fetch`."""
        return download(attachment, self._renewed)

    async def _renewed(self, channel: int, message: int, file: int) -> str | None:
        line = self._desk.line
        if line is None:
            raise HermesError("There is no connection to Discord at the moment.", "Try again in a while.")
        return await line.link(channel, message, file)

    # -- showing

    def show(self, address: Address, shown: Shown) -> None:
        """Show something passing; nothing is shown while there is no connection."""
        line = self._desk.line
        match shown:
            case Broken():
                self._break(address, shown)
            case Working():
                self._work(address, shown)
            case _ if line is None:
                pass
            case Drafted():
                self._draft(line, address, shown)
            case Received():
                if shown.kind in RECEIPTS and shown.id.isdigit():
                    self._spawn(line.react(target_of(address), shown.id, RECEIPTS[shown.kind]))
            case Progress():
                self._spawn(self._progress(line, address, shown))

    def _draft(self, line: Line, address: Address, shown: Drafted) -> None:
        key = turn_key(address, shown.turn)
        writing = self._writings.get(key)
        if writing is None:
            if self._dead:
                self._spawn(self._leave(line, address, key))
            asked, behind = self._asked.get(address), self._last.get(address)
            writing = Writing(self._desk, line, target_of(address), key, asked, behind)
            remember(self._writings, key, writing)
            remember(self._last, address, writing)
        self._stop_typing(address)
        part = writing.tell(shown.part, shown.delta)
        if part is not None:
            self._spawn(writing.show(part))

    async def _leave(self, line: Line, address: Address, key: str) -> None:
        """Close what a dead run left unfinished in this conversation, and will not go on with (R3)."""
        notebook, channel = self._desk.notebook, target_of(address)
        self._dead.discard(key)
        for old in [one for one in self._dead if one.rpartition("#turn:")[0] == str(address)]:
            self._dead.discard(old)
            drafts = notebook.drafts(old)
            if not drafts:
                continue
            last = drafts[max(drafts)][-1]
            for message in reversed(await line.mine(channel)):
                if last in (str(message.id), f"{UNSURE}{message.content}"):
                    shown = cut(f"{message.content}\n\n{CLOSED}", True)
                    closed = Piece(shown[0] if len(shown) == 1 else CLOSED)
                    await line.edit(channel, str(message.id), closed)
                    break
            notebook.finished(old)

    async def _let_go(self, line: Line, where: str) -> None:
        """Close what a dead run left unfinished here, once it is plain that no turn goes on with it (R3)."""
        address = Address.parse(where)
        await self._gateway.settled(address)
        await self._leave(line, address, "")

    def _break(self, address: Address, shown: Broken) -> None:
        writing = self._writings.pop(turn_key(address, shown.turn), None)
        if writing is not None and self._group is not None:
            self._spawn(writing.close())
        elif writing is not None:
            writing.abandon()
            self._dead.add(writing.key)

    def _work(self, address: Address, shown: Working) -> None:
        state = shown.activity.state
        if state == "idle":
            self._asked.pop(address, None)
        elif address not in self._asked and self._intake is not None:
            # while others wait, nobody can tell which of them the text that is about to grow will answer
            waits = shown.activity.queued > 0
            self._asked[address] = None if waits else self._intake.latest.pop(address, None)
        if state in BUSY:
            self._typing.start(str(address), self._clock() + SLOW)
            self._typed.set()
        else:
            self._stop_typing(address)

    def _stop_typing(self, address: Address) -> None:
        self._typing.stop(str(address))

    async def _type(self) -> None:
        """Say for every conversation at work that the agent types, as long as it does."""
        while True:
            due, at = self._typing.due(self._clock())
            for address in due:
                channel = target_of(Address.parse(address))
                line = self._desk.line
                if line is not None and self._budget.ask(str(channel), Want.TYPING) == 0.0:
                    self._spawn(line.type(channel))
            self._typed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if at is None else max(0.0, at - self._clock())):
                    await self._typed.wait()

    async def _progress(self, line: Line, address: Address, shown: Progress) -> None:
        """One line for a job, edited in place (J13); a line that comes too soon after the last is left out."""
        posted, text = self._lines.get(shown.job, ("", ""))
        channel = target_of(address)
        contents = cut(shown.text, True)
        if (
            not contents
            or text == shown.text
            or (not shown.done and self._budget.ask(str(channel), Want.STREAM_EDIT) > 0.0)
        ):
            return
        self._lines[shown.job] = (posted, shown.text)
        if posted:
            await line.edit(channel, posted, Piece(contents[0]))
        else:
            posted = await line.post(channel, Piece(contents[0]), nonce(f"job:{shown.job}", 0, 0, 1))
        self._lines[shown.job] = (posted, shown.text)
        if shown.done:
            del self._lines[shown.job]
