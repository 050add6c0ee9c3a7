"""/stop, /interrupt, /queue, /followup and /busy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Literal

from hermes_core.commands import Command, Context, Entered, Rest, command, words
from hermes_core.errors import BadArguments, JobError, NotAllowed, StoreError
from hermes_core.hookspecs import hookimpl
from hermes_core.job import ABANDONED, Job, JobState
from hermes_core.messages import Entry, When, first_words

__all__ = ["BusyPlugin"]

_NOTHING = Rest("")
_QUOTES = ('"', "'", "“", "„", "«")


@command("stop")
async def stop(context: Context, what: str = "") -> str:
    """Stop the running work and cancel what waits; or one job; or "all": the work and every job here."""
    if what and what.lower() != "all":
        return _ended(await context.jobs.stop(what))
    ran, cancelled = await context.conversation.stop()
    ended = await _stop_jobs(context) if what else await _going_on(context)
    if ended and not (ran or cancelled):
        return ended
    return f"{_stopped(ran, cancelled)} {ended}".strip()


async def _going_on(context: Context) -> str:
    """Jobs outlive the work that started them (I9): who stops it should know."""
    try:
        running = sum(not job.state.final for job in await context.jobs.list())
    except StoreError:  # the work is stopped all the same, and that is what was asked
        return ""
    if not running:
        return ""
    return f"{_count(running, 'job')} {'goes' if running == 1 else 'go'} on: /stop all ends everything."


async def _stop_jobs(context: Context) -> str:
    """End every job here that this person may end; their events start nothing (I10)."""
    running = [job for job in await context.jobs.list() if not job.state.final]
    ends = await asyncio.gather(*(context.jobs.stop(job.id) for job in running), return_exceptions=True)
    lines: list[str] = []
    others = 0
    for end in ends:
        if isinstance(end, JobError):
            others += 1
        elif isinstance(end, BaseException):
            raise end
        else:
            lines.append(_ended(end))
    if lines:
        await context.conversation.stop()  # a turn that the first of the events began
    if others:
        lines.append(f"{_count(others, 'job')} of other people: not stopped.")
    return " ".join(lines)


def _ended(job: Job) -> str:
    """What became of a job that was to be stopped: its true state (J5)."""
    if not job.state.final:
        return f"Job {job.id} is being stopped."
    if job.summary.endswith(ABANDONED):
        return f"Job {job.id}: {job.state.value}. {job.summary}"
    if job.state is JobState.CANCELLED:
        return f"Job {job.id} was stopped."
    return f"Job {job.id} had ended: {job.state.value}, {job.summary}"


def _stopped(ran: bool, cancelled: Sequence[Entry]) -> str:
    if not ran and not cancelled:
        return "Nothing runs here and nothing waits."
    done = ["Stopped."] if ran else ["Nothing ran."]
    if cancelled:
        done.append(f"Cancelled {_count(len(cancelled), 'waiting message')}.")
    return " ".join(done)


@command("interrupt")
async def interrupt(context: Context, text: Rest = _NOTHING) -> str | None:
    """Stop the running work and begin with TEXT, or with what waits."""
    if text:
        entered = await context.conversation.enter(_unquoted(text), When.INTERRUPT)
        if entered.kind == "queued":
            return (
                f"Queued at position {entered.position}: only the person whose work runs can interrupt it."
                if entered.position
                else "This comes next."
            )
        return None
    return None if await context.conversation.interrupt() else "Nothing runs here."


@command("followup")
async def followup(context: Context, text: Rest) -> str | None:
    """Let TEXT have a turn of its own, in its place in the order."""
    return _answer(await context.conversation.enter(_unquoted(text), When.FOLLOWUP))


@command("queue")
async def queue(context: Context, text: Rest) -> str | None:
    """Let TEXT wait for the end of the running work; or: list, cancel POSITION|ID, clear."""
    match words(text) if not text.startswith(_QUOTES) else []:
        case ["list"]:
            return _listing(context)
        case ["clear"]:
            return await _clear(context)
        case ["cancel", which]:
            return await _cancel(context, which)
        case ["cancel", *_]:
            raise BadArguments(
                "/queue cancel needs one position or id.",
                'Type /queue list to see them. To queue this as a text, put it in quotes: /queue "cancel …"',
            )
        case ["list" | "clear" as name, *_]:
            raise BadArguments(
                f"/queue {name} takes nothing more.",
                f'To queue this as a text, put it in quotes: /queue "{name} …"',
            )
    return _answer(await context.conversation.enter(_unquoted(text), When.QUEUE))


@command("busy")
async def busy(
    context: Context, mode: Literal["interrupt", "queue", "steer", "followup", "default"] | None = None
) -> str:
    """Show or set what a message does that comes during work."""
    if mode is None:
        now = context.conversation.snapshot().busy
        return f"A message during work: {now.value}. Others: interrupt, queue, steer, followup, default."
    now = await context.conversation.set_busy(None if mode == "default" else When(mode))
    return f"From now on a message during work: {now.value}."


def _listing(context: Context) -> str:
    waiting = context.conversation.snapshot().waiting
    if not waiting:
        return "Nothing waits."
    rows = [
        f"{position}. [{entry.short}] {first_words(entry.text)}"
        + (f" ({entry.when.value})" if entry.when in (When.STEER, When.FOLLOWUP) else "")
        for position, entry in enumerate(waiting[:50], 1)
    ]
    if len(waiting) > len(rows):
        rows.append(f"… and {len(waiting) - len(rows)} more")
    return "\n".join(rows)


async def _clear(context: Context) -> str:
    waiting = context.conversation.snapshot().waiting
    if not waiting:
        return "Nothing waits."
    before = [entry.id for entry in waiting]
    gone = await context.conversation.cancel(before)
    said = f"Cancelled {_count(len(gone), 'waiting message')}."
    rest = len(before) - len(gone)
    return f"{said} Those of other people stay: {rest}." if rest else said


async def _cancel(context: Context, which: str) -> str:
    found = _find(context, which.lower().strip("[]"))
    gone = await context.conversation.cancel([found.id]) if found is not None else []
    if found is not None and not gone and found.author.id != context.author.id:
        raise NotAllowed("Somebody else wrote this.", "Only that person or an admin can cancel it.")
    if not gone:
        raise BadArguments(f"Nothing waits under {which!r}.", "Type /queue list to see what does.")
    return f"Cancelled: {first_words(gone[0].text)}"


def _find(context: Context, which: str) -> Entry | None:
    """What waits at this position or under this id."""
    if which.isdecimal():
        waiting = context.conversation.snapshot().waiting
        return waiting[int(which) - 1] if 1 <= int(which) <= len(waiting) else None
    return context.conversation.find(which)


def _unquoted(text: str) -> str:
    """A text that is one quoted string stands for what is inside (E4)."""
    if text.startswith(_QUOTES):
        found = words(text)
        if len(found) == 1:
            return found[0]
    return text


def _answer(entered: Entered) -> str | None:
    match entered.kind:
        case "queued":
            return f"Queued at position {entered.position}." if entered.position else "Queued."
        case "steering":
            return "This goes into the running work at its next step."
    return None


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


class BusyPlugin:
    """Five commands; no settings: the configured mode is `[conversation] busy`."""

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        """The commands."""
        return (stop, interrupt, queue, followup, busy)
