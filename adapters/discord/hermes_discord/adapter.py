"""DiscordAdapter: one bot, from its connection to what it sends and shows.

Theory of operation. `run` makes a new client and serves it until it fails for good, inside a task group
that owns every task of the adapter. discord.py hands events over one by one (`_told`); none of them is
waited for there. What is written goes through the core's `Writing`, which outlives the connection.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final

import discord
import msgspec

from hermes_core.adapter import Gateway, Received, Sent, Shown
from hermes_core.errors import HermesError, SendError, reason
from hermes_core.messages import Address, Attachment, Outgoing
from hermes_core.pacing import Budget, Rate, Slot
from hermes_core.recent import Recent
from hermes_core.writing import Journal, Style, Writing
from hermes_discord.calls import Calls
from hermes_discord.doubt import settled
from hermes_discord.files import download
from hermes_discord.intake import REMEMBERED, Intake
from hermes_discord.limits import CHANNEL_RATES, FEATURES, PLATFORM, REQUESTS, TEMPO, TYPING
from hermes_discord.line import Line
from hermes_discord.notebook import Notebook
from hermes_discord.render import CLOSED, REPEAT, Dresser, Piece, complete, cut
from hermes_discord.slash import Slash

__all__ = ["DiscordAdapter"]

log = logging.getLogger("hermes.discord")

RECEIPTS: Final = {"queued": "🕓", "steering": "↪️", "interrupting": "✋", "cancelled": "❌"}
WRITTEN_EVERY: Final = 1.0  # seconds between two writings of the notebook


class _Session(msgspec.Struct, frozen=True):
    """What lives as long as one client."""

    gateway: Gateway
    line: Line
    calls: Calls
    intake: Intake
    slash: Slash


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
        self._connect = partial(
            connect,
            base_url=base_url,
            gateway_url=gateway_url,
            message_content=message_content,
            heartbeat_timeout=heartbeat_timeout,
        )
        self._registers = slash
        self._wall = wall
        self._notebook = Notebook(notebook)
        self._dresser = Dresser()
        self._writing = Writing(
            Style(
                cut,
                CLOSED,
                whole=self._dresser.whole,
                repeat=REPEAT,
                tempo=lambda address: TEMPO,
                destination=lambda address: address.thread or address.channel,
                typing_every=TYPING,
            ),
            Budget(
                lambda channel: CHANNEL_RATES, (Rate(requests, burst=max(1, int(requests))),), clock
            ),  # outlives a connection: the platform does not forget either
            Journal(notebook.with_name("drafts.jsonl") if notebook is not None else None),
            clock,
            wall,
        )
        self._group: asyncio.TaskGroup | None = None
        self._session: _Session
        self._open = asyncio.Event()
        self._doubtful = Recent[str, list[discord.Message]](
            REMEMBERED
        )  # what the history shows, by the key asked for
        self._slots = Recent[str, tuple[Slot, ...]](
            REMEMBERED
        )  # answers to commands that stand in their place

    # -- the connection

    async def run(self, gateway: Gateway) -> None:
        """Serve until cancelled; `ConfigError` for a refused token or a missing intent."""
        line = self._connect(self._told, dated=gateway.dated)
        intake = Intake(gateway, line, self._notebook, self._spawn, self._writing.heard)
        slash = Slash(gateway, line, intake.address, self._spawn)
        self._session = _Session(gateway, line, Calls(line, self._notebook, self._dresser), intake, slash)
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                group.create_task(self._note())
                group.create_task(self._write(gateway, self._session.calls))
                try:
                    await line.serve(self._token)
                finally:
                    self._group = None
                    self._open.clear()
        finally:
            self._notebook.write()

    def _told(self, event: str, args: tuple[Any, ...]) -> bool:
        """Take an event from discord.py; True if nobody else needs it."""
        session = self._session
        match event:
            case "message":
                session.intake.message(args[0])
            case "posted":
                channel, id_, mark = args
                if mark is not None:
                    self._notebook.post(mark, id_)
                session.intake.posted(channel, id_)
            case "socket_event_type":  # of every event, and nobody counts them
                pass
            case "raw_message_edit":
                session.intake.edited(args[0])
            case "raw_message_delete":
                session.intake.deleted(args[0].channel_id, {args[0].message_id})
            case "raw_bulk_message_delete":
                session.intake.deleted(args[0].channel_id, args[0].message_ids)
            case "interaction":
                self._spawn(session.slash.take(args[0]))
            case "connect":
                self._up(session)
            case "resumed":
                session.gateway.ready()
            case _:
                return False
        return True

    def _up(self, session: _Session) -> None:
        """A new session: messages arrive from now on, behind those that were missed."""
        session.intake.missed()
        session.gateway.ready()
        if not self._open.is_set() and self._registers:
            self._spawn(session.slash.sync())
        self._open.set()

    async def _write(self, gateway: Gateway, calls: Calls) -> None:
        await self._open.wait()
        await self._writing.run(calls, gateway.settled, find=calls.find, typing=calls.typing)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._group is None:
            work.close()
        else:
            self._group.create_task(self._guarded(work))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except SendError as error:  # something passing was not shown; what must arrive goes through `send`
            log.info("not shown: %s", error)
        except Exception as error:  # the edge to the platform: a strange event must not end the connection
            what = "an event of Discord, or something to be shown there, failed: %s"
            log.error(what, reason(error), exc_info=error)

    async def _note(self) -> None:
        """Write down what was seen, and look after each heartbeat whether all is as it was."""
        session = self._session
        beat = session.line.latency
        while True:
            await asyncio.sleep(WRITTEN_EVERY)
            self._notebook.write()
            latency = session.line.latency
            if latency != beat and math.isfinite(latency):  # one was acknowledged
                beat = latency
                session.gateway.alive()
                if self._registers and session.slash.stale():
                    self._spawn(session.slash.sync())

    # -- sending

    async def send(self, outgoing: Outgoing) -> Sent:
        """Deliver one message whole, in place of its draft where there is one."""
        key = outgoing.key
        slots: tuple[Slot, ...] = ()
        asks = not outgoing.turn and self._open.is_set() and self._session.slash.waits(outgoing.answers)
        if (asks or key in self._doubtful or key in self._slots) and not self._writing.begun(outgoing):
            slots, doubtful = await self._shown_already(outgoing)
            if doubtful:
                log.warning("%s may have been delivered before; it is sent again with a mark", key)
                outgoing = msgspec.structs.replace(outgoing, repeat=True)
        try:
            sent = await self._writing.send(outgoing, slots)
        except SendError as error:
            if error.permanent:
                self._forget(key)
            raise
        self._forget(key)
        return sent

    def _forget(self, key: str) -> None:
        """It will not be sent again."""
        self._doubtful.pop(key, None)
        self._slots.pop(key, None)

    async def _shown_already(self, outgoing: Outgoing) -> tuple[tuple[Slot, ...], bool]:
        """The messages that show a part of this text, and whether others may: see `doubt`."""
        key = outgoing.key
        if key in self._slots:
            return self._slots[key], False
        pieces = self._dresser.whole(outgoing, False)(outgoing.text, True)
        if not outgoing.turn and pieces and pieces[0].text:
            original = await self._session.slash.answer(outgoing.answers, pieces[0].text)
            if original is not None:
                self._slots[key] = (Slot(original, Piece(pieces[0].text)),)
                return self._slots[key], False
        mine = self._doubtful.get(key)
        return settled(mine, outgoing, pieces, self._wall()) if mine is not None else ((), False)

    async def find(self, key: str, address: Address) -> Sent | None:
        """The message with this key, where the gateway has told us of it; None where that is not certain.

        Discord tells the nonce of a message once, when it is posted. So `send` then looks at what the history
        shows, and the platform itself refuses a nonce that it still knows.
        """
        sent = self._writing.found(key)
        if sent is not None:
            return sent
        ids = complete(key, self._notebook.posted())
        if ids is not None:
            return Sent(ids)
        if not self._open.is_set():
            raise SendError("There is no connection to Discord.", retry_after=1.0)
        self._doubtful[key] = await self._session.calls.mine(address)
        return None

    def fetch(self, attachment: Attachment) -> AsyncIterator[bytes]:
        """The content of a file that came with a message; see `Downloads.fetch`."""
        return download(attachment, self._renewed)

    async def _renewed(self, channel: int, message: int, file: int) -> str | None:
        if not self._open.is_set():
            raise HermesError("There is no connection to Discord at the moment.", "Try again in a while.")
        return await self._session.calls.link(channel, message, file)

    # -- showing

    def show(self, address: Address, shown: Shown) -> None:
        """Show something passing, in a task of its own."""
        if not isinstance(shown, Received):
            self._writing.show(address, shown)
        elif self._open.is_set() and shown.kind in RECEIPTS and shown.id.isdigit():
            self._spawn(self._session.calls.react(address, shown.id, RECEIPTS[shown.kind]))
