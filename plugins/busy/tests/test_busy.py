"""/stop, /interrupt, /queue, /followup and /busy: what they do, say and refuse (T2, T3, I10, D2, E4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_busy.plugin import BusyPlugin
from hermes_core import history
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold
from hermes_core.testing.virtual import run

MODES = ["interrupt", "queue", "steer", "followup"]


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


@asynccontextmanager
async def at_work(folder: Path, mode: str = "queue", **more: Any) -> AsyncIterator[tuple[Bed, Hold]]:
    """A bed whose first turn, by ann, is in the middle of its answer."""
    hold = Hold()
    config = {"conversation": {"busy": mode}}
    async with Bed(folder, [["so ", hold, "done"]], plugins=[BusyPlugin()], config=config, **more) as bed:
        await bed.platform.say("work")
        await hold.reached.wait()
        yield bed, hold
        hold.release()
        await bed.platform.settled()


async def ask(bed: Bed, text: str, author: str = "ann") -> str:
    """The answer to a command that is typed while the turn goes on."""
    before = len(bed.platform.sent)
    await bed.platform.say(text, author=author)
    await until(lambda: len(bed.platform.sent) > before)
    return bed.platform.texts()[before]


def idle(folder: Path, text: str) -> str:
    async def story() -> str:
        async with Bed(folder, plugins=[BusyPlugin()]) as bed:
            return await bed.say(text)

    return run(story())


# ---- idle


@pytest.mark.parametrize("name", ["interrupt", "queue", "followup"])
def test_t2_when_idle_a_command_with_a_text_is_a_plain_message(tmp_path: Path, name: str) -> None:
    assert idle(tmp_path, f"/{name} hello there") == "you said: hello there"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/stop", "Nothing runs here and nothing waits."),
        ("/stop it", "There is no job 'it' in this conversation."),
        ("/stop all", "Nothing runs here and nothing waits."),
        ("/stop it all", "/stop takes no more than 1 arguments. Type /stop [WHAT]"),
        ("/interrupt", "Nothing runs here."),
        ("/queue", "/queue: TEXT is missing. Type /queue TEXT"),
        ("/queue list", "Nothing waits."),
        ("/queue clear", "Nothing waits."),
        ("/queue cancel 1", "Nothing waits under '1'. Type /queue list to see what does."),
        (
            "/queue cancel",
            (
                "/queue cancel needs one position or id. Type /queue list to see them. "
                'To queue this as a text, put it in quotes: /queue "cancel …"'
            ),
        ),
        (
            "/queue cancel 1 2",
            (
                "/queue cancel needs one position or id. Type /queue list to see them. "
                'To queue this as a text, put it in quotes: /queue "cancel …"'
            ),
        ),
        (
            "/queue list of things",
            '/queue list takes nothing more. To queue this as a text, put it in quotes: /queue "list …"',
        ),
        (
            "/queue clear it",
            '/queue clear takes nothing more. To queue this as a text, put it in quotes: /queue "clear …"',
        ),
        ("/followup", "/followup: TEXT is missing. Type /followup TEXT"),
        (
            "/busy",
            "A message during work: interrupt. Others: interrupt, queue, steer, followup, default.",
        ),
        (
            "/busy fast",
            (
                "/busy: MODE must be one of interrupt, queue, steer, followup, default, not 'fast'. "
                "Type /busy [interrupt|queue|steer|followup|default]"
            ),
        ),
        (
            "/busy queue now",
            "/busy takes no more than 1 arguments. Type /busy [interrupt|queue|steer|followup|default]",
        ),
    ],
)
def test_what_an_idle_conversation_answers(tmp_path: Path, text: str, answer: str) -> None:
    assert idle(tmp_path, text) == answer


# ---- /queue


def test_e4_a_sub_command_in_quotes_is_a_text(tmp_path: Path) -> None:
    async def story() -> None:
        async with at_work(tmp_path) as (bed, hold):
            assert await ask(bed, '/queue "list"') == "Queued at position 1."
            assert await ask(bed, "/queue 'cancel 1'") == "Queued at position 2."
            assert await ask(bed, "/queue “clear”") == "Queued at position 3."
            assert await ask(bed, '/queue "list" these') == "Queued at position 4."
            hold.release()
            await bed.platform.settled()
            assert bed.model.texts()[-1] == 'list\ncancel 1\nclear\n"list" these'

    run(story())


def test_d2_the_list_shows_positions_ids_and_what_is_of_another_kind(tmp_path: Path) -> None:
    async def story() -> None:
        async with at_work(tmp_path) as (bed, _):
            await ask(bed, "/queue one\nand a half")
            await ask(bed, "/followup two")
            await ask(bed, "/queue " + "long " * 30)
            first, second, third = (await ask(bed, "/queue list")).splitlines()
            assert first.startswith("1. [q")
            assert first.endswith("] one and a half")
            assert second.startswith("2. [q")
            assert second.endswith("] two (followup)")
            assert third.startswith("3. [q")
            assert third.endswith(" long…")

    run(story())


def test_d2_a_long_list_says_how_many_more_there_are(tmp_path: Path) -> None:
    async def story() -> None:
        async with at_work(tmp_path) as (bed, _):
            for number in range(60):
                await bed.platform.say(f"m{number}")
            lines = (await ask(bed, "/queue list")).splitlines()
            assert len(lines) == 51
            assert lines[-1] == "… and 10 more"
            assert await ask(bed, "/queue clear") == "Cancelled 60 waiting messages."

    run(story())


def test_d2_one_of_the_waiting_is_cancelled_by_position_or_by_id(tmp_path: Path) -> None:
    async def story() -> None:
        async with at_work(tmp_path) as (bed, hold):
            for text in "abc":
                await ask(bed, f"/queue {text}")
            id_ = (await ask(bed, "/queue list")).splitlines()[2].split()[1]
            assert await ask(bed, f"/queue cancel {id_.upper()}") == "Cancelled: c"
            assert await ask(bed, "/queue cancel 1") == "Cancelled: a"
            assert (
                await ask(bed, "/queue cancel 2")
                == "Nothing waits under '2'. Type /queue list to see what does."
            )
            assert (
                await ask(bed, f"/queue cancel {id_}")
                == f"Nothing waits under '{id_}'. Type /queue list to see what does."
            )
            hold.release()
            await bed.platform.settled()
            assert bed.model.texts() == ["work", "b"]

    run(story())


def test_t3_queue_overrides_the_mode_for_one_message(tmp_path: Path) -> None:
    async def story() -> None:
        async with at_work(tmp_path, "interrupt") as (bed, hold):
            assert await ask(bed, "/queue later") == "Queued at position 1."
            hold.release()
            await bed.platform.settled()
            assert bed.platform.texts()[1:] == ["so done", "you said: later"]
            assert bed.model.cut == 0

    run(story())


# ---- /followup


def test_t3_followups_have_a_turn_each_in_their_place(tmp_path: Path) -> None:
    async def story() -> None:
        async with at_work(tmp_path) as (bed, hold):
            for text in ("a", "b", "/followup c", "/followup d", "e", "f"):
                await bed.platform.say(text)
            await asyncio.sleep(0)
            hold.release()
            await bed.platform.settled()
            said = [text for text in bed.platform.texts() if text.startswith("you said")]
            assert said == ["you said: a\nb", "you said: c", "you said: d", "you said: e\nf"]

    run(story())


# ---- /interrupt


def test_i10_interrupt_alone_ends_the_turn_and_lets_what_waits_begin(tmp_path: Path) -> None:
    async def story() -> None:
        async with at_work(tmp_path) as (bed, _):
            await bed.platform.say("next")
            await bed.platform.say("/interrupt")
            await bed.platform.settled()
            assert bed.platform.texts() == ["you said: next"], "no answer of its own where it worked"
            assert bed.platform.broken() == [1]
            assert bed.model.cut == 1

    run(story())


def test_e1_an_interrupting_text_goes_before_what_waited(tmp_path: Path) -> None:
    async def story() -> None:
        async with at_work(tmp_path) as (bed, _):
            await bed.platform.say("later")
            await bed.platform.say('/interrupt "now"')
            await bed.platform.settled()
            assert bed.platform.texts() == ["you said: now", "you said: later"]

    run(story())


def test_t2_somebody_else_cannot_interrupt_and_is_told_so(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with Bed(tmp_path, [["so ", hold, "done"]], plugins=[BusyPlugin()]) as bed:
            await bed.platform.say("work", author="bob", group=True)
            await hold.reached.wait()
            answer = await ask(bed, "/interrupt me first", author="eve")
            assert answer == "Queued at position 1: only the person whose work runs can interrupt it."
            await bed.platform.say("and me", author="eve", group=True)
            await until(lambda: bed.platform.receipts())
            assert [kind for _, kind, _ in bed.platform.receipts()] == ["queued"]
            hold.release()
            await bed.platform.settled()
            assert bed.model.cut == 0
            assert bed.platform.texts()[1] == "so done"

    run(story())


def test_t2_the_owner_interrupts_anybody(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with Bed(tmp_path, [["so ", hold, "done"]], plugins=[BusyPlugin()]) as bed:
            await bed.platform.say("work", author="bob", group=True)
            await hold.reached.wait()
            assert await bed.say("enough", author="ann", group=True) == "you said: enough"
            assert bed.model.cut == 1

    run(story())


# ---- /stop


@pytest.mark.parametrize("mode", MODES)
def test_i10_stop_ends_the_turn_cancels_what_waits_and_starts_nothing(tmp_path: Path, mode: str) -> None:
    async def story() -> None:
        async with at_work(tmp_path, mode) as (bed, _):
            for text in ("/queue a", "/followup b", "/queue c"):
                await ask(bed, text)
            assert await ask(bed, "/stop") == "Stopped. Cancelled 3 waiting messages."
            await bed.platform.settled()
            assert len(bed.model.requests) == 1
            assert bed.model.cut == 1
            assert await bed.say("hello") == "you said: hello"
            assert bed.model.texts() == ["work", "hello"], "what was cancelled never comes back"

    run(story())


def test_i10_stop_counts_one_message_as_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with at_work(tmp_path) as (bed, _):
            await bed.platform.say("a")
            assert await ask(bed, "/stop") == "Stopped. Cancelled 1 waiting message."

    run(story())


def test_i10_stop_where_nothing_waits_says_only_that_it_stopped(tmp_path: Path) -> None:
    async def story() -> None:
        async with at_work(tmp_path) as (bed, _):
            assert await ask(bed, "/stop") == "Stopped."

    run(story())


def test_i10_what_was_stopped_stays_stopped_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        async with at_work(tmp_path, store=store) as (bed, _):
            await bed.platform.say("a")
            await ask(bed, "/stop")
        async with Bed(tmp_path, store=store) as bed:
            await bed.say("hello")
            assert len(bed.model.requests) == 1
            assert bed.model.texts() == ["work", "hello"]
            history.check(bed.model.requests[-1].items)

    run(story())


# ---- /busy


@pytest.mark.parametrize("mode", MODES)
def test_t2_busy_sets_the_mode_of_this_conversation_only_and_it_outlives_a_restart(
    tmp_path: Path, mode: str
) -> None:
    async def story() -> None:
        store = MemoryStore()
        config = {"conversation": {"busy": "steer" if mode == "queue" else "queue"}}
        configured = config["conversation"]["busy"]
        shown = "A message during work: {}. Others: interrupt, queue, steer, followup, default."
        async with Bed(tmp_path, plugins=[BusyPlugin()], config=config, store=store) as bed:
            assert await bed.say("/busy") == shown.format(configured)
            assert await bed.say(f"/busy {mode.upper()}") == f"From now on a message during work: {mode}."
        async with Bed(tmp_path, plugins=[BusyPlugin()], config=config, store=store) as bed:
            assert await bed.say("/busy") == shown.format(mode)
            assert await bed.say("/busy", channel="2") == shown.format(configured)
            assert await bed.say("/busy default") == f"From now on a message during work: {configured}."
        async with Bed(tmp_path, plugins=[BusyPlugin()], config=config, store=store) as bed:
            assert await bed.say("/busy") == shown.format(configured)

    run(story())


def test_t2_the_mode_of_a_platform_goes_before_the_general_one(tmp_path: Path) -> None:
    async def story() -> None:
        config = {"conversation": {"busy": "queue"}, "adapters": {"fake": {"busy": "followup"}}}
        async with Bed(tmp_path, plugins=[BusyPlugin()], config=config) as bed:
            assert (await bed.say("/busy")).startswith("A message during work: followup.")

    run(story())
