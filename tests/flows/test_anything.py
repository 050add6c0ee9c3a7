"""Any sequence of messages, commands, steers, interrupts, edits, tool ends, failures and crashes.

The whole runtime in virtual time on a store that survives: nothing is lost, nothing is used twice, at
most one turn runs, nothing is stuck, the history is valid, receipts are true (D1 to D9, T, I, S).
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core import history
from hermes_core.errors import ModelError
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Address, EntryState, Item, Message, Outgoing, Said, Step, ToolCall
from hermes_core.models import Delta, ModelFactory, Request, Stop, Text
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.platform import FakePlatform
from hermes_core.testing.virtual import run
from hermes_core.tools import Tool, tool
from hermes_steer.plugin import SteerPlugin

HERE = Address("fake", "agent", "1")
TOKEN = re.compile(r"\bw\d+\b")


class World:
    """What outlives a crash: the store, the platform's people, and what they know."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.tokens = itertools.count(1)
        self.accepted: dict[str, str] = {}  # entry id to token, of messages that were acknowledged
        self.cancelled: Counter[str] = Counter()
        self.refused: set[str] = set()
        self.steps = 0
        self.running = 0


class Cable:
    """The store as one run of the program sees it; once cut, nothing of that run reaches it any more."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cut = False

    def cut(self) -> None:
        self._cut = True

    def __getattr__(self, name: str) -> Any:
        target = getattr(self._world.store, name)

        def call(*arguments: Any, **named: Any) -> Awaitable[Any]:
            if self._cut:
                return asyncio.get_running_loop().create_future()
            if name == "settle" and arguments[2] is EntryState.CANCELLED:
                waiting = self._world.store._conversations[HERE].waiting
                self._world.cancelled.update(id_ for id_ in arguments[1] if id_ in waiting)
            result: Awaitable[Any] = target(*arguments, **named)
            return result

        return call


class Gates(list[asyncio.Event]):
    """Places where something waits until the test lets it go on."""

    async def stand(self) -> None:
        event = asyncio.Event()
        self.append(event)
        try:
            await event.wait()
        finally:
            if event in self:
                self.remove(event)

    def open(self) -> None:
        if self:
            self[0].set()


class Model:
    """Stands at a gate before each answer; what it answers is drawn by the test."""

    def __init__(self, world: World, kinds: Iterable[str]) -> None:
        self.world = world
        self.kinds = iter(kinds)
        self.gates = Gates()
        self.free = False

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        history.check(request.items)
        self.world.running += 1
        assert self.world.running == 1, "at most one turn runs in a conversation"
        try:
            self.world.steps += 1
            kind = "text" if self.free else next(self.kinds, "text")
            if not self.free:
                await self.gates.stand()
            yield Text("so ")
            if kind == "fail":
                raise ModelError("It failed.")
            if kind == "tools":
                yield ToolCall(f"c{self.world.steps}", "work", "{}")
                yield ToolCall(f"d{self.world.steps}", "deaf", "{}")
            elif not self.free:
                await self.gates.stand()
            yield Text("done")
            yield Stop("end")
        finally:
            self.world.running -= 1

    async def aclose(self) -> None: ...

    @hookimpl
    def hermes_models(self) -> Iterable[ModelFactory]:
        return [ModelFactory("scripted", lambda settings: self)]


class Tools:
    def __init__(self) -> None:
        self.gates = Gates()

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        @tool
        async def work() -> str:
            """Work."""
            await self.gates.stand()
            return "worked"

        @tool
        async def deaf() -> str:
            """Work, and swallow one cancellation."""
            try:
                await self.gates.stand()
            except asyncio.CancelledError:
                await asyncio.sleep(0.3)
            return "worked"

        return [work, deaf]


class Run:
    """One run of the program over the world."""

    def __init__(self, world: World, folder: Path, kinds: Sequence[str], mode: str, keep: str) -> None:
        self.world = world
        self.cable = Cable(world)
        self.model = Model(world, kinds)
        self.tools = Tools()
        self.bed = Bed(
            folder,
            plugins=[BusyPlugin(), SteerPlugin(), BasicsPlugin(), self.tools],
            config={"conversation": {"busy": mode}, "interrupt": {"keep": keep}},
            store=self.cable,
            platform=FakePlatform(),
            model=self.model,  # type: ignore[arg-type]
        )

    async def say(self, text: str, author: str) -> Message:
        """A person writes; what is acknowledged is expected to be used once."""
        token = f"w{next(self.world.tokens)}"
        message = self.bed.platform.message(text.replace("TOKEN", token), author=author)
        carried = not text.startswith("/") or "TOKEN" in text
        id_ = f"{message.id}+1" if text.startswith("/") else message.id

        def committed() -> None:
            if carried:
                self.world.accepted[id_] = token

        await self.bed.platform.gateway.receive(message, committed)
        return message

    async def crash(self) -> None:
        """The program is gone; what its tasks still do reaches nothing."""
        self.cable.cut()
        self.bed.runtime.services.closing = True
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(5)
        self.world.running = 0


PEOPLE = st.sampled_from(["ann", "ann", "bob"])
TEXTS = st.sampled_from(
    (
        *("TOKEN", "TOKEN", "TOKEN", "/steer TOKEN", "/queue TOKEN", "/interrupt TOKEN", "/followup TOKEN"),
        *("/stop", "/interrupt", "/new", "/busy queue", "/busy steer", "/busy default"),
        *("/queue clear", "/status"),
    )
)
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("say"), TEXTS, PEOPLE),
        st.tuples(st.just("say"), TEXTS, PEOPLE),
        st.tuples(st.sampled_from(["model", "model", "tool", "turn", "second", "edit", "delete", "again"])),
        st.tuples(st.just("crash")),
    ),
    max_size=40,
)
KINDS = st.lists(st.sampled_from(["text", "text", "tools", "fail"]), max_size=20)


@pytest.mark.parametrize("mode", ["interrupt", "queue", "steer", "followup"])
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(moves=MOVES, kinds=KINDS, keep=st.sampled_from(["finished", "finished", "nothing"]))
def test_nothing_is_lost_nothing_twice_and_nothing_stuck(
    mode: str, moves: list[tuple[str, ...]], kinds: list[str], keep: str
) -> None:
    logging.disable(logging.CRITICAL)
    try:
        with tempfile.TemporaryDirectory() as folder:
            run(story(Path(folder), moves, kinds, mode, keep))
    finally:
        logging.disable(logging.NOTSET)


async def story(folder: Path, moves: list[tuple[str, ...]], kinds: list[str], mode: str, keep: str) -> None:
    world = World()
    drawn = itertools.chain(kinds)
    sent: list[Outgoing] = []
    current = Run(world, folder, drawn, mode, keep)  # type: ignore[arg-type]
    await current.bed.__aenter__()
    said: list[Message] = []
    for move in moves:
        match move:
            case ("say", text, author):
                said.append(await current.say(text, author))
            case ("again",) if said:
                await current.bed.platform.gateway.receive(said[-1])  # a redelivery (D1)
            case ("edit",) if said:
                id_ = said[-1].id
                token = world.accepted.get(id_) or world.accepted.get(f"{id_}+1")  # what a command entered
                await current.bed.platform.gateway.edited(HERE, id_, f"edited {token}")
            case ("delete",) if said:
                await current.bed.platform.gateway.deleted(HERE, said[-1].id)
            case ("model",):
                current.model.gates.open()
            case ("tool",):
                current.tools.gates.open()
            case ("second",):
                await asyncio.sleep(1)
            case ("crash",):
                await current.crash()
                sent += current.bed.platform.sent
                current = Run(world, folder, drawn, mode, keep)  # type: ignore[arg-type]
                await current.bed.__aenter__()
        await asyncio.sleep(0)

    # it comes to rest by itself once nobody holds anything back
    current.model.free = True
    for _ in range(400):
        current.model.gates.open()
        current.tools.gates.open()
        await asyncio.sleep(0.1)
        if current.bed.runtime.router._lanes.get(HERE) is None:
            break
        if current.bed.runtime.router._lanes[HERE].idle and not current.model.gates:
            break
    else:
        raise AssertionError("the conversation does not come to rest")
    sent += current.bed.platform.sent
    await current.bed.__aexit__(None, None, None)
    check(world, sent, keep)


def check(world: World, sent: list[Outgoing], keep: str) -> None:
    here = world.store._conversations.get(HERE)
    ended = here.ended if here is not None else []
    used = Counter(token for turn in ended for token in tokens(turn.items))
    for id_, token in world.accepted.items():
        assert used[token] <= 1, f"{token} stands in two prompts"
        done = used[token] + world.cancelled[id_]
        if keep == "finished":
            assert done == 1, (
                f"{token} was used {used[token]} times and cancelled {world.cancelled[id_]} times"
            )
        assert done <= 1
    assert here is None or (not here.waiting and here.running is None), "nothing waits at the end"
    replies = [turn.reply for turn in ended if turn.reply is not None]
    assert replies == list(range(1, len(replies) + 1)), "replies are numbered without a gap"
    for turn in ended:
        history.check(turn.items)
    keys = Counter(one.key for one in sent if not one.repeat)
    assert [key for key, count in keys.items() if count > 1] == [], "no answer is sent twice"
    answered = {one.number for one in sent if one.number is not None}
    assert answered == set(replies), "every reply is delivered"


def tokens(items: Iterable[Item]) -> list[str]:
    found: list[str] = []
    for item in items:
        if isinstance(item, Said):
            found += TOKEN.findall(item.text)
        else:
            assert isinstance(item, Step)
    return found
