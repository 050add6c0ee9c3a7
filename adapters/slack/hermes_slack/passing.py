"""Passing: what is shown beside the texts: status, receipts, the progress of jobs. None of it is worth a fault."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from hermes_core.adapter import Activity, Progress, Received
from hermes_core.errors import SendError
from hermes_core.messages import Address
from hermes_core.pacing import Budget, Want
from hermes_slack.faults import ACCOUNT, error_of
from hermes_slack.limits import STATUS_AFTER, STATUS_EVERY
from hermes_slack.posts import FAILURES, Posts
from hermes_slack.render import Piece, cut
from hermes_slack.tasks import begin

__all__ = ["Passing"]

log = logging.getLogger("hermes.slack")

_REACTIONS: Final = {
    "cancelled": "x",
    "interrupting": "octagonal_sign",
    "queued": "hourglass_flowing_sand",
    "steering": "eyes",
}
_STATES: Final = {"stopping": "is stopping…", "thinking": "is thinking…", "writing": "is writing…"}
_USELESS: Final = ACCOUNT | {"missing_scope", "unknown_method", "access_denied", "not_allowed"}
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
        self, client: AsyncWebClient, posts: Posts, budget: Budget, group: asyncio.TaskGroup
    ) -> None:
        self._client = client
        self._posts = posts
        self._budget = budget
        self._group = group
        self._signs: dict[Address, _Sign] = {}
        self._at_work: set[str] = set()  # jobs
        self._progress: dict[str, tuple[Address, Progress]] = {}
        self._lines: dict[str, str] = {}
        self._off: set[str] = set()  # methods that this app may not call

    # -- status

    def working(self, address: Address, activity: Activity) -> None:
        """The status line of a thread; at the top of a direct chat Slack has none."""
        if address.thread is None or "assistant.threads.setStatus" in self._off:
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
            begin(self._group, self._status(address, sign))
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

    # -- receipts

    def received(self, address: Address, receipt: Received) -> None:
        """A reaction on the message (T6). A slash command has no message to react to."""
        name = _REACTIONS.get(receipt.kind)
        if name is not None and _is_ts(receipt.id) and "reactions.add" not in self._off:
            begin(
                self._group,
                self._call("reactions.add", channel=address.channel, timestamp=receipt.id, name=name),
            )

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

    async def _call(self, method: str, **arguments: Any) -> None:
        try:
            await self._client.api_call(method, json=arguments)
        except FAILURES as error:
            word = error_of(error) if isinstance(error, SlackApiError) else type(error).__name__
            if word in _USELESS and method not in self._off:
                self._off.add(method)
                log.warning("Slack does not let this app call %s (%s); it is left out", method, word)
            else:
                log.debug("%s failed: %s", method, word)


def _is_ts(id_: str) -> bool:
    seconds, dot, digits = id_.partition(".")
    return bool(dot) and seconds.isdecimal() and digits.isdecimal()
