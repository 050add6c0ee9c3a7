"""Left: what an earlier run showed and did not complete, until a turn goes on with it or it gets its end (R3)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from hermes_core.errors import SendError
from hermes_core.messages import Address
from hermes_core.writing.journal import Draft
from hermes_core.writing.text import Desk, Text

__all__ = ["Count", "Left"]

log = logging.getLogger("hermes.writing")

_COUNTS: Final = 500  # conversations whose latest text is known

Spawn = Callable[[Coroutine[Any, Any, None]], bool]


class Count(msgspec.Struct, frozen=True):
    """Text number `part` of a turn. `answered`: one up to it answers what the turn answers, which is enough.

    `reply`: it is the turn's reply, which is the same text however often it is tried.
    """

    key: str
    part: int = 0
    answered: bool = False
    reply: bool = False


class Left:
    """The drafts of an earlier run, by conversation. `spawn`: see `Writing`."""

    def __init__(self, desk: Desk, spawn: Spawn) -> None:
        self._desk = desk
        self._spawn = spawn
        self._drafts: dict[Address, list[Draft]] = {}
        self._counts: dict[Address, Count] = {}  # of the latest text there
        self._closing: dict[Address, Text] = {}  # the last one there that is given its end
        for draft in desk.journal.drafts():
            self._drafts.setdefault(Address.parse(draft.address), []).append(draft)

    def of(self, address: Address, key: str) -> list[Draft]:
        """What is left of this turn."""
        return [one for one in self._drafts.get(address, ()) if one.key == key]

    def unfinished(self) -> list[Address]:
        """Where something stands that needs an end."""
        return [one for one, drafts in self._drafts.items() if any(draft.text for draft in drafts)]

    def next(self, address: Address, key: str) -> tuple[Count, Draft | None]:
        """The next text of this turn, and what an earlier run showed of it; its other texts are to be closed."""
        last = self._counts.get(address)
        if last is not None and last.key == key:
            return last if last.reply else msgspec.structs.replace(last, part=last.part + 1), None
        count, found, others = Count(key), None, []
        for draft in self._drafts.pop(address, ()):
            if draft.key == key and not draft.passed:
                count, found = Count(key, draft.part, count.answered), draft
                continue
            if draft.key == key:
                shown = draft.whole or bool(draft.ids) or draft.doubt is not None
                count = Count(key, draft.part + 1, count.answered or shown)
            if draft.text:
                others.append(draft)
        if others:
            self._drafts[address] = others
        return count, found

    def begun(self, address: Address, count: Count) -> None:
        """This text is opened."""
        self._counts.pop(address, None)
        self._counts[address] = count
        if len(self._counts) > _COUNTS:
            del self._counts[next(iter(self._counts))]

    def close(self, address: Address, key: str, before: Text | None = None) -> Text | None:
        """Give all that is left there its end: as it stands for turn `key`, else with a mark. Needs a connection.

        Gives what a text must come after: the last of these, or the one `before` it, which came after them.
        """
        last = self._closing.get(address)
        for draft in self._drafts.pop(address, ()):
            if not draft.text:
                continue
            text = Text(self._desk, address, draft.key, draft.part, left=draft, before=last)
            if self._spawn(self._end(text, draft, broken=draft.key != key)):
                self._closing[address] = last = text
            else:
                self._drafts.setdefault(address, []).append(draft)
        return last if before is None or before.ended.is_set() else before

    async def _end(self, text: Text, draft: Draft, *, broken: bool) -> None:
        closed = False
        try:
            await text.after()
            await text.end(draft.text, broken=broken)
            closed = True
        except SendError as error:
            log.info("an unfinished text could not be closed: %s", error)
        finally:
            text.ended.set()
            if not closed:
                self._drafts.setdefault(text.address, []).append(draft)
            if self._closing.get(text.address) is text:
                del self._closing[text.address]
