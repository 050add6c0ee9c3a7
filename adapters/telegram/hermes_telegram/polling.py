"""Polling: asks for updates, and moves the offset that confirms them only behind what is committed (D1).

Two programs with one token see a 409 in turns; then neither hears everything, so that is said plainly, once
in a while, until it ends (case 41): the polls between two 409s that come back are no end of it. A connection
on which nothing comes, not even the empty answer that ends each long poll, counts as lost a few seconds after
that was due (case 43).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec
import telegram
from telegram.error import Conflict, InvalidToken, TelegramError

from hermes_core.errors import reason
from hermes_telegram import limits
from hermes_telegram.request import Flood, Request

__all__ = ["FIRST_PAUSE", "KINDS", "LONGEST_PAUSE", "Polling", "read"]

log = logging.getLogger("hermes.telegram")

KINDS: Final = ("message", "edited_message", "callback_query")
FIRST_PAUSE: Final = 1.0  # seconds until a call that failed is made again; doubled each time
LONGEST_PAUSE: Final = 30.0
_SAID_AGAIN: Final = 300.0  # seconds between two complaints about the same thing
_ALONE: Final = 60.0  # seconds after the last 409 until no other program polls any more
_UNREADABLE: Final = (AttributeError, KeyError, TypeError, ValueError)


class Polling:
    """One program's long polls. `take` gives the first update that is not kept.

    `ready` is called for each (re)connect, `alive` for each poll that came back. `alone`: so many seconds after
    the last 409 no other program polls any more.
    """

    def __init__(
        self,
        bot: telegram.Bot,
        polls: Request,
        take: Callable[[Sequence[telegram.Update]], Awaitable[int | None]],
        ready: Callable[[], None],
        alive: Callable[[], None],
        timeout: int = limits.POLL,
        alone: float = _ALONE,
    ) -> None:
        self._bot = bot
        self._polls = polls
        self._take = take
        self._ready = ready
        self._alive = alive
        self._timeout = timeout
        self._alone = alone
        self._disputed: float | None = None  # when the last 409 came
        self._offset: int | None = None
        self._connected = False
        self._said = -_SAID_AGAIN
        self._pause = FIRST_PAUSE

    async def run(self) -> None:
        """Poll for ever; `InvalidToken` ends it, and so does a webhook: `Conflict`."""
        while True:
            try:
                updates = await self._poll()
            except InvalidToken:
                raise
            except TelegramError as error:
                self._complain(error)
                await self._rest(error.seconds if isinstance(error, Flood) else None)
                if isinstance(error, Conflict) and "webhook" in error.message:
                    raise
                continue
            self._heard()
            fresh = [one for one in updates if self._offset is None or one.update_id >= self._offset]
            stuck = await self._take(fresh)
            if updates and not fresh:  # a server that knows no offsets: do not ask it all the time
                await asyncio.sleep(FIRST_PAUSE)
            elif stuck is None:
                self._offset = updates[-1].update_id + 1 if updates else self._offset
                self._pause = FIRST_PAUSE
            else:
                self._offset = stuck
                await self._rest()

    async def _poll(self) -> Sequence[telegram.Update]:
        """One poll. Where the library cannot read an update, the others are taken, and that one is passed over.

        The first one waits for nothing: it shows whether updates arrive at all.
        """
        timeout = self._timeout if self._connected else 0
        try:
            return await self._bot.get_updates(self._offset, 100, timeout, allowed_updates=KINDS)
        except _UNREADABLE:
            log.debug("a batch has an update in it that cannot be read")
        return [read(raw, self._bot) for raw in msgspec.json.decode(self._polls.last)["result"]]

    async def _rest(self, seconds: float | None = None) -> None:
        """A while that grows with each failure in a row; or as long as the platform says."""
        if seconds is not None:
            await asyncio.sleep(seconds)
            return
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _heard(self) -> None:
        self._alive()
        if self._disputed is not None and time.monotonic() - self._disputed >= self._alone:
            self._disputed = None
            if self._connected:
                log.warning("messages arrive again: no other program polls")
        if self._connected:
            return
        if self._said > 0.0 and self._disputed is None:
            log.warning("messages arrive again")
        self._connected = True
        self._ready()

    def _complain(self, error: TelegramError) -> None:
        now = time.monotonic()
        known = self._disputed is not None
        if isinstance(error, Conflict) and "webhook" not in error.message:
            self._disputed = now
        else:
            known = False
        if (self._connected and not known) or now - self._said >= _SAID_AGAIN:
            log.error("no messages arrive: %s", _why(error))
            self._said = now
        self._connected = False


def read(raw: Any, bot: telegram.Bot) -> telegram.Update:
    """One update; an empty one, which is passed over, where the library cannot read it."""
    try:
        return telegram.Update.de_json(raw, bot)
    except _UNREADABLE as error:
        what = "update %s could not be read and is passed over: %s"
        log.error(what, raw.get("update_id"), reason(error), exc_info=error)
        return telegram.Update(raw["update_id"])


def _why(error: TelegramError) -> str:
    """Why no messages arrive, for who runs the program."""
    if isinstance(error, Conflict) and "webhook" in error.message:
        return "a webhook was set for this bot, by another program with its token. It is taken away again."
    if isinstance(error, Conflict):
        return (
            "another program polls with this bot's token (409), and Telegram gives each message to one of them "
            "only. Stop the other one, or get a token of its own for it. An old poll may linger for 30 s."
        )
    return str(error)
