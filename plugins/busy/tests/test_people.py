"""Several people in one conversation: who ends a turn, and whose messages one can cancel (T2, D2, X1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Hold
from hermes_core.testing.virtual import run

REFUSED = "Somebody else's work runs here. Only that person or an admin can stop it."
ADMINS = {"access": {"admins": ["fake:adam"]}, "conversation": {"busy": "queue"}}


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


@asynccontextmanager
async def of_bob(folder: Path) -> AsyncIterator[tuple[Bed, Hold]]:
    """A bed in which a turn of bob runs; "ann" is the owner, "adam" an admin, everybody else is just served."""
    hold = Hold()
    plugins = [BusyPlugin(), BasicsPlugin()]
    async with Bed(folder, [["so ", hold, "done"]], plugins=plugins, config=ADMINS) as bed:
        await bed.platform.say("work", author="bob", group=True)
        await hold.reached.wait()
        yield bed, hold
        hold.release()
        await bed.platform.settled()


async def ask(bed: Bed, text: str, author: str) -> str:
    """The answer to a command that is typed while the turn goes on."""
    message = await bed.platform.say(text, author=author, group=True)
    await until(lambda: any(one.answers == message.id for one in bed.platform.sent))
    return next(one.text for one in bed.platform.sent if one.answers == message.id)


@pytest.mark.parametrize("verb", ["/stop", "/interrupt", "/new", "/reset"])
def test_t2_somebody_else_cannot_end_the_turn_and_nothing_happens(tmp_path: Path, verb: str) -> None:
    async def story() -> None:
        async with of_bob(tmp_path) as (bed, hold):
            await bed.platform.say("later", author="bob", group=True)
            assert await ask(bed, verb, "eve") == REFUSED
            assert bed.model.cut == 0
            hold.release()
            await bed.platform.settled()
            assert bed.model.texts() == ["work", "later"], (
                "what waited was not cancelled, the history is the same"
            )

    run(story())


@pytest.mark.parametrize("author", ["bob", "adam", "ann"])
@pytest.mark.parametrize(
    ("verb", "answer"),
    [
        ("/stop", "Stopped. Cancelled 1 waiting message."),
        ("/new", "This is a new conversation. The running work was stopped. Cancelled: 1 that waited."),
    ],
)
def test_t2_the_person_whose_turn_runs_and_admins_end_it(
    tmp_path: Path, author: str, verb: str, answer: str
) -> None:
    async def story() -> None:
        async with of_bob(tmp_path) as (bed, _):
            await bed.platform.say("later", author="eve", group=True)
            assert await ask(bed, verb, author) == answer
            await bed.platform.settled()
            assert bed.model.cut == 1
            assert len(bed.model.requests) == 1

    run(story())


@pytest.mark.parametrize("author", ["bob", "adam", "ann"])
def test_t2_a_bare_interrupt_is_theirs_as_well(tmp_path: Path, author: str) -> None:
    async def story() -> None:
        async with of_bob(tmp_path) as (bed, _):
            await bed.platform.say("later", author="eve", group=True)
            await bed.platform.say("/interrupt", author=author, group=True)
            await bed.platform.settled()
            assert bed.model.cut == 1
            assert bed.model.texts() == ["work", "later"]

    run(story())


@pytest.mark.parametrize("verb", ["/stop", "/new"])
def test_t2_where_nothing_runs_anybody_may(tmp_path: Path, verb: str) -> None:
    async def story() -> None:
        async with of_bob(tmp_path) as (bed, hold):
            hold.release()
            await bed.platform.settled()
            assert REFUSED not in await ask(bed, verb, "eve")

    run(story())


def test_d2_each_person_cancels_the_own_messages_and_an_admin_all(tmp_path: Path) -> None:
    async def story() -> None:
        async with of_bob(tmp_path) as (bed, _):
            for author in ("bob", "eve", "bob"):
                await bed.platform.say(f"of {author}", author=author, group=True)
            refused = "Somebody else wrote this. Only that person or an admin can cancel it."
            assert await ask(bed, "/queue cancel 1", "eve") == refused
            assert await ask(bed, "/queue cancel 2", "eve") == "Cancelled: of eve"
            assert await ask(bed, "/queue clear", "eve") == (
                "Cancelled 0 waiting messages. Those of other people stay: 2."
            )
            await bed.platform.say("of eve again", author="eve", group=True)
            assert await ask(bed, "/queue clear", "eve") == (
                "Cancelled 1 waiting message. Those of other people stay: 2."
            )
            assert await ask(bed, "/queue cancel 1", "adam") == "Cancelled: of bob"
            await bed.platform.say("of eve at last", author="eve", group=True)
            assert await ask(bed, "/queue clear", "adam") == "Cancelled 2 waiting messages."
            assert await ask(bed, "/queue clear", "adam") == "Nothing waits."

    run(story())


@pytest.mark.parametrize("author", ["adam", "ann"])
def test_x1_an_admin_interrupts_and_steers_the_turn_of_anybody(tmp_path: Path, author: str) -> None:
    async def story() -> None:
        async with of_bob(tmp_path) as (bed, _):
            await bed.platform.say("/interrupt enough", author=author, group=True)
            await bed.platform.settled()
            assert bed.model.cut == 1
            assert bed.model.texts() == ["work", "enough"]

    run(story())
