"""Passing: what is shown beside the texts: status, receipts, the progress of jobs. None of it is worth a fault."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from hermes_core.adapter import Activity, Progress, Received
from hermes_core.errors import SendError
from hermes_core.messages import Address
from hermes_core.pacing import Budget, Want
from hermes_slack.drafts import Draft, Drafts
from hermes_slack.faults import ACCOUNT, word_of
from hermes_slack.limits import STATUS_AFTER, STATUS_EVERY
from hermes_slack.posts import Posts
from hermes_slack.render import Piece, cut
from hermes_slack.streams import Speaker
from hermes_slack.tasks import begin

__all__ = ["WORKING", "Passing"]

log = logging.getLogger("hermes.slack")

WORKING: Final = "thought_balloon"
_REACTIONS: Final = {
    "cancelled": "x",
    "interrupting": "octagonal_sign",
    "queued": "hourglass_flowing_sand",
    "steering": "eyes",
}
_STATES: Final = {
    "asking": "waits for an answer…",
    "stopping": "is stopping…",
    "thinking": "is thinking…",
    "writing": "is writing…",
}
_USELESS: Final = ACCOUNT | {"missing_scope", "unknown_method", "access_denied", "not_allowed"}
_TRIES: Final = 5
_JOBS: Final = 200  # jobs whose line is remembered


class _Sign:
    """What the status of one thread should be."""

    __slots__ = ("changed", "wanted")

    def __init__(self) -> None:
        self.wanted = ""
        self.changed = asyncio.Event()

    async def changes_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.changed.wait()
        except TimeoutError:
            return False
        return True

    async def idle_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while self.wanted:
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            return False
        return True


class Passing:
    """Shows the latest of each kind; what comes while a call is under way replaces what waits."""

    def __init__(
        self,
        posts: Posts,
        budget: Budget,
        drafts: Drafts,
        speaker: Callable[[Address], Speaker | None],
        group: asyncio.TaskGroup,
    ) -> None:
        self._posts = posts
        self._drafts = drafts
        self._speaker = speaker
        self._budget = budget
        self._group = group
        self._signs: dict[Address, _Sign] = {}
        self._at_work: set[str] = set()  # jobs
        self._progress: dict[str, tuple[Address, Progress]] = {}
        self._lines: dict[str, str] = {}
        self._off: set[str] = set()  # methods that this app may not call

    # -- status

    def working(self, address: Address, activity: Activity) -> None:
        """The status line of a thread; at the top of a direct chat Slack has none, and a reaction stands for it."""
        method = "reactions.add" if address.thread is None else "assistant.threads.setStatus"
        if method in self._off:
            return
        if activity.state == "idle":
            status = ""
        elif activity.state == "tool":
            status = f"runs {activity.tool}…"
        else:
            status = _STATES.get(activity.state, "is at work…")
        sign = self._signs.get(address)
        if sign is None:
            if not status:
                return
            sign = self._signs[address] = _Sign()
            show = self._reaction if address.thread is None else self._status
            begin(self._group, show(address, sign))
        sign.wanted = status
        sign.changed.set()

    async def _status(self, address: Address, sign: _Sign) -> None:
        """Say it until it is what is wanted; again before it lapses, until it is idle."""
        try:
            if await sign.idle_within(STATUS_AFTER):
                return  # a quick answer needs no status
            shown: str | None = None
            while True:
                wanted = sign.wanted
                sign.changed.clear()
                if wanted != shown:
                    await self._call(
                        "assistant.threads.setStatus",
                        channel_id=address.channel,
                        thread_ts=address.thread,
                        status=wanted,
                    )
                    shown = wanted
                if not sign.wanted and not shown:
                    return
                if sign.wanted == shown and not await sign.changes_within(STATUS_EVERY):
                    shown = None
        finally:
            self._signs.pop(address, None)

    async def _reaction(self, address: Address, sign: _Sign) -> None:
        """On the message that is being worked at, until it is idle (case 42): also when Slack asks to wait."""
        try:
            speaker = self._speaker(address)
            if await sign.idle_within(STATUS_AFTER) or speaker is None or not _is_ts(speaker.ts):
                return
            key = f"working:{speaker.ts}"
            self._drafts.posted(
                key, str(address), "", speaker.ts
            )  # a run that dies leaves it to the next one
            await self._react("reactions.add", address.channel, speaker.ts, WORKING)
            while sign.wanted:
                sign.changed.clear()
                await sign.changed.wait()
            await self._unmark(address.channel, speaker.ts)
            self._drafts.closed(key)
        finally:
            self._signs.pop(address, None)

    async def _unmark(self, channel: str, ts: str) -> None:
        for _ in range(_TRIES):
            wait = await self._react("reactions.remove", channel, ts, WORKING)
            if wait is None:
                return
            await asyncio.sleep(wait)

    def tidy(self, left: Iterable[Draft]) -> None:
        """Take away the reactions that a former run left."""
        for draft in left:
            channel = Address.parse(draft.address).channel
            begin(self._group, self._unmark(channel, draft.ids[0]))
            self._drafts.closed(draft.key)

    # -- receipts

    def received(self, address: Address, receipt: Received) -> None:
        """A reaction on the message (T6). A slash command has no message to react to."""
        name = _REACTIONS.get(receipt.kind)
        if name is not None and _is_ts(receipt.id) and "reactions.add" not in self._off:
            begin(self._group, self._receipt(address.channel, receipt.id, name))

    async def _receipt(self, channel: str, ts: str, name: str) -> None:
        await self._react("reactions.add", channel, ts, name)

    # -- jobs

    def progress(self, address: Address, progress: Progress) -> None:
        """One line for each job, edited in place (J13)."""
        self._progress[progress.job] = (address, progress)
        if progress.job not in self._at_work:
            self._at_work.add(progress.job)
            begin(self._group, self._job(progress.job))

    async def _job(self, job: str) -> None:
        try:
            while (latest := self._progress.pop(job, None)) is not None:
                address, progress = latest
                want = Want.FINAL_EDIT if progress.done else Want.STREAM_EDIT
                wait = self._budget.ask(address.channel, want)
                if wait > 0.0:
                    self._progress[job] = latest
                    await asyncio.sleep(wait)  # what comes meanwhile takes its place
                    continue
                await self._line(job, address, cut(progress.text, True)[0])
                if progress.done:
                    self._lines.pop(job, None)
        finally:
            self._at_work.discard(job)

    async def _line(self, job: str, address: Address, piece: Piece) -> None:
        try:
            if job in self._lines:
                await self._posts.edit(address, self._lines[job], piece, f"job:{job}", 0)
            else:
                self._lines[job] = await self._posts.post(address, piece, f"job:{job}", 0)
                if len(self._lines) > _JOBS:
                    del self._lines[next(iter(self._lines))]
        except SendError as error:
            log.info("the progress of job %s could not be shown: %s", job, error)
            if error.retry_after is not None:
                self._budget.blocked(address.channel, error.retry_after)

    # -- calls

    async def _react(self, method: str, channel: str, ts: str, name: str) -> float | None:
        return await self._call(method, channel=channel, timestamp=ts, name=name)

    async def _call(self, method: str, **arguments: Any) -> float | None:
        """Seconds after which it may be tried again; None: it is done, or not worth it."""
        try:
            await self._posts.call(method, **arguments)
        except SendError as error:
            word = word_of(error)
            if word in _USELESS and method not in self._off:
                self._off.add(method)
                log.warning("Slack does not let this app call %s (%s); it is left out", method, word)
            else:
                log.debug("%s failed: %s", method, error)
            return error.retry_after
        return None


def _is_ts(id_: str) -> bool:
    seconds, dot, digits = id_.partition(".")
    return bool(dot) and seconds.isdecimal() and digits.isdecimal()
