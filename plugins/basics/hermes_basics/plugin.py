"""/help, /status, /new (/reset) and /plugins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from hermes_basics.latest import Latest
from hermes_core.commands import Command, Context, command
from hermes_core.errors import BadArguments
from hermes_core.hookspecs import Interruption, hookimpl
from hermes_core.messages import Address, Role, TurnEnd

__all__ = ["BasicsPlugin"]


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
            rows = [*_status(context), *self._latest.lines(context.address)]
            return "\n".join(f"- {row}" for row in rows)

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


def _status(context: Context) -> list[str]:
    now = context.conversation.snapshot()
    doing = f"{now.state} {now.tool}".strip()
    turn = f" (turn {now.turn})" if now.turn is not None else ""
    trouble = (
        now.troubled if context.role >= Role.ADMIN else ()
    )  # its cause is in the log, and stays there (X2)
    return [
        f"Now: {doing}{turn}",
        f"Waiting: {len(now.waiting)}, notes: {len(now.notes)}",
        f"Replies so far: {now.replies}, turns in the context: {now.history}",
        f"A message during work: {now.busy.value}",
        f"Model: {now.model}",
        f"Conversation: {now.address}",
        *([f"Plugins with a problem: {', '.join(trouble)}; the log says what"] if trouble else []),
    ]
