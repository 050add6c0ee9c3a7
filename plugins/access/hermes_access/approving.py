"""/approve and /deny: the answer to a tool call that needs a person's yes."""

from __future__ import annotations

from hermes_core.commands import Command, Context, command
from hermes_core.errors import BadArguments, CommandError
from hermes_core.messages import first_words

__all__ = ["approving"]


def approving() -> tuple[Command, Command]:
    """The two commands."""
    return approve, deny


@command("approve", form="[ID] [always]")
async def approve(context: Context, id: str = "", how: str = "") -> str:
    """Let a tool call run that waits for your answer."""
    chosen = id
    if id.lower() == "always" and not how:
        chosen, how = "", id
    if how.lower() not in ("", "always"):
        raise BadArguments(
            f"/approve: {how[:40]!r} is not known here.", "Type /approve ID, or /approve ID always"
        )
    always = bool(how)
    done = context.conversation.permit(_meant(context, chosen, "approve"), True, always)
    rest = ", and from now on without a question, until /new or a restart" if always else ""
    return f"Approved{rest}: {first_words(done.text)}"


@command("deny", form="[ID]")
async def deny(context: Context, id: str = "") -> str:
    """Say no to a tool call that waits for your answer."""
    done = context.conversation.permit(_meant(context, id, "deny"), False)
    return f"Denied: {first_words(done.text)}"


def _meant(context: Context, id_: str, name: str) -> str:
    """The id that was typed, or of the only one that waits."""
    if id_:
        return id_.lower()
    waiting = context.conversation.permissions()
    if len(waiting) == 1:
        return waiting[0].id
    if not waiting:
        raise CommandError("Nothing waits for an answer here.")
    listed = "; ".join(f"{one.id} {first_words(one.text, 30)}" for one in waiting)
    raise BadArguments(f"{len(waiting)} wait for an answer: {listed}.", f"Type /{name} ID")
