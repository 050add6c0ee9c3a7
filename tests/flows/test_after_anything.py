"""Any sequence of notes, messages, interrupts, failures, /new and crashes: the place where a note lands.

It equals a model of three lines: the reply count on arrival plus N; the first turn that starts after it;
riding on when that turn is interrupted or fails (A1 to A5, A7, T7). The whole runtime, in virtual time.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import tempfile
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hermes_after.plugin import AfterPlugin
from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core.messages import Address, Author, Entry, Item, Role, Said, SaidKind, TurnEnd, When
from hermes_core.store import Ending
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.platform import FakePlatform
from hermes_core.testing.virtual import run
from hermes_followup.plugin import FollowupPlugin
from hermes_steer.plugin import SteerPlugin

from .talk import Line
from .test_anything import Model, Tools, World

HERE = Address("fake", "agent", "1")
MOST = 3


class Expected:
    """Where notes have to land, from nothing but what came in and which turns ended how."""

    def __init__(self) -> None:
        self.replies = 0
        self.waiting: list[tuple[int, int, str]] = []  # place in the order, reply, text
        self.riding: list[tuple[int, int, str]] = []
        self.landed: Counter[str] = Counter()
        self.cancelled: set[str] = set()
        self.faults: list[str] = []
        self._order = itertools.count()

    def arrived(self, text: str, ahead: int) -> None:
        self.waiting.append((next(self._order), self.replies + ahead, text))

    def started(self) -> list[str]:
        """The notes of the turn that starts now."""
        self.riding = [note for note in self.waiting if note[1] <= self.replies]
        self.waiting = [note for note in self.waiting if note not in self.riding]
        return [text for _, _, text in self.riding]

    def ended(self, end: TurnEnd) -> None:
        if end is TurnEnd.COMPLETED:
            self.replies += 1
            self.landed.update(text for _, _, text in self.riding)
        else:
            self.waiting = sorted([*self.riding, *self.waiting])
        self.riding = []

    def cancel(self, *, riding: bool = False, first: bool = False, kept: Container[str] = ()) -> None:
        """All that wait but `kept`, the first one only, or those that ride as well."""
        gone = [note for note in self.waiting if note[2] not in kept][: 1 if first else None]
        self.waiting = [note for note in self.waiting if note not in gone]
        if riding:
            gone += self.riding
            self.riding = []
        self.cancelled.update(text for _, _, text in gone)


class Watched(Line):
    """Tells what starts and ends to the model, and looks whether it is so."""

    def __init__(self, store: MemoryStore, expected: Expected, slow: bool) -> None:
        super().__init__(store, slow)
        self._expected = expected

    def start_turn(self, address: Address, turn: int, items: Sequence[Item], entries: Sequence[str]) -> Any:
        call = self.__getattr__("start_turn")
        if not self.cut:
            said = [one for one in items if isinstance(one, Said)]
            notes = [one.text for one in said if one.kind is SaidKind.NOTE]
            due = self._expected.started()
            if notes != due:
                self._expected.faults.append(f"turn {turn} carries {notes} in place of {due}")
            if [one.text for one in said[: len(notes)]] != notes or len(said) == len(notes):
                self._expected.faults.append(f"turn {turn} consists of {said}")
        return call(address, turn, items, entries)

    def finish(self, ending: Ending) -> Any:
        call = self.__getattr__("finish")
        if not self.cut:
            self._expected.ended(ending.end)
        return call(ending)


class Run:
    """One run of the program."""

    def __init__(
        self,
        world: World,
        expected: Expected,
        folder: Path,
        kinds: Iterator[str],
        config: dict[str, Any],
        slow: bool,
    ) -> None:
        self.line = Watched(world.store, expected, slow)
        self.model = Model(world, kinds)
        self.tools = Tools()
        plugins = [AfterPlugin(), BusyPlugin(), SteerPlugin(), BasicsPlugin(), FollowupPlugin(), self.tools]
        store: Any = self.line
        model: Any = self.model
        self.bed = Bed(
            folder, plugins=plugins, config=config, store=store, platform=FakePlatform(), model=model
        )

    async def crash(self, world: World, expected: Expected) -> None:
        """The program is gone; what its tasks still do reaches nothing.

        A /new that was not answered yet is carried out again, and cancels what was noted meanwhile.
        """
        self.line.cut = True
        here = world.store._conversations.get(HERE)
        entries = here.entries.values() if here is not None else ()
        if here is not None and any(one.text == "/new" and one.id in here.waiting for one in entries):
            noted = {one.text for one in entries if one.at_reply is not None}
            expected.cancel(riding=True, kept={text for _, _, text in expected.waiting} - noted)
        self.bed.runtime.services.closing = True
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(5)
        world.running = 0


TEXTS = st.sampled_from(
    (
        *("hello", "hello", "hello", "/interrupt now", "/queue later", "/followup own", "/steer hint"),
        *("/reply 1 why", "/stop", "/interrupt", "/new", "/after clear", "/after cancel 1"),
        *("/busy queue", "/busy default"),
    )
)
AHEAD = st.integers(0, MOST)
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("after"), AHEAD),
        st.tuples(st.just("after"), AHEAD),
        st.tuples(st.just("say"), TEXTS),
        st.tuples(st.sampled_from(["model", "model", "model", "tool", "second", "event", "native", "again"])),
        st.tuples(st.just("together"), st.lists(AHEAD, max_size=3), st.booleans()),
        st.tuples(st.just("crash")),
    ),
    max_size=40,
)
KINDS = st.lists(st.sampled_from(["text", "text", "text", "tools", "fail"]), max_size=20)


@pytest.mark.parametrize("mode", ["interrupt", "queue", "steer", "followup"])
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    moves=MOVES,
    kinds=KINDS,
    quiet=st.sampled_from([0.0, 0.0, 2.0]),
    keep=st.sampled_from(["finished", "nothing"]),
    slow=st.booleans(),
)
# /new while a tool does not let go, and a crash before the turn has ended
@example(
    moves=[("after", 0), ("say", "hello"), ("model",), ("say", "/new"), ("crash",)],
    kinds=["tools"],
    quiet=0.0,
    keep="finished",
    slow=False,
)
@example(
    moves=[("say", "hello"), ("model",), ("say", "/new"), ("after", 0), ("crash",)],
    kinds=["tools"],
    quiet=0.0,
    keep="finished",
    slow=False,
)
# a command that comes while another one waits for something
@example(
    moves=[("say", "hello"), ("model",), ("say", "/new"), ("say", "hello"), ("after", 0)],
    kinds=["tools"],
    quiet=0.0,
    keep="finished",
    slow=False,
)
def test_a_note_lands_where_three_lines_say_whatever_happens(
    mode: str, moves: list[tuple[Any, ...]], kinds: list[str], quiet: float, keep: str, slow: bool
) -> None:
    logging.disable(logging.CRITICAL)
    try:
        with tempfile.TemporaryDirectory() as folder:
            config = {"conversation": {"busy": mode, "quiet": quiet}, "interrupt": {"keep": keep}}
            run(story(Path(folder), moves, kinds, config, slow))
    finally:
        logging.disable(logging.NOTSET)


async def story(
    folder: Path, moves: Iterable[tuple[Any, ...]], kinds: list[str], config: dict[str, Any], slow: bool
) -> None:
    world, expected, drawn, texts = World(), Expected(), iter(kinds), itertools.count(1)
    current = Run(world, expected, folder, drawn, config, slow)
    await current.bed.__aenter__()

    async def after(ahead: int) -> Any:
        text = f"n{next(texts)}"
        message = await current.bed.platform.say(f"/after {ahead} {text}")
        expected.arrived(text, ahead)
        return message

    command: Any = None
    for move in moves:
        platform = current.bed.platform
        match move:
            case ("after", ahead):
                command = await after(ahead)
            case ("again",) if command is not None:
                await platform.gateway.receive(command)  # a redelivery (D1)
            case ("say", text):
                await platform.say(text)
                if text == "/new":
                    expected.cancel(riding=True)
                elif text == "/after clear" or (text == "/after cancel 1" and not expected.riding):
                    expected.cancel(first=text.endswith("1"))
            case ("native",):
                await platform.say("why?", reply_to=f"p{len(platform.sent)}")
            case ("event",):
                entry = Entry(f"job:{next(texts)}:done", HERE, Author("job"), "[event]", When.EVENT)
                admission = await world.store.admit(entry)
                (await current.bed.runtime.router.lane(HERE)).put(admission.entry, Role.USER)
            case ("together", counts, crashes):
                for ahead in counts:
                    await after(ahead)
                await platform.say("hello")
                # a start does not open a quiet window again: what was gathered begins, and the note comes after it
                if crashes and not config["conversation"]["quiet"]:
                    await current.crash(world, expected)
                    current = Run(world, expected, folder, drawn, config, slow)
                    await current.bed.__aenter__()
            case ("model",):
                current.model.gates.open()
            case ("tool",):
                current.tools.gates.open()
            case ("second",):
                await asyncio.sleep(1)
            case ("crash",):
                await current.crash(world, expected)
                current = Run(world, expected, folder, drawn, config, slow)
                await current.bed.__aenter__()
        await asyncio.sleep(0.02)  # all that follows at once has happened

    await rest(current)
    for _ in range(MOST + 1):  # so many replies, and whatever still waits has come
        await current.bed.platform.say("hello")
        await rest(current)
    await current.bed.__aexit__(None, None, None)
    check(world, expected)


async def rest(current: Run) -> None:
    """It comes to rest by itself once nobody holds anything back."""
    current.model.free = True
    for _ in range(400):
        current.model.gates.open()
        current.tools.gates.open()
        await asyncio.sleep(0.1)
        lane = current.bed.runtime.router._lanes.get(HERE)
        if (lane is None or lane.idle) and not current.model.gates:
            return
    raise AssertionError("the conversation does not come to rest")


def check(world: World, expected: Expected) -> None:
    """Each note stands in one completed turn, or was cancelled; and nothing waits."""
    here = world.store._conversations[HERE]
    assert expected.faults == []
    assert expected.waiting == expected.riding == []
    found = Counter(
        item.text
        for turn in here.ended
        for item in turn.items
        if isinstance(item, Said) and item.kind is SaidKind.NOTE
    )
    assert found == expected.landed
    assert all(count == 1 for count in found.values()), "in no prompt twice (E2)"
    assert not set(found) & expected.cancelled
    assert [here.entries[id_].text for id_ in here.waiting if here.entries[id_].at_reply is not None] == []
