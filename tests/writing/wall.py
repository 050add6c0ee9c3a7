"""Wall: a platform in memory that shows messages, misbehaves as it is told, and can be looked at from outside."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from hermes_core.adapter import Activity as Does
from hermes_core.adapter import Drafted, Working
from hermes_core.errors import SendError
from hermes_core.messages import Address, Outgoing, turn_key
from hermes_core.pacing import Budget, Cut, Rate, Tempo
from hermes_core.writing import Doubt, Gone, Journal, Place, Style, Writing

HERE: Final = Address("wall", "me", "room")
THERE: Final = Address("wall", "me", "other")
LIMIT: Final = 20
MARK: Final = "#cut#"
REPEAT: Final = "(again) "
FREE: Final = (Rate(1_000_000.0, burst=1_000_000),)


class Sheet(msgspec.Struct, frozen=True):
    """What one message shows."""

    words: str
    final: bool = False
    files: tuple[str, ...] = ()


def cut(text: str, final: bool) -> list[Sheet]:
    """Messages of 20 characters; the final text is a little different, as a formatted one is."""
    text = text.replace("*", "") if final else text
    parts = [text[at : at + LIMIT] for at in range(0, len(text), LIMIT)]
    return [Sheet(one, final) for one in parts if one.strip()]


def whole(outgoing: Outgoing, drafted: bool) -> Cut:
    """The files stand under the last message, or in one of their own."""

    def dressed(text: str, final: bool) -> list[Sheet]:
        sheets = cut(text, final)
        names = tuple(one.name for one in outgoing.attachments)
        if final and names:
            sheets = [*sheets, Sheet("", True, names)]
        return sheets

    return dressed


STYLE: Final = Style(
    cut,
    MARK,
    whole=whole,
    repeat=REPEAT,
    tempo=lambda address: Tempo(first_chars=4, first_after=0.1, every=0.5),
)


class Died(Exception):
    """The process was killed here: nothing of it runs on."""


class Shown(msgspec.Struct):
    """A message on the wall."""

    place: Place
    sheet: Sheet


Fault = str  # ok, refused, parked, before, after, fault, die before, die after


class Wall:
    """`faults` says what meets each call, one after the other. Only with `asked` can posts be looked up.

    A call that dies never comes back; `died` is then set, and `journal` has what stood in the file at that instant.
    """

    def __init__(self, faults: Iterable[Fault] = (), *, asked: bool = True, file: Path | None = None) -> None:
        self.messages: dict[str, Shown] = {}
        self.faults: Iterator[Fault] = iter(faults)
        self.calls: list[str] = []
        self.typed: list[Address] = []
        self.died = asyncio.Event()
        self.journal = b""
        self.steps = 0  # tool calls of the turn, which the store knows
        self.slow = 0.0  # seconds that a call takes
        self._file = file
        self.find = self._find if asked else None
        self._ids = itertools.count(1)

    def texts(self, address: Address = HERE) -> list[str]:
        """The texts there in the order in which they were begun, each with the messages that it has."""
        found: dict[tuple[str, int], str] = {}
        for one in self.messages.values():
            if one.place.address == address:
                key = (one.place.key, one.place.part)
                found[key] = found.get(key, "") + one.sheet.words
        return list(found.values())

    def answers(self) -> list[str | None]:
        """What each message answers."""
        return [one.place.answers for one in self.messages.values()]

    # -- calls

    async def post(self, place: Place, content: Sheet) -> str:
        """Post a message."""
        content = _marked(place, content)
        id_ = f"m{next(self._ids)}"
        return await self._call("post", lambda: self._put(id_, Shown(place, content)), id_)

    async def edit(self, place: Place, id: str, content: Sheet) -> str:
        """Edit one."""

        def do() -> None:
            if id not in self.messages:
                raise SendError("it is gone", permanent=True)
            self.messages[id].sheet = _marked(place, content)

        return await self._call("edit", do, id)

    async def delete(self, place: Place, id: str) -> str:
        """Remove one."""

        def do() -> None:
            if self.messages.pop(id, None) is None:
                raise SendError("it is gone", permanent=True)

        return await self._call("delete", do, id)

    async def say(self, address: Address) -> None:
        """Type."""
        self.typed.append(address)

    async def _find(self, place: Place, doubt: Doubt) -> str | None:
        self.calls.append("find")
        for id_, one in self.messages.items():
            found = one.place
            if (found.key, found.part, found.index, found.again) == (
                place.key,
                place.part,
                place.index,
                place.again,
            ) and one.sheet.words == doubt.words:
                return id_
        return None

    def _put(self, id_: str, shown: Shown) -> None:
        self.messages[id_] = shown

    async def _call(self, name: str, do: Callable[[], None], id_: str) -> str:
        self.calls.append(name)
        await asyncio.sleep(self.slow or 0.01)
        fault = next(self.faults, "ok")
        if fault == "refused":
            raise SendError("not now")
        if fault == "parked":
            raise SendError("too much", retry_after=3.0)
        if fault == "before":
            raise SendError("cut before", unknown=True)
        if fault == "fault":
            raise RuntimeError("a fault of the adapter")
        if fault == "otherwise":
            raise SendError("cut it in another way", retry_after=0.0)
        if fault == "gone" and name == "post":
            raise Gone("it was removed")
        if fault == "die before":
            await self._die()
        do()
        if fault == "after":
            raise SendError("cut after", unknown=True)
        if fault == "die after":
            await self._die()
        return id_

    async def _die(self) -> None:
        self.journal = self._file.read_bytes() if self._file is not None and self._file.exists() else b""
        self.died.set()
        await asyncio.Event().wait()


def _marked(place: Place, sheet: Sheet) -> Sheet:
    return msgspec.structs.replace(sheet, words=REPEAT + sheet.words) if place.repeat else sheet


def loop_time() -> float:
    """The time of the running loop, which is virtual in these tests."""
    return asyncio.get_running_loop().time()


class House:
    """One run of a program: a `Writing` on a wall."""

    def __init__(
        self,
        wall: Wall,
        file: Path | None = None,
        style: Style = STYLE,
        rates: tuple[Rate, ...] = FREE,
    ) -> None:
        self.wall = wall
        budget = Budget(lambda chat: rates, FREE, loop_time)
        self.writing = Writing(style, budget, Journal(file), loop_time, loop_time)
        self.settled = asyncio.Event()  # no turn goes on

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """A connection for the length of the block."""
        run = asyncio.create_task(
            self.writing.run(self.wall, self._settled, find=self.wall.find, typing=self.wall.say)
        )
        try:
            await asyncio.sleep(0)
            yield
        finally:
            run.cancel()
            await asyncio.wait({run})
            assert run.cancelled(), run

    async def _settled(self, address: Address) -> None:
        await self.settled.wait()

    # -- what the core does

    def says(self, turn: int, part: int, *deltas: str) -> None:
        """The model writes."""
        for delta in deltas:
            self.writing.show(HERE, Drafted(turn, part, delta))

    def does(self, state: str, queued: int = 0) -> None:
        """The conversation's activity."""
        self.writing.show(HERE, Working(Does(state, queued=queued)))

    async def reply(self, turn: int, text: str, **more: Any) -> tuple[str, ...]:
        """The turn ends with this; tried again as the outbox does."""
        return await self.send(Outgoing(turn_key(HERE, turn), HERE, text, turn=str(turn), **more))

    async def send(self, outgoing: Outgoing) -> tuple[str, ...]:
        """As the outbox does: with its mark where nothing can be looked up and the fate of a try is unknown."""
        while True:
            try:
                return (await self.writing.send(outgoing)).ids
            except SendError as error:
                if error.permanent or error.unknown:
                    raise
                await asyncio.sleep(error.retry_after or 0.5)
