"""What plugins put into a turn: in order, bounded, recorded with it, and never at the cost of the turn (P2, I9, E2).

And what stood in a prompt stands in the next one byte for byte: the provider's prompt cache lives from it.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_after.plugin import AfterPlugin
from hermes_core import history
from hermes_core.errors import ModelError
from hermes_core.hookspecs import Injection, hookimpl
from hermes_core.messages import Address, Entry, Said, SaidKind, ToolCall
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold, Script
from hermes_core.testing.virtual import run
from hermes_core.tools import Tool, tool
from hermes_followup.plugin import FollowupPlugin


class Puts:
    """Puts the same injections into every turn; keeps what it was told."""

    def __init__(self, *injections: Any) -> None:
        self.injections = injections
        self.told: list[tuple[Address, list[str], list[str]]] = []

    @hookimpl
    def hermes_injections(
        self, address: Address, entries: tuple[Entry, ...], past: tuple[Said, ...]
    ) -> Iterable[Injection]:
        self.told.append((address, [one.text for one in entries], [one.text for one in past]))
        return self.injections


class Once(Puts):
    """Puts its text where it does not stand yet."""

    @hookimpl
    def hermes_injections(
        self, address: Address, entries: tuple[Entry, ...], past: tuple[Said, ...]
    ) -> Iterable[Injection]:
        standing = {one.text for one in past}
        return [one for one in self.injections if one.text not in standing]


def named(kind: type, name: str) -> Any:
    """A class of another name: the bed calls a plugin by it."""
    return type(name, (kind,), {})


def read(bed: Bed, call: int = -1) -> list[str]:
    return bed.model.texts(call)


async def turns(bed: Bed) -> list[list[tuple[str, str, str]]]:
    """Kind, author and text of what each turn in the store says in the user role."""
    found = await bed.store.history(bed.platform.address())
    return [
        [(one.kind.value, one.author, one.text) for one in turn.items if isinstance(one, Said)]
        for turn in found
    ]


def test_they_stand_by_order_then_by_plugin_before_notes_and_messages(tmp_path: Path) -> None:
    async def story() -> None:
        first = named(Puts, "First")(
            Injection("a", "late", 5), Injection("a", "middle"), Injection("b", "next")
        )
        second = named(Puts, "Second")(Injection("c", "last"), Injection("c", "early", -1))
        async with Bed(tmp_path, plugins=[first, second, AfterPlugin()]) as bed:
            await bed.say("/after 0 the note")
            await bed.say("hello")
            assert read(bed) == ["early", "middle", "next", "last", "late", "the note", "hello"]
            shown = [history.render(one) for one in bed.model.requests[0].items if isinstance(one, Said)]
            assert shown[:2] == ["[Context, c:]\nearly", "[Context, a:]\nmiddle"]

    run(story())


@pytest.mark.parametrize("length", [7999, 8000, 8001, 50_000])
def test_a_long_one_is_cut_with_a_mark_that_says_how_much_is_missing(tmp_path: Path, length: int) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[Puts(Injection("a", "x" * length))]) as bed:
            await bed.say("hello")
            mark = f"\n[… {length - 8000} characters left out …]" if length > 8000 else ""
            assert read(bed) == ["x" * min(length, 8000) + mark, "hello"]
            assert (await turns(bed))[0][0] == ("injection", "a", read(bed)[0])

    run(story())


class Raises(Puts):
    @hookimpl
    def hermes_injections(
        self, address: Address, entries: tuple[Entry, ...], past: tuple[Said, ...]
    ) -> Iterable[Injection]:
        raise RuntimeError("broken")


class RaisesHalfWay(Puts):
    @hookimpl
    def hermes_injections(
        self, address: Address, entries: tuple[Entry, ...], past: tuple[Said, ...]
    ) -> Iterator[Injection]:
        yield Injection("half", "half of it")
        raise RuntimeError("broken")


class Hangs(Puts):
    @hookimpl
    async def hermes_injections(  # type: ignore[override]
        self, address: Address, entries: tuple[Entry, ...], past: tuple[Said, ...]
    ) -> Iterable[Injection]:
        await asyncio.sleep(3600)
        return ()


class GivesOne(Puts):
    """Gives one value, whatever it is, in place of a list."""

    @hookimpl
    def hermes_injections(
        self, address: Address, entries: tuple[Entry, ...], past: tuple[Said, ...]
    ) -> Iterable[Injection]:
        return self.injections[0]  # type: ignore[no-any-return]


FAULTS: dict[str, Callable[[], object]] = {
    "raises": Raises,
    "raises half way": RaisesHalfWay,
    "hangs": Hangs,
    "gives no list": lambda: GivesOne(5),
    "gives a text": lambda: GivesOne("text"),
    "gives other values": lambda: Puts("text"),
    "gives one text that is none": lambda: Puts(Injection("a", "whole"), Injection("a", 5)),  # type: ignore[arg-type]
    "gives a label that is none": lambda: Puts(Injection(None, "text")),  # type: ignore[arg-type]
    "gives an order that is none": lambda: Puts(Injection("a", "text", "first")),  # type: ignore[arg-type]
    "gives half a character": lambda: Puts(Injection("a", "\ud800")),
    "gives half a character as a label": lambda: Puts(Injection("\udfff", "text")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_p2_one_plugins_fault_leaves_the_turn_and_the_others_intact(tmp_path: Path, fault: str) -> None:
    async def story() -> None:
        wrong: Any = FAULTS[fault]()
        before = named(Puts, "Before")(Injection("b", "before"))
        behind = named(Puts, "Behind")(Injection("b", "behind"))
        async with Bed(tmp_path, plugins=[before, wrong, behind]) as bed:
            name = type(wrong).__name__.lower()
            assert await bed.say("hello") == "you said: hello"
            assert read(bed) == ["before", "behind", "hello"], (
                "nothing of the one that failed, not even a half"
            )
            assert "hermes_injections" in bed.plugins.infos[name].problem
            assert await bed.say("again") == "you said: again"

    run(story())


# ---- recorded with the turn


def test_they_are_recorded_with_their_turn_and_stand_there_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        async with Bed(tmp_path, ["one"], plugins=[Once(Injection("a", "given"))], store=store) as bed:
            await bed.say("hello")
            assert await turns(bed) == [[("injection", "a", "given"), ("message", "", "hello")]]
        puts = Puts()
        async with Bed(tmp_path, ["two"], plugins=[puts], store=store) as bed:
            await bed.say("again")
            assert read(bed) == ["given", "hello", "again"]
            assert puts.told == [(bed.platform.address(), ["again"], ["given"])]

    run(story())


def test_p3_a_plugin_is_asked_for_every_turn_with_its_entries(tmp_path: Path) -> None:
    async def story() -> None:
        puts = Puts(Injection("a", "x"))
        async with Bed(tmp_path, ["one"], plugins=[puts, AfterPlugin(), FollowupPlugin()]) as bed:
            await bed.say("plain")
            await bed.say("/after 0 a note")
            await bed.say("native", reply_to="p1")
            await bed.say("/reply 1 typed")
            here = bed.platform.address()
            assert puts.told == [
                (here, ["plain"], []),
                (here, ["a note", "native"], ["x"]),
                (here, ["typed"], ["x", "x"]),
            ]

    run(story())


@pytest.mark.parametrize("end", ["interrupted", "failed"])
@pytest.mark.parametrize("keep", ["finished", "nothing"])
def test_e2_a_turn_that_does_not_complete_keeps_none_and_the_next_is_given_them_anew(
    tmp_path: Path, end: str, keep: str
) -> None:
    async def story() -> None:
        hold = Hold()
        first: Script = ["so ", hold] if end == "interrupted" else [ModelError("It failed.")]
        config = {"interrupt": {"keep": keep}}
        plugin = Once(Injection("a", "given"))
        async with Bed(tmp_path, [first, "well"], plugins=[plugin], config=config) as bed:
            await bed.platform.say("one")
            if end == "interrupted":
                await hold.reached.wait()
            else:
                await bed.platform.settled()
            assert read(bed) == ["given", "one"]
            await bed.say("two")
            kept = [] if (end, keep) == ("interrupted", "nothing") else ["one"]
            assert read(bed) == [*kept, "given", "two"]
            assert SaidKind.INJECTION not in [kind for kind, _, _ in (await turns(bed))[0]]

    run(story())


def test_i8_a_plugin_that_hangs_does_not_delay_an_interrupt(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[Hangs()]) as bed:
            clock = asyncio.get_running_loop()
            await bed.platform.say("one")
            await asyncio.sleep(1)
            began = clock.time()
            await bed.platform.say("two")
            await bed.platform.settled()
            assert clock.time() - began == pytest.approx(5, abs=0.1), (
                "only the limit of the turn that follows"
            )
            assert read(bed) == ["one", "two"]

    run(story())


# ---- the prompt's beginning


class Tells(Puts):
    """Another text for each turn, and a tool."""

    @hookimpl
    def hermes_injections(
        self, address: Address, entries: tuple[Entry, ...], past: tuple[Said, ...]
    ) -> Iterable[Injection]:
        return [Injection("count", f"There were {len(past)} before.")]

    @hookimpl
    def hermes_system_prompt(self, prompt: str) -> str:
        return f"{prompt}Be brief."

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        @tool
        async def look() -> str:
            """Look."""
            return "a wall"

        return [look]


def test_what_one_turn_read_is_the_beginning_of_what_the_next_one_reads_byte_for_byte(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        plugins = [Tells(), AfterPlugin(), FollowupPlugin()]
        scripts: list[Script] = ["one", ["let me see", ToolCall("1", "look", "{}")], "a wall it is", "three"]
        seen: list[tuple[str, list[bytes]]] = []
        for typed in (["hello", "/after 0 a note", "look"], ["why?", "/reply 1 and why?"], ["last"]):
            async with Bed(tmp_path, scripts, plugins=plugins, store=store) as bed:
                for text in typed:
                    reply_to = "p1" if text == "why?" else None
                    await bed.say(text, reply_to=reply_to)
                seen += [
                    (one.system, [msgspec.json.encode(item) for item in one.items])
                    for one in bed.model.requests
                ]
            scripts = []
        assert len(seen) == 6
        for (system, items), (next_system, next_items) in itertools.pairwise(seen):
            assert next_system == system
            assert next_items[: len(items)] == items
            assert len(next_items) > len(items)

    run(story())
