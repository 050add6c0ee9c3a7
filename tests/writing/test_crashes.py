"""Killed at each step, and begun anew: each text has its end or its mark, once (R3, D5, D6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import pytest

from hermes_core.adapter import Broken
from hermes_core.messages import Outgoing
from hermes_core.testing.virtual import run
from hermes_core.writing import Draft, Journal

from .wall import HERE, MARK, REPEAT, House, Wall

BEFORE: Final = "Let me look at what it is."
AFTER: Final = "Here it is, the whole of it."
CALLS: Final = 8  # of the scenario


async def life(house: House, *, again: bool = False) -> None:
    """A turn: a text, a tool call, another text, its reply. `again`: from the step that was not finished."""
    async with house.connected():
        if not again:
            house.says(1, 0, "Let me *look* at")
            await asyncio.sleep(2.0)
            house.says(1, 0, " what it is.")
            await asyncio.sleep(2.0)
            if not house.wall.died.is_set():
                house.wall.steps += 1
            house.does("tool")
            await asyncio.sleep(2.0)
        house.says(1, 0 if again else 1, "Here it *is*,")
        await asyncio.sleep(2.0)
        await house.reply(1, "Here it *is*, the whole of it.")


async def broken(house: House) -> None:
    """A turn that is interrupted while it writes a text of two messages."""
    async with house.connected():
        house.says(1, 0, "Let me look at what it is.")
        await asyncio.sleep(2.0)
        house.writing.show(HERE, Broken(1, "interrupted"))
        await asyncio.sleep(2.0)


Life = Callable[[House], Coroutine[Any, Any, None]]


async def killed(folder: Path, at: int, how: str, *, asked: bool, live: Life = life) -> tuple[Wall, Path]:
    """The wall and the journal as the kill leaves them; "torn": it came while the last line was written."""
    file = folder / "drafts"
    wall = Wall(["ok"] * at + ["die after" if how == "after" else "die before"], asked=asked, file=file)
    turn = asyncio.create_task(live(House(wall, file)))
    died = asyncio.create_task(wall.died.wait())
    await asyncio.wait({turn, died}, return_when=asyncio.FIRST_COMPLETED)
    assert wall.died.is_set(), "the scenario has fewer calls"
    left = wall.journal
    turn.cancel()
    died.cancel()
    await asyncio.wait({turn, died})
    file.unlink(missing_ok=True)
    if left:
        file.write_bytes(left[:-7] if how == "torn" else left)
    return wall, file


@pytest.mark.parametrize("how", ["before", "after", "torn"])
@pytest.mark.parametrize("at", range(CALLS))
def test_r3_a_turn_that_goes_on_after_a_kill_ends_in_the_same_messages(
    tmp_path: Path, at: int, how: str
) -> None:
    async def main() -> None:
        wall, file = await killed(tmp_path, at, how, asked=True)
        await life(House(wall, file), again=wall.steps > 0)
        # of a text before a tool call nobody knows that it was one, where just this was not written down whole
        unknown = how == "torn" and wall.journal.endswith(b'"passed":true}')
        assert wall.texts() == ([AFTER] if unknown else [BEFORE, AFTER])

    run(main())


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("at", range(CALLS))
def test_r3_a_turn_that_does_not_go_on_leaves_nothing_without_its_end_or_its_mark(
    tmp_path: Path, at: int, how: str
) -> None:
    async def main() -> None:
        wall, file = await killed(tmp_path, at, how, asked=True)
        shown = len(wall.texts())
        house = House(wall, file)
        async with house.connected():
            if not any(draft.text for draft in Journal(file).drafts()):  # the turn had ended
                await house.reply(1, "Here it *is*, the whole of it.")
            await asyncio.sleep(5.0)
            house.settled.set()
            await asyncio.sleep(5.0)
        assert len(wall.texts()) == shown
        for text in wall.texts():
            assert text in (BEFORE, AFTER) or text.endswith(MARK), wall.texts()
        assert not any(draft.text for draft in Journal(file).drafts())

    run(main())


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("at", range(CALLS))
def test_r3_another_turn_begins_and_what_the_killed_one_left_is_closed(
    tmp_path: Path, at: int, how: str
) -> None:
    async def main() -> None:
        wall, file = await killed(tmp_path, at, how, asked=True)
        house = House(wall, file)
        async with house.connected():
            if not any(draft.text for draft in Journal(file).drafts()):  # the turn had ended
                await house.reply(1, "Here it *is*, the whole of it.")
            house.says(2, 0, "Something")
            await house.reply(2, "Something else.")
            await asyncio.sleep(5.0)
        *left, last = wall.texts()
        assert last == "Something else."
        for text in left:
            assert text in (BEFORE, AFTER) or text.endswith(MARK), left

    run(main())


@pytest.mark.parametrize("how", ["before", "after", "torn"])
@pytest.mark.parametrize("at", range(4))
def test_i5_a_text_that_was_just_being_closed_has_its_mark_once(tmp_path: Path, at: int, how: str) -> None:
    async def main() -> None:
        wall, file = await killed(tmp_path, at, how, asked=True, live=broken)
        house = House(wall, file)
        house.settled.set()
        async with house.connected():
            await asyncio.sleep(5.0)
        if not (at == 0 and how != "after"):  # nobody saw anything
            (text,) = wall.texts()
            assert text.endswith(MARK)
            assert text.count(MARK) == 1

    run(main())


@pytest.mark.parametrize("fault", ["refused", "after", "fault"])
def test_r3_what_a_killed_run_left_is_closed_though_the_next_connection_is_lost_meanwhile(
    tmp_path: Path, fault: str
) -> None:
    async def main() -> None:
        wall, file = await killed(tmp_path, 1, "before", asked=True)
        wall.faults = iter([fault, fault])
        house = House(wall, file)
        house.says(2, 0, "Something")  # before there is a connection at all
        async with house.connected():
            await asyncio.sleep(0.005)
        house.settled.set()
        async with house.connected():
            await asyncio.sleep(0.015)
        async with house.connected():
            await house.reply(2, "Something else.")
            await asyncio.sleep(5.0)
        assert wall.texts() == [f"Let me look at\n\n{MARK}", "Something else."]
        assert house.writing.begun(Outgoing("k", HERE, "x", turn="1")) is False

    run(main())


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("at", range(CALLS))
def test_d5_where_nothing_can_be_looked_up_nothing_is_lost_and_what_is_repeated_says_so(
    tmp_path: Path, at: int, how: str
) -> None:
    async def main() -> None:
        wall, file = await killed(tmp_path, at, how, asked=False)
        heard = file.read_text() if file.exists() else ""
        unheard = {one for one in wall.messages if f'"{one}"' not in heard}
        await life(House(wall, file), again=wall.steps > 0)
        shown = [one.sheet.words for id_, one in wall.messages.items() if id_ not in unheard]
        assert "".join(shown).replace(REPEAT, "") == BEFORE + AFTER
        assert sum(one.startswith(REPEAT) for one in shown) <= 1
        assert not unheard or any(one.startswith(REPEAT) for one in shown)

    run(main())


def test_d5_a_reply_that_is_sent_again_after_a_kill_stands_there_once_and_is_found(tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "drafts"
        house = House(wall := Wall(), file)
        await life(house)
        before = wall.texts()
        second = House(wall, file)
        found = second.writing.found("wall:me:room#turn:1")
        assert found is not None
        assert [wall.messages[one].sheet.words for one in found.ids] == [AFTER[:20], AFTER[20:]]
        async with second.connected():
            await second.reply(1, "Here it *is*, the whole of it.", repeat=True)
        assert wall.texts() == before == [BEFORE, AFTER]

    run(main())


def test_a_journal_that_cannot_be_read_begins_anew_and_one_that_cannot_be_written_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "drafts"
    file.write_bytes(
        b'\x00nonsense\n{"address":"nowhere","key":"no"}\n{"address":"a:b:c","key":"k","text":"x"}\n{"key":'
    )
    journal = Journal(file)
    assert [draft.key for draft in journal.drafts()] == ["k"]
    assert "2 lines cannot be read" in caplog.text
    folder = tmp_path / "taken"
    folder.write_text("a file where a folder should be")
    journal = Journal(folder / "drafts")
    for number in range(3):
        journal.note(Draft("a:b:c", "k", number))
    assert caplog.text.count("cannot be written") == 1
    folder.unlink()
    journal.note(Draft("a:b:c", "k", 3))
    assert [draft.part for draft in Journal(folder / "drafts").drafts()] == [3]


def test_a_disk_that_was_full_has_everything_once_it_takes_something(tmp_path: Path) -> None:
    file = tmp_path / "drafts"
    file.symlink_to("/dev/full")
    journal = Journal()
    journal._path = file
    journal.note(Draft("a:b:c", "k1", ids=("1",)))
    journal.note(Draft("a:b:c", "k2", ids=("2",)))
    assert not file.is_symlink()
    assert [draft.key for draft in Journal(file).drafts()] == ["k1", "k2"]


def test_a_journal_does_not_grow_with_what_was_written_but_with_what_is_open(tmp_path: Path) -> None:
    file = tmp_path / "drafts"
    journal = Journal(file)
    for turn in range(3000):
        journal.note(Draft(str(HERE), f"{HERE}#turn:{turn}", ids=("1",), text="word " * 10))
        journal.whole(HERE, f"{HERE}#turn:{turn}", 0, ("1",))
        journal.note(Draft(f"a:b:{turn}", f"a:b:{turn}#turn:1", ids=("1",), text="word"))
    assert file.read_bytes().count(b"\n") < 2100
    assert len(journal.drafts()) == 500
    assert sum(draft.whole for draft in journal.drafts()) == 1
    assert Journal(file).drafts() == journal.drafts()
