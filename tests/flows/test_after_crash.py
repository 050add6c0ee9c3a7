"""A restart, a crash or a second delivery moves no note, loses none and doubles none (A4, A5, D1, D6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_core.errors import ModelError
from hermes_core.messages import Entry, When
from hermes_core.testing.model import Hold
from hermes_core.testing.virtual import run

from .talk import NOTE, Talk, until


def test_a4_a_restart_moves_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        talk = Talk(tmp_path)
        bed = await talk.begin()
        await bed.say("a")
        await bed.say("/after 2 the note")
        listed = await bed.say("/after list")
        for number in range(2):
            await talk.end()
            bed = await talk.begin()
            if number == 0:
                assert await bed.say("/after list") == listed
            await bed.say(f"m{number}")
        await talk.end()
        bed = await talk.begin()
        await bed.say("now")
        assert talk.notes() == [[], [], [], ["the note"]]
        await talk.end()

    run(story())


def test_a4_a_crash_before_the_command_was_carried_out_loses_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        talk = Talk(tmp_path)
        bed = await talk.begin()
        await bed.say("a")
        await bed.platform.say("/after 1 the note")
        await talk.crash()
        bed = await talk.begin()
        await bed.platform.settled()
        assert "after reply 2 (1 from now)" in bed.platform.texts()[0]
        await bed.say("b")
        await bed.say("c")
        assert talk.notes() == [[], [], ["the note"]]
        await talk.end()

    run(story())


def test_a4_a_crash_between_the_note_and_its_answer_answers_with_the_same_place(tmp_path: Path) -> None:
    async def story() -> None:
        talk = Talk(tmp_path, after={"max_entries": 1})
        bed = await talk.begin()
        await bed.say("a")
        cut_before(talk, "settle")
        await bed.platform.say("/after 1 the note")
        await until(lambda: talk.line.cut)
        await talk.crash()
        assert [note.text for note in talk.store.notes(bed.platform.address()).value] == ["the note"]
        bed = await talk.begin()
        await bed.platform.settled()
        note = (await talk.store.notes(bed.platform.address()))[0]
        assert bed.platform.texts() == [
            f"Noted [{note.short}] after reply 2 (1 from now). The latest reply is 1: “you said: a”"
        ]
        await bed.say("b")
        await bed.say("c")
        await bed.say("d")
        assert talk.notes() == [[], [], ["the note"], []]
        await talk.end()

    run(story())


def cut_before(talk: Talk, name: str) -> None:
    """The program dies in the very instant in which it would call this."""
    line = talk.line

    def die(*arguments: Any) -> Awaitable[Any]:
        line.cut = True
        return asyncio.get_running_loop().create_future()

    setattr(line, name, die)


@pytest.mark.parametrize("ending", ["completes", "interrupted", "fails", "new"])
def test_a5_a_note_that_rides_with_a_turn_that_a_crash_cut_off_is_neither_lost_nor_twice(
    tmp_path: Path, ending: str
) -> None:
    async def story() -> None:
        talk, hold, again = Talk(tmp_path), Hold(), Hold()
        bed = await talk.begin(["so ", hold])
        await bed.say("/after 0 the note")
        await bed.platform.say("a")
        await hold.reached.wait()
        await talk.crash()
        bed = await talk.begin([again, ModelError("It failed.") if ending == "fails" else "done"])
        await again.reached.wait()
        assert talk.read() == [f"{NOTE}the note", "a"], "the turn goes on as it was"
        assert "in the running turn: the note" in await talk.ask("/after list")
        if ending == "interrupted":
            assert await talk.ask("/stop") == "Stopped."
        elif ending == "new":
            assert await talk.ask("/new") == (
                "This is a new conversation. The running work was stopped. Cancelled: 1 that waited."
            )
        again.release()
        await bed.platform.settled()
        await bed.say("b")
        await bed.say("c")
        assert (
            talk.notes()
            == {
                "completes": [["the note"], [], []],
                "interrupted": [[], ["the note"], []],
                "fails": [[], ["the note"], []],
                "new": [[], [], []],
            }[ending]
        )
        await talk.end()
        bed = await talk.begin()
        assert await bed.say("/after list") == "No notes wait here."
        await talk.end()

    run(story())


def test_a5_a_turn_that_was_being_stopped_in_the_crash_hands_its_note_on(tmp_path: Path) -> None:
    async def story() -> None:
        talk, hold = Talk(tmp_path), Hold()
        bed = await talk.begin(["so ", hold])
        await bed.say("/after 0 the note")
        await bed.platform.say("a")
        await hold.reached.wait()
        cut_before(talk, "finish")
        await bed.platform.say("/interrupt")
        await until(lambda: talk.line.cut)
        await talk.crash()
        bed = await talk.begin()
        await bed.platform.settled()
        assert bed.model.requests == []
        await bed.say("b")
        assert talk.read() == ["a", f"{NOTE}the note", "b"]
        await talk.end()

    run(story())


@pytest.mark.parametrize("crashed", [False, True], ids=["live", "after a crash"])
@pytest.mark.parametrize("verb", ["/after 0", "/queue", "/followup", "/reply 1", "reply"])
def test_what_is_written_right_behind_does_not_overtake(tmp_path: Path, verb: str, crashed: bool) -> None:
    """A1, T3, D6: a platform may deliver both in the same instant, and a start takes up both at once."""

    async def story() -> None:
        talk = Talk(tmp_path, slow=True)
        bed = await talk.begin("so it is")
        await bed.say("tell me")
        message = bed.platform.message("first", reply_to="p1")
        if verb != "reply":
            message = bed.platform.message(f"{verb} first")
        both = [message, bed.platform.message("second")]
        if crashed:
            for one in both:
                entry = Entry(one.id, one.address, one.author, one.text, When.QUEUE, reply_to=one.reply_to)
                command = one.text.startswith("/")
                await talk.store.admit(msgspec.structs.replace(entry, command=command))
            await talk.crash()
            bed = await talk.begin()
        else:
            await asyncio.gather(*map(bed.platform.gateway.receive, both))
        await bed.platform.settled()
        await until(lambda: len(talk.notes()) > 1)
        await bed.platform.settled()
        quoted = "> so it is\n\nfirst"
        first = {"/after 0": f"{NOTE}first", "reply": quoted, "/reply 1": quoted}.get(verb, "first")
        written = [text for text in talk.read() if not text.startswith("you said")]
        assert written == ["tell me", "so it is", first, "second"]
        await talk.end()

    run(story())


def test_a8_the_limit_holds_for_notes_that_come_at_once_on_a_slow_disk(tmp_path: Path) -> None:
    async def story() -> None:
        talk = Talk(tmp_path, slow=True, after={"max_entries": 3})
        bed = await talk.begin()
        await asyncio.gather(*(bed.platform.say(f"/after 0 n{number}") for number in range(6)))
        await bed.platform.settled()
        await bed.say("hello")
        assert talk.notes() == [["n0", "n1", "n2"]]
        assert sum(text.startswith("There are 3 notes already.") for text in bed.platform.texts()) == 3
        await talk.end()

    run(story())


def test_t7_d6_new_holds_over_a_crash_before_the_turn_that_it_stops_has_ended(tmp_path: Path) -> None:
    async def story() -> None:
        talk, hold = Talk(tmp_path), Hold()
        bed = await talk.begin(["so ", hold])
        await bed.say("/after 0 rides")
        await bed.platform.say("a")
        await hold.reached.wait()
        cut_before(talk, "finish")
        await bed.platform.say("/new")
        await until(lambda: talk.line.cut)
        await talk.crash()
        assert bed.platform.texts()[1:] == [], "it is not said before it is so"
        bed = await talk.begin()
        await bed.platform.settled()
        assert bed.platform.texts() == ["This is a new conversation. Cancelled: 1 that waited."]
        await bed.say("b")
        assert talk.read() == ["b"]
        await talk.end()

    run(story())


def test_d1_the_same_command_delivered_twice_is_one_note(tmp_path: Path) -> None:
    async def story() -> None:
        talk = Talk(tmp_path)
        bed = await talk.begin()
        message = await bed.platform.say("/after 0 the note")
        await bed.platform.settled()
        await bed.platform.gateway.receive(message)
        await talk.end()
        bed = await talk.begin()
        await bed.platform.gateway.receive(message)
        await bed.say("a")
        await bed.say("b")
        assert talk.notes() == [["the note"], []]
        await talk.end()

    run(story())


def test_conversations_do_not_share_their_notes(tmp_path: Path) -> None:
    async def story() -> None:
        talk = Talk(tmp_path)
        bed = await talk.begin()
        await bed.say("/after 0 the note", channel="1")
        assert await bed.say("/after list", channel="2") == "No notes wait here."
        assert await bed.say("hello", channel="2") == "you said: hello"
        assert bed.model.texts() == ["hello"]
        await talk.end()

    run(story())
