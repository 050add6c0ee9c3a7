"""I5, I6 and E2 over real HTTP: what the next request carries after an interrupt, in every case.

The server keeps the JSON of each request; each must be one that OpenAI takes, and the same history must
be one that Anthropic takes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Said, SaidKind, Step
from hermes_core.testing.bed import Bed
from hermes_core.testing.model_server import Answer, ModelServer, asks, chunk, says
from hermes_core.tools import Tool, tool

from .real import Held, accepted, answers, check_anthropic, check_openai, house, past, said, until

KEEP = ["finished", "nothing"]


class Tools:
    """quick gives its name back at once; endless runs until it is cancelled. `done` has the quick ones."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.running = asyncio.Event()

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        @tool
        async def quick(name: str) -> str:
            """Answer at once."""
            self.done.append(name)
            return f"result {name}"

        @tool
        async def endless() -> str:
            """Never end."""
            self.running.set()
            await asyncio.Event().wait()
            return "never"

        return [quick, endless]


class Story:
    """A turn on its way to the point at which the interrupt comes: `reach` leads there."""

    def __init__(self, bed: Bed, server: ModelServer, tools: Tools) -> None:
        self.bed = bed
        self.server = server
        self.tools = tools

    @property
    def store(self) -> Held:
        """The store, whose calls can be held."""
        held = self.bed.store
        assert isinstance(held, Held)
        return held


def quick(*names: str) -> list[tuple[str, str]]:
    """Calls of quick."""
    return [("quick", json.dumps({"name": name})) for name in names]


async def no_tool_call(story: Story) -> None:
    story.server.script(Answer((chunk("half an ans"), asyncio.Event())))
    await story.bed.platform.say("work")
    await until(story.bed.platform.drafts)


async def arguments_half_streamed(story: Story) -> None:
    half = {"name": "quick", "arguments": '{"name": "x'}
    call = [{"index": 0, "id": "a", "type": "function", "function": half}]
    story.server.script(Answer((chunk("let me see"), chunk(calls=call), asyncio.Event())))
    await story.bed.platform.say("work")
    await until(story.bed.platform.drafts)
    for _ in range(20):
        await asyncio.sleep(0)


async def calls_streamed_whole_and_not_yet_planned(story: Story) -> None:
    story.server.script(asks(*quick("x")))
    planned = story.store.hold("plan")
    await story.bed.platform.say("work")
    await planned.reached.wait()
    assert story.tools.done == []


async def one_of_three_finished(story: Story) -> None:
    story.server.script(asks(*quick("x"), ("endless", "{}"), ("endless", "{}"), text="let me see"))
    await story.bed.platform.say("work")
    await until(lambda: story.tools.running.is_set() and story.tools.done)


async def the_last_of_three_finished(story: Story) -> None:
    story.server.script(asks(("endless", "{}"), ("endless", "{}"), *quick("x")))
    await story.bed.platform.say("work")
    await until(lambda: story.tools.running.is_set() and story.tools.done)


async def finished_but_not_yet_stored(story: Story) -> None:
    story.server.script(asks(*quick("x", "y")))
    appending = story.store.hold("append")
    await story.bed.platform.say("work")
    await appending.reached.wait()
    assert sorted(story.tools.done) == ["x", "y"]


async def in_the_second_step(story: Story) -> None:
    story.server.script(asks(*quick("x")), asks(*quick("y"), ("endless", "{}")))
    await story.bed.platform.say("work")
    await until(lambda: story.tools.running.is_set() and len(story.tools.done) == 2)


async def waiting_for_the_model_after_a_step(story: Story) -> None:
    story.server.script(asks(*quick("x")), Answer(before=asyncio.Event()))
    await story.bed.platform.say("work")
    await story.server.asked(2)


async def before_the_turn_is_stored(story: Story) -> None:
    starting = story.store.hold("start_turn")
    await story.bed.platform.say("work")
    await starting.reached.wait()
    asyncio.get_running_loop().call_later(0.02, starting.release)


async def with_a_steer_that_entered(story: Story) -> None:
    gate = asyncio.Event()
    first = asks(*quick("x"))
    story.server.script(Answer((gate, *first.parts)), Answer(before=asyncio.Event()))
    await story.bed.platform.say("work")
    await story.server.asked()
    await story.bed.platform.say("/steer in metres")
    await until(lambda: story.bed.platform.sent)
    gate.set()
    await story.server.asked(2)


Reach = Callable[[Story], Awaitable[None]]
# the calls whose results the next request carries
KEPT: dict[Reach, list[str]] = {
    no_tool_call: [],
    arguments_half_streamed: [],
    calls_streamed_whole_and_not_yet_planned: [],
    one_of_three_finished: ["result x"],
    the_last_of_three_finished: ["result x"],
    finished_but_not_yet_stored: ["result x", "result y"],
    in_the_second_step: ["result x", "result y"],
    waiting_for_the_model_after_a_step: ["result x"],
    before_the_turn_is_stored: [],
    with_a_steer_that_entered: ["result x"],
}


@pytest.mark.parametrize("keep", KEEP)
@pytest.mark.parametrize("reach", KEPT, ids=lambda one: one.__name__.replace("_", " "))
async def test_case_15_the_turn_after_an_interrupt_is_valid_and_carries_what_finished(
    tmp_path: Path, reach: Reach, keep: str
) -> None:
    """(I4, I5, I6) Case 15: it failed with 400, because a call without a result stood in the history."""
    tools = Tools()
    tables = {"interrupt": {"keep": keep}}
    async with ModelServer() as server, house(tmp_path, server.base_url, tools, tables=tables) as bed:
        await reach(Story(bed, server, tools))
        before, sent = len(server.requests), len(bed.platform.sent)
        server.script(says("new answer"))
        await accepted(bed, "new work")
        assert (await answers(bed, sent + 1))[-1] == "new answer"

        asked = server.requests[before]
        results = [one["content"] for one in asked.body["messages"] if one["role"] == "tool"]
        steer = ["[The user adds, while you work:]\nin metres"] if reach is with_a_steer_that_entered else []
        assert results == (KEPT[reach] if keep == "finished" else [])
        assert said(asked) == (["work", *steer, "new work"] if keep == "finished" else ["new work"])
        assert "half an ans" not in str(asked.body["messages"]), "I5"
        check_openai(server)
        check_anthropic([*await past(bed), Said(SaidKind.MESSAGE, "and then?")])

        # a restart reads the same history, byte for byte
        await bed.platform.say("and then?")
        await answers(bed, sent + 2)
        live = server.requests[-1].body["messages"]
    async with ModelServer() as server, house(tmp_path, server.base_url, Tools(), tables=tables) as bed:
        await bed.platform.say("once more")
        await answers(bed, 1)
        assert server.requests[0].body["messages"][: len(live)] == live


async def test_i6_many_interrupts_in_a_row_leave_every_prompt_and_every_finished_call(tmp_path: Path) -> None:
    """(I6) In the order in which they came."""
    tools = Tools()
    async with ModelServer() as server, house(tmp_path, server.base_url, tools) as bed:
        for number in range(5):
            tools.running.clear()
            server.script(asks(*quick(f"x{number}"), ("endless", "{}")))
            await bed.platform.say(f"work {number}")
            await tools.running.wait()
            await until(lambda: len(tools.done) > number)  # noqa: B023 - awaited before the next round
        await bed.platform.say("enough")
        assert await answers(bed, 1) == ["All well."]
        items = await past(bed)
        assert [item.text for item in items if isinstance(item, Said)] == [
            *(f"work {number}" for number in range(5)),
            "enough",
        ]
        steps = [item for item in items if isinstance(item, Step)]
        assert [result.text for step in steps for result in step.results] == [
            f"result x{n}" for n in range(5)
        ]
        check_openai(server)
        check_anthropic([*items, Said(SaidKind.MESSAGE, "and then?")])


def messages(*roles: str) -> Any:
    return [Said(SaidKind.MESSAGE, "hello") if role == "user" else Step("hello") for role in roles]


@pytest.mark.parametrize("roles", [("agent", "user"), ("user", "agent"), ("user", "agent", "agent")])
def test_the_check_for_anthropic_can_fail(roles: tuple[str, ...]) -> None:
    with pytest.raises(AssertionError):
        check_anthropic(messages(*roles))
