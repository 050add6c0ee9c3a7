"""/reply K TEXT, and native replies (T3)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hermes_core.commands import Command, Context, ConversationView, Rest, command
from hermes_core.errors import BadArguments
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Entry, When, first_words

__all__ = ["FollowupPlugin"]


@command("reply")
async def reply(context: Context, k: int, text: Rest) -> str:
    """Answer the K-th latest reply, in a turn of its own: 1 is the last one."""
    if k < 1:
        raise BadArguments(
            "/reply counts back: K is 1 for the latest reply, 2 for the one before.",
            "To leave a note for later, type /after N TEXT",
        )
    there = context.conversation.snapshot().replies
    if not there:
        raise BadArguments("There is no reply yet to go back to.", "Just write.")
    found = await context.conversation.quote(k) if k <= there else None
    if found is None:
        count = "1 reply" if there == 1 else f"{there} replies"
        raise BadArguments(
            f"There is only {count} to go back to."
            if there == 1
            else f"There are only {count} to go back to.",
            "Type /reply K TEXT, where K is 1 for the latest.",
        )
    number, quoted = found
    entered = await context.conversation.enter(text, When.FOLLOWUP, quoted)
    waits = f" It waits at position {entered.position}." if entered.position else ""
    return f"To reply {number}: “{first_words(quoted)}”.{waits}"


class FollowupPlugin:
    """One command, and what a native reply becomes; no settings."""

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        """The command."""
        return (reply,)

    @hookimpl
    async def hermes_message(self, entry: Entry, conversation: ConversationView) -> Entry | None:
        """A native reply to one of the agent's messages is a turn of its own, with that message in front."""
        if entry.reply_to is None or entry.quote is not None:
            return None
        quoted = await conversation.quoted(entry.reply_to)
        if quoted is None:
            return None
        return msgspec.structs.replace(entry, when=When.FOLLOWUP, quote=quoted)
