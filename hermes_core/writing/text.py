"""Text: one text on its way, from its first words to its last edit, and what is remembered of it meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator

import msgspec

from hermes_core.errors import SendError, reason
from hermes_core.messages import Address
from hermes_core.pacing import Action, Budget, Cut, Delete, Delta, Edit, Live, Post, Slot, Stopped, Stream
from hermes_core.writing.journal import Draft, Journal
from hermes_core.writing.values import Calls, Doubt, Find, Gone, Place, Style

__all__ = ["Desk", "Text", "Unsent"]

log = logging.getLogger("hermes.writing")


class Unsent(Exception):
    """The first message of a text was certainly not taken: the outbox decides when to try again."""

    def __init__(self, error: SendError) -> None:
        super().__init__(str(error))
        self.error = error


class Desk:
    """What every text needs: how it looks, the budget, the journal, and the calls of the present connection."""

    def __init__(
        self,
        style: Style,
        budget: Budget,
        journal: Journal,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.style = style
        self.budget = budget
        self.journal = journal
        self.clock = clock
        self.wall = wall
        self.open = asyncio.Event()
        self.find: Find | None = None
        self._calls: Calls | None = None

    @contextlib.contextmanager
    def connected(self, calls: Calls, find: Find | None) -> Iterator[None]:
        """There is a connection as long as the block runs."""
        self._calls, self.find = calls, find
        self.open.set()
        try:
            yield
        finally:
            self._calls = None
            self.open.clear()

    async def calls(self) -> Calls:
        """The calls of the present connection, once there is one."""
        while self._calls is None:
            await self.open.wait()
        return self._calls


class Text:
    """Text number `part` under `key`. It is remembered in the journal if it is a draft, or goes on from one.

    `left`: what an earlier run showed of it, or `slots`: messages that show something of it. `first`: if its
    first message is certainly not taken, `Unsent` says so. `before`: the text that must be whole before this
    one is shown. `number` is the adapter's own count of the texts of a turn, which begins anew after a crash.
    """

    def __init__(
        self,
        desk: Desk,
        address: Address,
        key: str,
        part: int = 0,
        *,
        answers: str | None = None,
        cut: Cut | None = None,
        left: Draft | None = None,
        slots: tuple[Slot, ...] = (),
        number: int | None = None,
        first: bool = False,
        before: Text | None = None,
    ) -> None:
        self.address = address
        self.key = key
        self.part = part
        self.number = number
        self.ended = asyncio.Event()  # nothing of it will be posted any more
        self.claimed = False  # its turn's reply completes it
        self.settled = False  # it is whole as it stands
        self.alone = False  # its turn has ended, and it is settled unless its reply comes
        self.passed = False  # the turn is at its next step
        self.before = before
        self._desk = desk
        self._answers = answers
        self._noted = number is not None or left is not None
        self._places: dict[int, Place] = {}
        self._doubt: Doubt | None = None
        if left is not None and not slots:
            slots = tuple(Slot(one, None) for one in left.ids)
            self._doubt = left.doubt
        self._first = first and not slots
        stream = Stream(
            cut or desk.style.cut, desk.style.tempo(address), slots, unsure=self._doubt is not None
        )
        self.live = Live(stream, self._perform, desk.budget, desk.style.destination(address), desk.clock)

    async def after(self) -> None:
        """Wait for the text before this one."""
        before = self.before
        while before is not None:
            await before.ended.wait()
            before = before.before  # one of which nobody saw anything may have ended first
        self.before = None

    @property
    def shown(self) -> bool:
        """Whether something of it may stand there."""
        stream = self.live.stream
        return bool(stream.slots or stream.running or stream.unsure)

    @property
    def out(self) -> bool:
        """Whether something of it stands there, or may, or is just being handed over."""
        stream = self.live.stream
        return bool(stream.slots or stream.unsure or self.live.calling)

    def add(self, delta: str) -> None:
        """More of it."""
        self.passed = False
        self.live.tell(Delta(delta))

    def pass_by(self) -> None:
        """The turn goes on with a tool: after a crash its next text must not take the place of this one."""
        if not self.passed and not self.live.stream.final:
            self.passed = True
            self._note(self.live.stream.ids, self._doubt)

    async def end(self, text: str, *, broken: bool) -> None:
        """Give what an earlier run showed of `text` its end, or its mark; nothing where that was nothing."""
        await self._ascertain()
        self.live.stream = msgspec.structs.replace(self.live.stream, text=text)
        if broken:
            self.live.tell(Stopped(self._desk.style.interrupted))
            await self.live.run()
        else:
            self.settled = True
            await self.live.finish(text)
        self.is_whole(reply=False)

    async def _ascertain(self) -> None:
        """Look for the message whose id was never heard, where that can be done."""
        if self._doubt is None or self._desk.find is None:
            return
        slots = self.live.stream.slots
        index = next((n for n, slot in enumerate(slots) if slot.id is None), len(slots))
        found = await self._desk.find(self._place(index, 0), self._doubt)
        if found is not None:
            slots = (*slots[:index], Slot(found, None), *slots[index + 1 :])
        self._doubt = None
        self.live.stream = msgspec.structs.replace(self.live.stream, slots=slots, unsure=False)

    # -- one call

    async def _perform(self, action: Action) -> str:
        try:
            return await self._do(action)
        except (SendError, Unsent):
            raise
        except Exception as error:  # the edge to the platform's code: its fault must not lose the text
            log.error("a call for %s failed: %s", self.address, reason(error), exc_info=error)
            raise SendError(f"The adapter failed: {type(error).__name__}.", unknown=True) from error

    async def _do(self, action: Action) -> str:
        calls = await self._desk.calls()
        await self._ascertain()
        match action:
            case Post(index=index):
                slots = self.live.stream.slots
                found = slots[index].id if index < len(slots) else None
                if found is None:
                    id_ = await self._post(calls, action)
                else:
                    id_ = await self._edit(calls, action, found)
            case Edit():
                id_ = await self._edit(calls, action, action.id)
            case Delete():
                id_ = await calls.delete(self._place(action.index, 0), action.id)
        self._note(self._ids(action, id_))
        return id_

    async def _edit(self, calls: Calls, action: Post | Edit, id_: str) -> str:
        place = self._place(action.index, 0)
        try:
            return await calls.edit(place, id_, action.content)
        except SendError as error:
            if error.permanent:
                self._renew(place)
            if error.permanent and isinstance(action, Post):  # what was found is gone since
                slots = self.live.stream.slots
                slots = (*slots[: action.index], Slot(None, None), *slots[action.index + 1 :])
                self.live.stream = msgspec.structs.replace(self.live.stream, slots=slots)
                raise again(error) from error
            raise

    async def _post(self, calls: Calls, action: Post) -> str:
        """An earlier try that may have worked, and cannot be looked up, goes on being in doubt."""
        stays = self.settled or self.live.stream.closing  # as it stood; nobody looks for it by its key
        place, doubt = self._place(action.index, 0 if stays else action.of), self._doubt
        repeat = action.repeat and doubt is not None
        if repeat:
            place = self._places[action.index] = msgspec.structs.replace(place, repeat=True)
        self._doubt = Doubt(action.content.words, self._desk.wall())
        self._note(
            self.live.stream.ids, self._doubt
        )  # a crash in between must know that a message may be out
        try:
            id_ = await calls.post(place, action.content)
        except SendError as error:
            if error.unknown:
                raise
            self._doubt = doubt
            self._note(self.live.stream.ids, doubt)
            if isinstance(error, Gone):
                self._renew(place)
                raise again(error) from error
            again_at_once = error.retry_after == 0.0  # it is cut in another way, or has another place
            if self._first and action.index == 0 and not (repeat or error.permanent or again_at_once):
                if error.retry_after is not None:
                    self._desk.budget.blocked(self._desk.style.destination(self.address), error.retry_after)
                raise Unsent(error) from error
            raise
        self._doubt = None
        return id_

    def _place(self, index: int, of: int) -> Place:
        """The same each time it is asked for."""
        place = self._places.get(index)
        if place is None:
            answers = self._answers if index == 0 else None
            place = self._places[index] = Place(self.address, self.key, self.part, index, of, 0, answers)
        return place

    def _renew(self, place: Place) -> None:
        """The message there is gone; the next one there is another."""
        self._places[place.index] = msgspec.structs.replace(place, again=place.again + 1)

    # -- what is remembered

    def _ids(self, action: Action, id_: str) -> tuple[str, ...]:
        """Its messages after an action that gave `id_`."""
        ids: list[str | None] = [slot.id for slot in self.live.stream.slots]
        if isinstance(action, Delete):
            del ids[action.index]
        elif isinstance(action, Post):
            ids[action.index : action.index + 1] = [id_]
        return tuple(one for one in ids if one is not None)

    def _note(self, ids: tuple[str, ...], doubt: Doubt | None = None) -> None:
        stream = self.live.stream
        if not self._noted or stream.closing:  # of one that is closed stands there what it was
            return
        text = "" if stream.final and not self.settled else stream.text
        passed = self.passed or self.settled
        self._desk.journal.note(Draft(str(self.address), self.key, self.part, ids, text, doubt, passed))

    def is_whole(self, *, reply: bool) -> None:
        """It stands there as it will stay; `reply`: as its turn's reply."""
        if self._noted:
            ids = self.live.stream.ids if reply else ()
            self._desk.journal.whole(self.address, self.key, self.part, ids)


def again(error: SendError) -> SendError:
    """What says to do it again at once, on another way."""
    return SendError(error.message, retry_after=0.0)
