"""/after N TEXT (A1 to A9)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from hermes_core.commands import Command, Context, Rest, command
from hermes_core.config import AfterSettings, Config
from hermes_core.errors import BadArguments, NotAllowed
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Entry, Role, first_words

__all__ = ["AfterPlugin"]

_USAGE: Final = "Type /after N TEXT, such as: /after 2 now look at the first point again"
_NUMBER: Final = re.compile(r"([+\-−－]?)(\d+)")  # digits of any script; the signs of phones as well
_LONGEST: Final = 9  # digits; what has more is above every limit


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

        @command("after", aliases=("af",), form="N TEXT")
        async def after(context: Context, text: Rest = Rest("")) -> str:
            """Keep a note for the turn after N more replies; or: list, cancel ID, clear."""
            first, *more = text.split(maxsplit=2) or [""]
            match first.lower(), more:
                case "list", []:
                    return _listing(context)
                case "clear", []:
                    return await _clear(context)
                case "cancel", [which]:
                    return await _cancel(context, which)
                case (("list" | "clear" | "cancel"), _):
                    raise BadArguments("Type /after list, /after cancel ID or /after clear.")
            return await self._keep(context, text)

        return (after,)

    async def _keep(self, context: Context, text: str) -> str:
        replies, note = self._checked(text)
        # a crash can make the command run again: what it kept then takes no second place
        others = [
            one
            for one in context.conversation.snapshot().notes
            if not one.id.startswith(f"{context.entry.id}+")
        ]
        if len(others) >= self._limits.max_entries:
            raise BadArguments(
                f"There are {self._limits.max_entries} notes already.",
                "Type /after list to see them and /after cancel ID to make room.",
            )
        kept = await context.conversation.note(note, replies)
        return await _place(context, kept)

    def _checked(self, text: str) -> tuple[int, str]:
        """N and TEXT; `BadArguments` says what to type instead (A8)."""
        first, *more = text.split(maxsplit=1) or [""]
        note = more[0].strip() if more else ""
        if not first:
            raise BadArguments("/after: N is missing.", _USAGE)
        number = _NUMBER.fullmatch(first)
        if number is None:
            raise BadArguments(f"/after: N must be a whole number, not {first[:40]!r}.", _USAGE)
        sign, digits = number.groups()
        replies = int(digits) if len(digits) <= _LONGEST else 10**_LONGEST
        if sign not in ("", "+") and replies:
            back = str(replies) if len(digits) <= _LONGEST else "K"
            raise BadArguments(
                "/after looks ahead: N cannot be negative.",
                f"To go back to an earlier reply, type /reply {back} TEXT",
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
    """Where a note lands, with a landmark: people see a wrong place before it matters (A4)."""
    ahead = _ahead(note, context.conversation.snapshot().replies)
    where = f"after reply {note.at_reply} ({ahead} from now)" if ahead else "for the next turn"
    latest = await context.conversation.quote(1)
    landmark = f" The latest reply is {latest[0]}: “{first_words(latest[1])}”" if latest else ""
    return f"Noted [{note.short}] {where}.{landmark}"


def _ahead(note: Entry, replies: int) -> int:
    """How many replies are to come before it is due."""
    return max((note.at_reply or 0) - replies, 0)


def _listing(context: Context) -> str:
    snapshot = context.conversation.snapshot()
    if not snapshot.notes:
        return "No notes wait here."
    rows = []
    for position, note in enumerate(snapshot.notes, 1):
        ahead = _ahead(note, snapshot.replies)
        place = f"after reply {note.at_reply} ({ahead} from now)" if ahead else "next turn"
        if position <= snapshot.riding:
            place = "in the running turn"
        rows.append(f"{position}. [{note.short}] {place}: {first_words(note.text)}")
    return "\n".join(rows)


async def _clear(context: Context) -> str:
    before = context.conversation.snapshot()
    if not before.notes:
        return "No notes wait here."
    waiting = before.notes[before.riding :]
    gone = await context.conversation.cancel([note.id for note in waiting])
    said = ["Cancelled 1 note." if len(gone) == 1 else f"Cancelled {len(gone)} notes."]
    if before.riding:
        said.append(f"{before.riding} {'rides' if before.riding == 1 else 'ride'} with the running turn.")
    if len(gone) < len(waiting):
        said.append(f"Those of other people stay: {len(waiting) - len(gone)}.")
    return " ".join(said)


async def _cancel(context: Context, which: str) -> str:
    snapshot = context.conversation.snapshot()
    found = next((note for note in snapshot.notes if note.short == which.lower().strip("[]")), None)
    if (
        found is None
        and which.isdecimal()
        and len(which) <= _LONGEST
        and 1 <= int(which) <= len(snapshot.notes)
    ):
        found = snapshot.notes[int(which) - 1]
    if found is None:
        raise BadArguments(f"No note waits under {which[:40]!r}.", "Type /after list to see them.")
    if found.author.id != context.author.id and context.role < Role.ADMIN:
        raise NotAllowed("Somebody else left this note.", "Only that person or an admin can cancel it.")
    if not await context.conversation.cancel([found.id]):
        raise BadArguments(
            "The running turn carries this note already.", "Type /stop to end it, then cancel the note."
        )
    return f"Cancelled: {first_words(found.text)}"
