"""/help, /status, /new (/reset) and /plugins."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, TypeVar

from hermes_basics.latest import Latest
from hermes_core.commands import Command, Context, Snapshot, command
from hermes_core.errors import BadArguments
from hermes_core.hookspecs import Interruption, hookimpl
from hermes_core.messages import Address, Entry, Role, TurnEnd, first_words

__all__ = ["BasicsPlugin"]

_T = TypeVar("_T")
_FEW: Final = 3  # of what waits are shown


@command("help", aliases=("commands",))
async def help_(context: Context, name: str = "") -> str:
    """Show what you can type, or everything about one command."""
    if name:
        return _about(context, name.lstrip("/"))
    known = context.registry.all(context.role)
    width = max(len(one.usage) for one in known)
    lines = [f"{one.usage:<{width}}  {one.help}" for one in known]
    return "Write anything, or one of these:\n\n```text\n" + "\n".join(lines) + "\n```"


def _about(context: Context, name: str) -> str:
    found = context.registry.get(name)
    if found is None or context.role < found.role:
        near = context.registry.nearest(name, context.role)
        raise BadArguments(
            f"There is no command /{name}.", f"Did you mean /{near}?" if near else "Type /help"
        )
    lines = [f"{found.usage}: {found.help}"]
    if found.aliases:
        lines.append("Also: " + ", ".join(f"/{alias}" for alias in found.aliases))
    if found.role > Role.USER:
        lines.append(f"For {found.role.name.lower()}s.")
    return "\n".join(lines)


@command("new", aliases=("reset",))
async def new(context: Context) -> str:
    """Begin with an empty history; what waits and all notes are cancelled."""
    stopped, cancelled = await context.conversation.reset()
    parts = ["This is a new conversation."]
    if stopped:
        parts.append("The running work was stopped.")
    if cancelled:
        parts.append(f"Cancelled: {len(cancelled)} that waited.")
    return " ".join(parts)


@command("plugins", role=Role.OWNER, form="[reload NAME]")
async def plugins(context: Context, what: Literal["list", "reload"] = "list", name: str = "") -> str:
    """Show the plugins, or load one anew while everything goes on."""
    if what == "reload":
        if not name:
            raise BadArguments("/plugins reload: NAME is missing.", "Type /plugins to see them all.")
        return await context.plugins.reload(name)
    rows = [
        f"{one.name} {one.version}".rstrip()
        + (": has a problem, the log says what" if one.trouble else "" if one.enabled else ": off")
        for one in context.plugins.all()
    ]
    return "\n".join(f"- {row}" for row in rows)


class BasicsPlugin:
    """Four commands; no settings."""

    def __init__(self) -> None:
        self._latest = Latest()

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        """The commands."""

        @command("status")
        async def status(context: Context) -> str:
            """Show what the agent does here, what waits, and how it is set."""
            return "\n".join(f"- {row}" for row in await _status(context, self._latest))

        return (help_, status, new, plugins)

    @hookimpl
    def hermes_turn_started(self, address: Address) -> None:
        """A turn began."""
        self._latest.started(address)

    @hookimpl
    def hermes_turn_ended(self, address: Address, end: TurnEnd, reply: int | None) -> None:
        """A turn ended."""
        self._latest.ended(address, end, reply)

    @hookimpl
    def hermes_interrupt(self, address: Address) -> None:
        """A turn is being stopped."""
        self._latest.asked_to_stop(address)

    @hookimpl
    def hermes_interrupted(self, interruption: Interruption) -> None:
        """A turn was stopped."""
        self._latest.stopped(interruption)


async def _status(context: Context, latest: Latest) -> list[str]:
    now = context.conversation.snapshot()
    doing = f"{now.state} {now.tool}".strip()
    since = latest.since(context.address) if now.turn is not None else None
    turn = (
        f" (turn {now.turn}{f', for {_time(since)}' if since is not None else ''})"
        if now.turn is not None
        else ""
    )
    # the cause is in the log, and stays there (X2)
    trouble = now.troubled if context.role >= Role.ADMIN else ()
    rows = [
        f"Now: {doing}{turn}",
        f"Waiting: {_some(now.waiting, lambda one: f'{one.short} {_quoted(one)}')}",
    ]
    if asked := context.conversation.permissions():
        rows.append(
            f"For /approve or /deny: {_some(asked, lambda one: f'{one.id} {first_words(one.text, 40)}')}"
        )
    if now.notes:
        notes = _some(now.notes, lambda one: f"{one.short} {_place(one, now)}: {_quoted(one)}")
        rows.append(f"Notes: {notes}")
    if jobs := [one for one in await context.jobs.list() if not one.state.final]:
        rows.append(
            f"Jobs: {_some(jobs, lambda one: f'{one.id} {one.tool} {one.state.value} {one.progress}'.strip())}"
        )
    if now.failure:
        ago = _time(max(0.0, time.time() - now.failed_at))
        rows.append(f"Last error: {ago} ago: {first_words(now.failure, 200)}")
    return [
        *rows,
        *latest.lines(context.address),
        f"Replies so far: {now.replies}, turns in the context: {now.history}",
        f"A message during work: {now.busy.value}",
        f"Model: {now.model}",
        f"Conversation: {now.address}",
        *([f"Plugins with a problem: {', '.join(trouble)}; the log says what"] if trouble else []),
    ]


def _some(found: Sequence[_T], shown: Callable[[_T], str]) -> str:
    """How many, and the first few of them."""
    if not found:
        return "nothing"
    more = f", and {len(found) - _FEW} more" if len(found) > _FEW else ""
    return f"{len(found)} ({', '.join(map(shown, itertools.islice(found, _FEW)))}{more})"


def _quoted(entry: Entry) -> str:
    return f"“{first_words(entry.text, 40)}”"


def _place(note: Entry, now: Snapshot) -> str:
    at = note.at_reply or 0
    return "with the next turn" if at <= now.replies else f"after reply {at}"


def _time(seconds: float) -> str:
    """A length of time in one word: 12 s, 3 min, 5 h, 2 days."""
    for unit, length in (("s", 60.0), ("min", 60.0), ("h", 24.0)):
        if seconds < length:
            return f"{seconds:.0f} {unit}"
        seconds /= length
    return f"{seconds:.0f} days"
