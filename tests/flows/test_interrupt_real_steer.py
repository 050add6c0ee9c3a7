"""S1 to S3 over real HTTP: a steer at every instant of a turn is in the history once, and is answered."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest

from hermes_core.hookspecs import hookimpl
from hermes_core.testing.bed import Bed
from hermes_core.testing.model_server import Answer, Asked, ModelServer, asks, chunk, says
from hermes_core.tools import Tool, tool

from .real import Held, accepted, answers, check_anthropic, check_openai, house, past, said, until

LABEL = "[The user adds, while you work:]\n"
STEERING = "This goes into the running work at its next step."


class Gated:
    """A tool that runs until the test lets it go on."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.go_on = asyncio.Event()

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        @tool
        async def gated() -> str:
            """Wait for the test."""
            self.running.set()
            await self.go_on.wait()
            return "gated result"

        return [gated]


class Story:
    """A house, its server and its tool."""

    def __init__(self, bed: Bed, server: ModelServer, tool: Gated) -> None:
        self.bed = bed
        self.server = server
        self.tool = tool
        assert isinstance(bed.store, Held)
        self.store = bed.store

    async def begin(self, *script: Answer) -> None:
        """Script the server, and let ann begin."""
        self.server.script(*script)
        await self.bed.platform.say("work")

    async def steer(self, *texts: str) -> None:
        """Steer; returns when each is answered."""
        sent = len(self.bed.platform.sent)
        for text in texts:
            await self.bed.platform.say(f"/steer {text}")
        await until(lambda: len(self.bed.platform.sent) >= sent + len(texts))


def tail(asked: Asked, length: int) -> list[tuple[str, str]]:
    """Role and text of the last messages of a request."""
    return [(one["role"], one["content"]) for one in asked.body["messages"][-length:]]


def hint(text: str) -> tuple[str, str]:
    """A steer as the model sees it."""
    return ("user", LABEL + text)


async def during_a_tool_batch(story: Story) -> None:
    await story.begin(asks(("gated", "{}"), ("gated", "{}")), says("done"))
    await story.tool.running.wait()
    await story.steer("in metres")
    story.tool.go_on.set()
    assert tail(await story.server.asked(2), 3) == [
        ("tool", "gated result"),
        ("tool", "gated result"),
        hint("in metres"),
    ]


async def in_the_gap(story: Story) -> None:
    """The gap has been, its step is being written: the steer waits for the next one."""
    appending = story.store.hold("append")
    gate = asyncio.Event()
    second = asks(("gated", "{}"))
    story.tool.go_on.set()
    await story.begin(asks(("gated", "{}")), Answer((gate, *second.parts)), says("done"))
    await appending.reached.wait()
    await story.steer("in metres")
    appending.release()
    assert tail(await story.server.asked(2), 1) == [("tool", "gated result")]
    gate.set()
    assert tail(await story.server.asked(3), 2) == [("tool", "gated result"), hint("in metres")]


async def while_the_calls_are_written_down(story: Story) -> None:
    planned = story.store.hold("plan")
    story.tool.go_on.set()
    await story.begin(asks(("gated", "{}")), says("done"))
    await planned.reached.wait()
    await story.steer("in metres")
    planned.release()
    assert tail(await story.server.asked(2), 2) == [("tool", "gated result"), hint("in metres")]


async def before_the_first_byte(story: Story) -> None:
    gate = asyncio.Event()
    await story.begin(Answer(says("first try").parts, before=gate), says("done"))
    await story.server.asked()
    await story.steer("in metres")
    gate.set()
    assert tail(await story.server.asked(2), 3) == [
        ("user", "work"),
        ("assistant", "first try"),
        hint("in metres"),
    ]


async def during_the_final_text(story: Story) -> None:
    """(S2)"""
    gate = asyncio.Event()
    await story.begin(Answer((chunk("first "), gate, chunk("try", finish="stop"))), says("done"))
    await until(story.bed.platform.drafts)
    await story.steer("in metres")
    gate.set()
    assert tail(await story.server.asked(2), 2) == [("assistant", "first try"), hint("in metres")]


async def several_at_once(story: Story) -> None:
    await story.begin(asks(("gated", "{}")), says("done"))
    await story.tool.running.wait()
    await story.steer("in metres", "and slowly", "please")
    story.tool.go_on.set()
    assert tail(await story.server.asked(2), 3) == [hint("in metres"), hint("and slowly"), hint("please")]


STEERED: list[Callable[[Story], Awaitable[None]]] = [
    during_a_tool_batch,
    in_the_gap,
    while_the_calls_are_written_down,
    before_the_first_byte,
    during_the_final_text,
    several_at_once,
]


async def used_once(bed: Bed, *texts: str) -> None:
    """Each of these stands in the history exactly once, and nothing waits."""
    words = Counter(str(await past(bed)).split("'"))
    assert {text: words[text] for text in texts} == dict.fromkeys(texts, 1)
    assert await bed.store.waiting(bed.platform.address()) == []


@pytest.mark.parametrize("steered", STEERED, ids=lambda one: one.__name__.replace("_", " "))
async def test_case_19_a_steer_is_a_message_of_its_own_behind_the_results_and_one_reply_has_seen_it(
    tmp_path: Path, steered: Callable[[Story], Awaitable[None]]
) -> None:
    """(S1, S2) Case 19: inside a tool's result, careful models took it for a prompt injection."""
    tool_ = Gated()
    async with ModelServer() as server, house(tmp_path, server.base_url, tool_) as bed:
        story = Story(bed, server, tool_)
        await steered(story)
        await until(lambda: "done" in bed.platform.texts())
        await bed.platform.settled()
        replies = [one for one in bed.platform.sent if one.number is not None]
        assert [(one.number, one.text) for one in replies] == [(1, "done")]
        receipts = [text for text in bed.platform.texts() if text != "done"]
        assert set(receipts) == {STEERING}
        check_openai(server)
        await bed.platform.say("and then?")
        await until(lambda: "All well." in bed.platform.texts())
        assert sum(LABEL in text for text in said(server.requests[-1])) == len(receipts)
        check_anthropic((await past(bed))[:-1])


async def test_case_18_a_steer_while_the_turn_is_being_made_durable_is_the_next_message(
    tmp_path: Path,
) -> None:
    """(S3, D3) Case 18: it was acknowledged, and then neither used nor in the history."""
    async with ModelServer() as server, house(tmp_path, server.base_url) as bed:
        story = Story(bed, server, Gated())
        finishing = story.store.hold("finish")
        await story.begin(says("the answer"))
        await finishing.reached.wait()
        await bed.platform.say("/steer in metres")
        await until(lambda: bed.platform.sent)
        assert bed.platform.texts() == ["This comes next."], "the receipt tells the truth"
        finishing.release()
        assert await answers(bed, 3) == ["This comes next.", "the answer", "All well."]
        assert said(server.requests[-1]) == ["work", "in metres"]
        await used_once(bed, "in metres")
        check_openai(server)


async def test_s3_a_steer_after_the_end_or_when_idle_is_a_plain_message(tmp_path: Path) -> None:
    """(T2, S3)"""
    async with ModelServer() as server, house(tmp_path, server.base_url) as bed:
        await bed.platform.say("/steer hello")
        assert await answers(bed, 1) == ["All well."]
        await bed.platform.say("work")
        await answers(bed, 2)
        await bed.platform.say("/steer in metres")
        assert await answers(bed, 3) == ["All well."] * 3
        assert said(server.requests[-1]) == ["hello", "work", "in metres"]


async def test_s3_a_steer_of_a_turn_that_fails_is_the_next_prompt(tmp_path: Path) -> None:
    """(S3)"""
    gate = asyncio.Event()
    async with ModelServer() as server, house(tmp_path, server.base_url) as bed:
        story = Story(bed, server, Gated())
        await story.begin(
            Answer((b'{"error": {"message": "no"}}',), 400, {"content-type": "application/json"}, gate)
        )
        await server.asked()
        await story.steer("in metres")
        gate.set()
        assert (await answers(bed, 3))[-1] == "All well."
        assert said(server.requests[-1]) == ["work", "in metres"]
        await used_once(bed, "in metres")


async def test_s1_a_steer_goes_into_the_turn_and_what_is_queued_waits_for_its_end(tmp_path: Path) -> None:
    """(S1, T3)"""
    tool_ = Gated()
    async with ModelServer() as server, house(tmp_path, server.base_url, tool_) as bed:
        story = Story(bed, server, tool_)
        await story.begin(asks(("gated", "{}")), says("done"))
        await tool_.running.wait()
        for text in ("/queue q1", "/steer s1", "/queue q2", "/steer s2"):
            await bed.platform.say(text)
        await until(lambda: len(bed.platform.sent) == 4)
        assert bed.platform.texts() == ["Queued at position 1.", STEERING, "Queued at position 2.", STEERING]
        tool_.go_on.set()
        assert (await answers(bed, 6))[4:] == ["done", "All well."]
        assert said(server.requests[1]) == ["work", LABEL + "s1", LABEL + "s2"]
        assert said(server.requests[2])[-1] == "q1\nq2"
        await used_once(bed, "s1", "s2", "q1\\nq2")


async def test_s3_a_steer_and_then_an_interrupt_are_both_in_the_next_prompt(tmp_path: Path) -> None:
    """(S3, I7) The interrupting message first."""
    tool_ = Gated()
    async with ModelServer() as server, house(tmp_path, server.base_url, tool_) as bed:
        story = Story(bed, server, tool_)
        await story.begin(asks(("gated", "{}")))
        await tool_.running.wait()
        await story.steer("s1", "s2")
        await bed.platform.say("/queue q1")
        await accepted(bed, "no, this")
        assert (await answers(bed, 5))[3:] == ["All well."] * 2
        assert said(server.requests[1]) == ["work", "no, this\ns1\ns2"]
        assert said(server.requests[2])[-1] == "q1"
        await used_once(bed, "no, this\\ns1\\ns2", "q1")
        check_openai(server)


async def test_s3_a_steer_that_waits_when_the_program_stops_is_there_at_the_next_start(
    tmp_path: Path,
) -> None:
    """(D6, S3) The turn goes on, and sees it."""
    tool_ = Gated()
    async with ModelServer() as server:
        async with house(tmp_path, server.base_url, tool_) as bed:
            story = Story(bed, server, tool_)
            await story.begin(asks(("gated", "{}")))
            await tool_.running.wait()
            await story.steer("in metres")
        async with house(tmp_path, server.base_url, Gated()) as bed:
            await until(lambda: bed.platform.sent)
            await bed.platform.settled()
            assert sum("in metres" in text for text in said(server.requests[-1])) == 1
            await used_once(bed, "in metres")
            check_openai(server)


@pytest.mark.parametrize("loops", [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89])
async def test_case_18_a_steer_at_any_instant_around_the_end_of_a_turn_is_used_once(
    tmp_path: Path, loops: int
) -> None:
    """(S2, S3) After any number of turns of the event loop since the last word of the answer was sent."""
    gate = asyncio.Event()
    async with ModelServer() as server, house(tmp_path, server.base_url) as bed:
        story = Story(bed, server, Gated())
        await story.begin(Answer((chunk("one "), gate, chunk("two", finish="stop"))))
        await until(bed.platform.drafts)
        gate.set()
        for _ in range(loops):
            await asyncio.sleep(0)
        await bed.platform.say("/steer in metres")
        await server.asked(2)
        await until(lambda: "All well." in bed.platform.texts())
        await bed.platform.settled()
        await used_once(bed, "in metres")
        assert json.dumps(server.requests[-1].body["messages"]).count("in metres") == 1
        check_openai(server)
