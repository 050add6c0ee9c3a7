"""What people type, over real HTTP and processes: /stop, /interrupt, words while the turn stops; several people."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hermes_core.testing.bed import Bed
from hermes_core.testing.model_server import Answer, ModelServer, asks, chunk

from .real import Tables, accepted, answers, check_openai, house, living, said, until

QUEUE = {"conversation": {"busy": "queue"}}
DEAF = "trap '' TERM; : > up; sleep 60; sleep 60"  # SIGKILL comes after 0.3 s


def silent() -> Answer:
    """An answer that is half there and goes no further."""
    return Answer((chunk("half"), asyncio.Event()))


async def streaming(server: ModelServer, bed: Bed, author: str = "ann", *, group: bool = False) -> None:
    """`author` begins, and the answer is half there."""
    server.script(silent())
    await bed.platform.say("work", author=author, group=group)
    await until(bed.platform.drafts)


async def deaf(server: ModelServer, bed: Bed, folder: Path) -> None:
    """A command runs that does not listen to SIGTERM."""
    server.script(asks(("run_command", json.dumps({"command": DEAF}))))
    await bed.platform.say("work")
    await until((folder / "work" / "up").exists)


async def test_case_10_stop_cancels_all_that_waits_says_how_many_and_starts_nothing(tmp_path: Path) -> None:
    """(I10) Case 10: it emptied only the head of the queue; the tail ran after the next message."""
    async with ModelServer() as server:
        async with house(tmp_path, server.base_url, tables=QUEUE) as bed:
            await streaming(server, bed)
            for number in range(7):
                await bed.platform.say(f"q{number}")
            await bed.platform.say("/steer s")
            await bed.platform.say("/stop")
            await bed.platform.settled()
            assert bed.platform.texts()[-1] == "Stopped. Cancelled 8 waiting messages."
            assert len(server.requests) == 1
            await bed.platform.say("hello")
            assert (await answers(bed, 3))[-1] == "All well."
            assert said(server.requests[-1]) == ["work", "hello"]
        async with house(tmp_path, server.base_url, tables=QUEUE) as bed:
            await bed.platform.say("hello again")
            await answers(bed, 1)
            assert said(server.requests[-1]) == ["work", "hello", "hello again"], "nor after a restart"


async def test_case_17_stop_is_never_given_to_the_model(tmp_path: Path) -> None:
    """(T5) Case 17: it was, because it came while steering was on."""
    async with (
        ModelServer() as server,
        house(tmp_path, server.base_url, tables={"conversation": {"busy": "steer"}}) as bed,
    ):
        await deaf(server, bed, tmp_path)
        await bed.platform.say("a hint")
        await bed.platform.say("/stop")
        assert await answers(bed, 1) == ["Stopped. Cancelled 1 waiting message."]
        assert living(tmp_path / "work") == []
        await bed.platform.say("hello")
        await answers(bed, 2)
        assert said(server.requests[-1]) == ["work", "hello"]


async def test_e1_interrupt_with_text_overtakes_what_waits(tmp_path: Path) -> None:
    """(E1, T2)"""
    async with ModelServer() as server, house(tmp_path, server.base_url, tables=QUEUE) as bed:
        await streaming(server, bed)
        await bed.platform.say("q1")
        await bed.platform.say("q2")
        await bed.platform.say("/interrupt urgent")
        assert await answers(bed, 2) == ["All well."] * 2
        assert said(server.requests[1]) == ["work", "urgent"]
        assert said(server.requests[2]) == ["work", "urgent", "q1\nq2"]
        check_openai(server)


async def test_i7_what_is_typed_while_a_command_is_being_ended_joins_the_interrupting_message(
    tmp_path: Path,
) -> None:
    """(I7, I8)"""
    async with ModelServer() as server, house(tmp_path, server.base_url) as bed:
        await deaf(server, bed, tmp_path)
        _, at = await accepted(bed, "stop that")
        await until(lambda: bed.platform.gateway.activity(bed.platform.address()).state == "stopping")
        await bed.platform.say("do this")
        await bed.platform.say("/queue and this")
        await bed.platform.say("/steer in metres")
        following = await server.asked(2)
        assert said(following) == ["work", "stop that\ndo this\nand this\nin metres"]
        assert following.at - at < 0.8
        await bed.platform.settled()
        assert len(server.requests) == 2
        check_openai(server)


async def test_i10_a_second_stop_while_the_turn_stops_cancels_what_came_meanwhile(tmp_path: Path) -> None:
    """(I10, I7)"""
    async with ModelServer() as server, house(tmp_path, server.base_url) as bed:
        await deaf(server, bed, tmp_path)
        await bed.platform.say("stop that")
        await bed.platform.say("and do this")
        await bed.platform.say("/stop")
        await answers(bed, 1)
        assert "Cancelled 2 waiting messages." in bed.platform.texts()[0]
        assert len(server.requests) == 1
        assert living(tmp_path / "work") == []


# ---- several people

GROUP = {"access": {"owners": ["fake:root"], "allow": ["*"]}}


async def test_case_3_four_people_write_at_the_same_moment_and_all_are_answered(tmp_path: Path) -> None:
    """(D2, T2, T3) Case 3: two of four vanished."""
    people = ["ann", "bob", "cleo", "dan"]
    async with ModelServer() as server, house(tmp_path, server.base_url, tables=GROUP) as bed:
        await asyncio.gather(*(bed.platform.say(f"from {name}", author=name, group=True) for name in people))
        await until(lambda: bed.platform.sent)
        await bed.platform.settled()
        text = "\n".join(said(server.requests[-1]))
        assert sorted(text.split("\n")) == sorted(f"{name.title()}: from {name}" for name in people)
        check_openai(server)


async def test_t2_only_the_person_whose_turn_runs_or_an_admin_interrupts_and_others_are_told(
    tmp_path: Path,
) -> None:
    """(T2, T6)"""
    async with ModelServer() as server, house(tmp_path, server.base_url, tables=GROUP) as bed:
        await streaming(server, bed, "ann", group=True)
        bobs = await bed.platform.say("me too", author="bob", group=True)
        await bed.platform.say("/interrupt me first", author="bob", group=True)
        await bed.platform.say("/steer psst", author="bob", group=True)
        await until(lambda: len(bed.platform.sent) == 2)
        assert bed.platform.texts() == [
            "Queued at position 2: only the person whose work runs can interrupt it.",
            "Queued at position 3: only the person whose work runs can steer it.",
        ]
        assert bed.platform.receipts() == [(bobs.id, "queued", 1)]
        assert not server.requests[0].gone.is_set()
        await bed.platform.say("everybody stop", author="root", group=True)
        await asyncio.wait_for(server.requests[0].gone.wait(), 5)
        assert (await answers(bed, 4))[2:] == ["All well."] * 2
        assert said(server.requests[1])[-1] == "Root: everybody stop"
        assert said(server.requests[2])[-1] == "Bob: me too\nBob: me first\nBob: psst"
        check_openai(server)


async def queued_before(bed: Bed) -> None:
    await bed.platform.say("/queue q")


async def steered_before(bed: Bed) -> None:
    await bed.platform.say("/steer s")


async def followup_before(bed: Bed) -> None:
    await bed.platform.say("/followup f")


async def others_wait(bed: Bed) -> None:
    await bed.platform.say("me too", author="bob", group=True)


async def edited_before(bed: Bed) -> None:
    await bed.platform.say("/queue q")
    message = await bed.platform.say("/status")
    await bed.platform.gateway.edited(message.address, message.id, "/status, please")


async def nothing(bed: Bed) -> None:
    """Nothing else is the case."""


Condition = Callable[[Bed], Awaitable[None]]
CONDITIONS: list[Condition] = [
    nothing,
    queued_before,
    steered_before,
    followup_before,
    others_wait,
    edited_before,
]


@pytest.mark.parametrize("at", ["a word of the answer", "a command"])
@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda one: one.__name__.replace("_", " "))
async def test_case_20_an_interrupting_message_interrupts_whatever_else_is_the_case(
    tmp_path: Path, condition: Condition, at: str
) -> None:
    """(T2, E1) Case 20: it was queued without a word, because some other condition demoted it.

    What waits already, a tool that runs, people who wait: nothing demotes it.
    """
    async with ModelServer() as server, house(tmp_path, server.base_url) as bed:
        server.script(
            silent()
            if at == "a word of the answer"
            else asks(("run_command", '{"command": ": > up; sleep 60"}'))
        )
        await bed.platform.say("/interrupt work", group=True)
        await until(
            bed.platform.drafts if at == "a word of the answer" else (tmp_path / "work" / "up").exists
        )
        await condition(bed)
        message, began = await accepted(bed, "no, this", group=True)
        following = await server.asked(2)
        assert following.at - began < 0.5
        assert said(following)[-1].startswith("Ann: no, this")
        assert (message.id, "interrupting", 0) in bed.platform.receipts(), "the receipt tells the truth"
        assert living(tmp_path / "work") == []
        async with asyncio.timeout(10):
            await bed.platform.settled()
        check_openai(server)


async def test_case_20_nor_does_a_quiet_window(tmp_path: Path) -> None:
    """(E1, T1) Only the first message of an idle conversation waits for more."""
    tables: Tables = {"conversation": {"quiet": 1.0}}
    async with ModelServer() as server, house(tmp_path, server.base_url, tables=tables) as bed:
        server.script(silent())
        _, began = await accepted(bed, "work")
        assert (await server.asked()).at - began >= 1.0
        await until(bed.platform.drafts)
        _, began = await accepted(bed, "no, this")
        assert (await server.asked(2)).at - began < 0.5
        await answers(bed, 1)
