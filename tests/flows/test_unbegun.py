"""Of the calls of a step a crash leaves some that ran and some that had not begun: each is told as what it was (D4)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from hermes_core import history
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Step, ToolCall
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Script
from hermes_core.testing.virtual import run
from hermes_core.tools import Tool, tool
from hermes_core.turn import PARALLEL

CUT, NOT_RUN = "Interrupted by a restart of the program; it may have taken effect.", "Not run: "


class Tools:
    """endless: until it is cancelled; asked: needs a yes; again: endless, and may be repeated; quick: at once."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    async def _endless(self, name: str) -> str:
        self.begun.append(name)
        await asyncio.sleep(3000)
        return "late"

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        @tool(deadline=3600)
        async def endless(name: str) -> str:
            """Never end."""
            return await self._endless(name)

        @tool(deadline=3600, approval=True)
        async def asked(name: str) -> str:
            """Never end, once somebody said yes."""
            return await self._endless(name)

        @tool(deadline=3600, idempotent=True)
        async def again(name: str) -> str:
            """Never end, and may be repeated."""
            return await self._endless(name)

        @tool
        async def quick(name: str) -> str:
            """Answer at once."""
            self.begun.append(name)
            return f"did {name}"

        return [endless, asked, again, quick]


def calls(*tools: str) -> list[ToolCall]:
    return [ToolCall(f"c{number}", tool, f'{{"name": "{number}"}}') for number, tool in enumerate(tools)]


async def until(what: Iterable[str], tools: Tools) -> None:
    """Let the loop turn until just these have begun."""
    for _ in range(200):
        await asyncio.sleep(0)
    assert sorted(tools.begun) == sorted(what)


def results(bed: Bed) -> list[str]:
    """What the model was told after the restart."""
    items = bed.model.requests[-1].items
    history.check(items)
    return [result.text for item in items if isinstance(item, Step) for result in item.results]


@pytest.mark.parametrize(
    ("step", "begun", "told"),
    [
        pytest.param(["asked"], [], [NOT_RUN], id="nobody had said yes"),
        pytest.param(["endless", "asked"], ["0"], [CUT, NOT_RUN], id="one ran beside the question"),
        pytest.param(["nowhere", "endless"], ["1"], [NOT_RUN, CUT], id="there is no such tool"),
        pytest.param(
            ["endless"] * (PARALLEL + 1),
            [str(number) for number in range(PARALLEL)],
            [*[CUT] * PARALLEL, NOT_RUN],
            id="it had no place among those that run at once",
        ),
        pytest.param(
            ["quick", *["endless"] * PARALLEL],
            [str(number) for number in range(PARALLEL + 1)],
            ["did 0", *[CUT] * PARALLEL],
            id="it had a place when another had finished, whose result is known",
        ),
    ],
)
def test_d4_after_a_crash_only_what_had_begun_may_have_taken_effect(
    tmp_path: Path, step: list[str], begun: list[str], told: list[str]
) -> None:
    async def story() -> None:
        store = MemoryStore()
        tools = Tools()
        script: list[Script] = [calls(*step)]
        async with Bed(tmp_path, script, plugins=[tools], store=store) as bed:
            await bed.platform.say("work")
            await until(begun, tools)
            bed.runtime.services.closing = True  # nothing is put in order any more
        after = Tools()
        async with Bed(tmp_path, ["done"], plugins=[after], store=store) as bed:
            await bed.platform.settled()
            found = results(bed)
            assert [text[: len(start)] for text, start in zip(found, told, strict=True)] == told
            assert after.begun == []

    run(story())


def test_d4_what_may_be_repeated_runs_again_whether_it_had_begun_or_not(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        tools = Tools()
        every = [str(number) for number in range(PARALLEL + 1)]
        script: list[Script] = [calls(*["again"] * len(every))]
        async with Bed(tmp_path, script, plugins=[tools], store=store) as bed:
            await bed.platform.say("work")
            await until(every[:-1], tools)
            bed.runtime.services.closing = True
        after = Tools()
        async with Bed(tmp_path, ["done"], plugins=[after], store=store) as bed:
            await asyncio.sleep(4000)
            assert sorted(after.begun) == every
            await asyncio.sleep(4000)
            assert set(results(bed)) == {"late"}

    run(story())
