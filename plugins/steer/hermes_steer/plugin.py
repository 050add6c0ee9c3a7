"""/steer."""

from __future__ import annotations

from collections.abc import Iterable

from hermes_core.commands import Command, Context, Rest, command
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import When

__all__ = ["SteerPlugin"]


@command("steer")
async def steer(context: Context, text: Rest) -> str | None:
    """Give the running work a hint; it goes on and sees TEXT at its next step."""
    entered = await context.conversation.enter(text, When.STEER)
    match entered.kind:
        case "steering":
            return "This goes into the running work at its next step."
        case "queued" if entered.position:
            return f"Queued at position {entered.position}: only the person whose work runs can steer it."
        case "queued":
            return "This comes next."
    return None


class SteerPlugin:
    """One command; no settings: `[steer] skip_pending` belongs to the turn."""

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        """The command."""
        return (steer,)
