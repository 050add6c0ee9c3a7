"""/after N TEXT (A1 to A9)."""

from __future__ import annotations

from collections.abc import Iterable

from hermes_core.commands import Command, Context, Rest, command, words
from hermes_core.config import AfterSettings, Config
from hermes_core.errors import BadArguments
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Entry, first_words

__all__ = ["AfterPlugin"]

_USAGE = "Type /after N TEXT, such as: /after 2 now look at the first point again"


class AfterPlugin:
    """One command; its limits are those of `[after]`."""

    def __init__(self) -> None:
        self._limits = AfterSettings()

    @hookimpl
    def hermes_configured(self, config: Config) -> None:
        """Take the limits."""
        self._limits = config.after

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        """The command, unless it is switched off (A9)."""
        if not self._limits.enabled:
            return ()

        @command("after", aliases=("af",))
        async def after(context: Context, text: Rest = Rest("")) -> str:
            """Keep a note for the turn after N more replies; or: list, cancel ID, clear."""
            match words(text):
                case ["list"]:
                    return await _listing(context)
                case ["clear"]:
                    notes = context.conversation.snapshot().notes
                    gone = await context.conversation.cancel([note.id for note in notes])
                    return f"Cancelled {_count(len(gone))}."
                case ["cancel", which]:
                    return await _cancel(context, which)
                case ["list" | "clear" | "cancel", *_]:
                    raise BadArguments("Type /after list, /after cancel ID or /after clear.")
            return await self._keep(context, text)

        return (after,)

    async def _keep(self, context: Context, text: str) -> str:
        replies, note = self._checked(text)
        if len(context.conversation.snapshot().notes) >= self._limits.max_entries:
            raise BadArguments(
                f"There are {self._limits.max_entries} notes already.",
                "Type /after list to see them and /after cancel ID to make room.",
            )
        kept = await context.conversation.note(note, replies)
        return await _place(context, kept)

    def _checked(self, text: str) -> tuple[int, str]:
        """N and TEXT; `BadArguments` says what to type instead (A8)."""
        first, _, rest = text.partition(" ") if " " in text.split("\n", 1)[0] else text.partition("\n")
        note = rest.strip()
        if not first:
            raise BadArguments("/after: N is missing.", _USAGE)
        try:
            replies = int(first)
        except ValueError:
            raise BadArguments(f"/after: N must be a whole number, not {first[:40]!r}.", _USAGE) from None
        if replies < 0:
            raise BadArguments(
                "/after looks ahead: N cannot be negative.",
                f"To go back to an earlier reply, type /reply {-replies} TEXT",
            )
        if replies > self._limits.max_turns:
            raise BadArguments(f"/after: N is at most {self._limits.max_turns}.", _USAGE)
        if not note:
            raise BadArguments("/after: TEXT is missing.", _USAGE)
        if len(note) > self._limits.max_chars:
            raise BadArguments(
                f"/after: TEXT has {len(note)} characters, at most {self._limits.max_chars} are allowed.",
                "Type a shorter one.",
            )
        return replies, note


async def _place(context: Context, note: Entry) -> str:
    """Where a note lands, with a landmark: people see a wrong place before it matters."""
    now = context.conversation.snapshot().replies
    assert note.at_reply is not None, "a note has a place"
    ahead = max(note.at_reply - now, 0)
    where = f"after reply {note.at_reply} ({ahead} from now)" if ahead else "for the next turn"
    latest = await context.conversation.quote(1)
    landmark = f" The latest reply is {latest[0]}: “{first_words(latest[1])}”" if latest else ""
    return f"Noted [{note.short}] {where}.{landmark}"


async def _listing(context: Context) -> str:
    snapshot = context.conversation.snapshot()
    if not snapshot.notes:
        return "No notes wait here."
    rows = []
    for position, note in enumerate(snapshot.notes, 1):
        ahead = max((note.at_reply or 0) - snapshot.replies, 0)
        place = f"after reply {note.at_reply} ({ahead} from now)" if ahead else "next turn"
        rows.append(f"{position}. [{note.short}] {place}: {first_words(note.text)}")
    return "\n".join(rows)


async def _cancel(context: Context, which: str) -> str:
    notes = context.conversation.snapshot().notes
    found = next((note for note in notes if note.short == which.lower().strip("[]")), None)
    if found is None and which.isdecimal() and 1 <= int(which) <= len(notes):
        found = notes[int(which) - 1]
    if found is None:
        raise BadArguments(f"No note waits under {which[:40]!r}.", "Type /after list to see them.")
    if not await context.conversation.cancel([found.id]):
        raise BadArguments("The running turn carries this note already.", "Type /stop to end it.")
    return f"Cancelled: {first_words(found.text)}"


def _count(number: int) -> str:
    return "1 note" if number == 1 else f"{number} notes"
