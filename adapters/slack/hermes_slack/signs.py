"""Signs: what is shown beside the texts: what the agent does, and what became of a message. None is worth a fault."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from hermes_core.adapter import Activity, Received
from hermes_core.errors import SendError
from hermes_core.messages import Address
from hermes_core.writing import kept
from hermes_slack.client import Client
from hermes_slack.convert import is_ts
from hermes_slack.faults import ACCOUNT, word_of
from hermes_slack.limits import STATUS_AFTER, STATUS_EVERY, WORDS
from hermes_slack.posts import Speaker

__all__ = ["WORKING", "Signs"]

log = logging.getLogger("hermes.slack")

WORKING: Final = "thought_balloon"
_USELESS: Final = ACCOUNT.union(WORDS["errors"]["useless"])
_TRIES: Final = 5  # to take a sign away that Slack wants to keep a while
_STATUS: Final = "assistant.threads.setStatus"

_Mark = tuple[str, str]  # a channel, and the message in it that bears the agent's reaction


class _Sign:
    """What is to be shown in one conversation; "" once the agent is idle."""

    __slots__ = ("changed", "wanted")

    def __init__(self) -> None:
        self.wanted = ""
        self.changed = asyncio.Event()

    async def changes(self) -> None:
        """Wait until something else is wanted, or what is shown would lapse."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STATUS_EVERY):
                await self.changed.wait()


class Signs:
    """The status line of a thread; at the top of a direct chat, where Slack has none, a reaction (case 42).

    `path` keeps where reactions stand: those that a run left behind are taken away by the next one.
    """

    def __init__(
        self,
        client: Client,
        speaker: Callable[[Address], Speaker | None],
        begin: Callable[[Coroutine[Any, Any, None]], object],
        path: Path | None,
    ) -> None:
        self._client = client
        self._speaker = speaker
        self._begin = begin
        self._path = path
        self._signs: dict[Address, _Sign] = {}
        self._off: set[str] = set()  # methods that this app may not call
        self._marks = set(kept.read(path, list[_Mark], []))
        for mark in list(self._marks):
            begin(self._unmark(mark))

    def working(self, address: Address, activity: Activity) -> None:
        """The agent does this there; the latest is shown."""
        status = WORDS["status"].get(
            activity.state, f"runs {activity.tool}…" if activity.tool else "is at work…"
        )
        sign = self._signs.get(address)
        if sign is None:
            if not status:
                return
            sign = self._signs[address] = _Sign()
            self._begin(self._show(address, sign))
        sign.wanted = status
        sign.changed.set()

    async def _show(self, address: Address, sign: _Sign) -> None:
        """Until it is idle. A quick answer needs no sign."""
        try:
            await asyncio.sleep(STATUS_AFTER)
            if address.thread is not None:
                await self._status(address.channel, address.thread, sign)
            elif (speaker := self._speaker(address)) is not None and is_ts(speaker.ts):
                await self._reaction((address.channel, speaker.ts), sign)
        finally:
            self._signs.pop(address, None)

    async def _status(self, channel: str, thread: str, sign: _Sign) -> None:
        shown = ""
        while sign.wanted or shown:
            sign.changed.clear()
            shown = sign.wanted
            await self._call(_STATUS, channel_id=channel, thread_ts=thread, status=shown)
            if shown:
                await sign.changes()

    async def _reaction(self, mark: _Mark, sign: _Sign) -> None:
        if not sign.wanted:
            return
        self._marks.add(mark)
        kept.write(self._path, sorted(self._marks))
        await self._react("reactions.add", mark, WORKING)
        while sign.wanted:
            sign.changed.clear()
            await sign.changed.wait()
        await self._unmark(mark)

    async def _unmark(self, mark: _Mark) -> None:
        for _ in range(_TRIES):
            wait = await self._react("reactions.remove", mark, WORKING)
            if wait is None:
                break
            await asyncio.sleep(wait)
        self._marks.discard(mark)
        kept.write(self._path, sorted(self._marks))

    def received(self, address: Address, receipt: Received) -> None:
        """A reaction on the message (T6). A slash command has no message to react to."""
        name = WORDS["reactions"].get(receipt.kind)
        if name is not None and is_ts(receipt.id):
            self._begin(self._receipt((address.channel, receipt.id), name))

    async def _receipt(self, mark: _Mark, name: str) -> None:
        await self._react("reactions.add", mark, name)

    async def _react(self, method: str, mark: _Mark, name: str) -> float | None:
        return await self._call(method, channel=mark[0], timestamp=mark[1], name=name)

    async def _call(self, method: str, **arguments: Any) -> float | None:
        """Seconds after which it may be tried again; None: it is done, or not worth it."""
        if method in self._off:
            return None
        try:
            await self._client.call(method, **arguments)
        except SendError as error:
            if (word := word_of(error)) in _USELESS:
                self._off.add(method)
                log.warning("Slack does not let this app call %s (%s); it is left out", method, word)
            else:
                log.debug("%s failed: %s", method, error)
            return error.retry_after
        return None
