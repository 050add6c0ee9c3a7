"""/help, /status and /new (/reset)."""

from __future__ import annotations

from collections.abc import Iterable

from hermes_core.commands import Command, Context, command
from hermes_core.errors import BadArguments
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Role

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


@command("status")
async def status(context: Context) -> str:
    """Show what the agent does here, what waits, and how it is set."""
    now = context.conversation.snapshot()
    doing = f"{now.state} {now.tool}".strip()
    turn = f" (turn {now.turn})" if now.turn is not None else ""
    lines = [
        f"Now: {doing}{turn}",
        f"Waiting: {len(now.waiting)}, notes: {len(now.notes)}",
        f"Replies so far: {now.replies}, turns in the context: {now.history}",
        f"A message during work: {now.busy.value}",
        f"Model: {now.model}",
        f"Conversation: {now.address}",
    ]
    return "\n".join(f"- {line}" for line in lines)


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


class BasicsPlugin:
    """Three commands; no settings."""

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        """The commands."""
        return (help_, status, new)
