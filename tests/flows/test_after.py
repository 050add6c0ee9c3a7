"""Where a note lands, whatever happens in between: the boundaries of A1 to A8 and their pairs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes_core.errors import ModelError
from hermes_core.messages import Said, SaidKind
from hermes_core.testing.model import Hold
from hermes_core.testing.virtual import run

from .talk import LOOK, NOTE, Talk, until

# ---- A1, A2: counting


@pytest.mark.parametrize("count", range(4))
def test_a1_a_note_lands_in_the_first_turn_that_starts_after_so_many_replies(
    tmp_path: Path, count: int
) -> None:
    async def story() -> None:
        talk = Talk(tmp_path)
        bed = await talk.begin()
        await bed.say("before")
        await bed.say(f"/after {count} the note")
        for number in range(5):
            await bed.say(f"m{number}")
        assert talk.notes() == [[], *([["the note"] if number == count else [] for number in range(5)])]
        await talk.end()

    run(story())


def test_a1_the_reply_that_is_being_written_is_the_first_that_counts(tmp_path: Path) -> None:
    async def story() -> None:
        talk, hold = Talk(tmp_path), Hold()
        bed = await talk.begin(["so ", hold, "done"])
        await bed.platform.say("work")
        await hold.reached.wait()
        assert "for the next turn" in await talk.ask("/after 0 zero")
        assert "after reply 1 (1 from now)" in await talk.ask("/after 1 one")
        assert "after reply 2 (2 from now)" in await talk.ask("/after 2 two")
        hold.release()
        await bed.platform.settled()
        assert len(bed.model.requests) == 1, "a note starts nothing (A3)"
        await bed.say("next")
        await bed.say("last")
        assert talk.notes() == [[], ["zero", "one"], ["two"]]
        await talk.end()

    run(story())


def test_a2_an_interrupted_and_a_failed_turn_and_a_steer_do_not_count_an_events_turn_does(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        talk, hold = Talk(tmp_path, "interrupt"), Hold()
        bed = await talk.begin(
            ["so ", hold], "after the interrupt", [ModelError("It failed.")], "told", [LOOK], "steered"
        )
        await bed.say("/after 3 the note")
        await bed.platform.say("interrupted")
        await hold.reached.wait()
        await bed.say("first reply")
        await bed.say("failed")
        await talk.event("a job ended")
        await bed.platform.settled()
        await bed.platform.say("work")
        await talk.tools.looking.wait()
        await bed.platform.say("/steer a hint")
        await until(lambda: bed.runtime.router._lanes[bed.platform.address()].conversation.state.steers)
        talk.tools.may_end.set()
        await bed.platform.settled()
        assert [one.number for one in bed.platform.sent if one.turn] == [1, None, 2, 3]
        assert talk.notes() == [[]] * 5
        await bed.say("now")
        assert talk.notes()[-1] == ["the note"]
        await talk.end()

    run(story())


def test_a2_idle_time_does_not_count(tmp_path: Path) -> None:
    async def story() -> None:
        talk = Talk(tmp_path)
        bed = await talk.begin()
        await bed.say("/after 1 the note")
        await asyncio.sleep(30 * 24 * 3600)
        await bed.say("one")
        await bed.say("two")
        assert talk.notes() == [[], ["the note"]]
        await talk.end()

    run(story())


# ---- A3: it starts nothing and stops nothing


def test_a3_case_22_a_note_starts_nothing_when_idle_and_stops_nothing_when_busy(tmp_path: Path) -> None:
    async def story() -> None:
        talk, hold = Talk(tmp_path, "interrupt"), Hold()
        bed = await talk.begin(["so ", hold, "done"])
        await bed.say("/after 0 idle")
        await asyncio.sleep(3600)
        assert bed.model.requests == []
        await bed.platform.say("work")
        await hold.reached.wait()
        await talk.ask("/after 0 busy")
        assert bed.model.cut == 0
        hold.release()
        await bed.platform.settled()
        assert bed.platform.texts()[-1] == "so done"
        assert len(bed.model.requests) == 1
        assert bed.platform.receipts() == []
        await talk.end()

    run(story())


def test_a3_a_note_for_now_does_not_end_a_quiet_window_and_is_in_the_turn_that_it_becomes(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        talk = Talk(tmp_path, conversation={"quiet": 2.0})
        bed = await talk.begin()
        clock = asyncio.get_running_loop()
        await bed.platform.say("one")
        await asyncio.sleep(1)
        assert "next turn" in await talk.ask("/after 0 meanwhile")
        began = clock.time()
        await bed.platform.settled()
        await until(lambda: bed.model.requests)
        assert clock.time() - began < 1.1, "the window was neither ended nor prolonged"
        assert talk.read() == [f"{NOTE}meanwhile", "one"]
        await talk.end()

    run(story())


# ---- A6: how it stands in the prompt


def test_a6_case_23_several_due_stand_each_by_itself_in_the_user_role_before_the_message(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        talk, hold = Talk(tmp_path), Hold()
        bed = await talk.begin([hold, "done"])
        await bed.platform.say("work")
        await hold.reached.wait()
        await talk.ask("/after 1 first\nwith a second line")
        await bed.platform.say("m1")
        await talk.ask("/after 0 second")
        await bed.platform.say("m2")
        await talk.ask("/after 1 third")
        hold.release()
        await bed.platform.settled()
        assert talk.read()[2:] == [
            f"{NOTE}first\nwith a second line",
            f"{NOTE}second",
            f"{NOTE}third",
            "m1\nm2",
        ]
        assert "first" not in bed.model.requests[-1].system
        kinds = [one.kind for one in bed.model.requests[-1].items if isinstance(one, Said)]
        assert kinds == [SaidKind.MESSAGE, *[SaidKind.NOTE] * 3, SaidKind.MESSAGE]
        await talk.end()

    run(story())


def test_a6_in_a_group_a_note_bears_the_name_of_who_left_it(tmp_path: Path) -> None:
    async def story() -> None:
        talk = Talk(tmp_path)
        bed = await talk.begin()
        await bed.say("/after 0 look", author="bob", group=True)
        await bed.say("hello", author="eve", group=True)
        assert talk.read() == [f"{NOTE}Bob: look", "Eve: hello"]
        await talk.end()

    run(story())


def test_a6_a_note_keeps_its_place_in_the_history_of_later_turns(tmp_path: Path) -> None:
    async def story() -> None:
        talk = Talk(tmp_path)
        bed = await talk.begin("one", "two")
        await bed.say("/after 0 look")
        await bed.say("a")
        await bed.say("b")
        assert talk.read() == [f"{NOTE}look", "a", "one", "b"]
        await talk.end()
        bed = await talk.begin()
        await bed.say("c")
        assert talk.read() == [f"{NOTE}look", "a", "one", "b", "two", "c"]
        await talk.end()

    run(story())


# ---- pairs: due together with …


@pytest.mark.parametrize("mode", ["interrupt", "queue", "steer", "followup"])
def test_due_with_messages_of_every_mode_it_goes_before_them_once(tmp_path: Path, mode: str) -> None:
    async def story() -> None:
        talk = Talk(tmp_path, mode)
        bed = await talk.begin([LOOK], "looked", "next")
        await bed.platform.say("work")
        await talk.tools.looking.wait()
        await talk.ask("/after 0 the note")
        await bed.platform.say("m1")
        talk.tools.may_end.set()
        await bed.platform.settled()
        await bed.say("later")
        await bed.say("last")
        carried = [notes for notes in talk.notes() if notes]
        assert carried == [["the note"]]
        first = {"interrupt": "m1", "queue": "m1", "steer": "later", "followup": "m1"}[mode]
        at = next(n for n, call in enumerate(bed.model.requests) if f"{NOTE}the note" in talk.read(n))
        assert talk.read(at)[-2:] == [f"{NOTE}the note", first]
        await talk.end()

    run(story())


def test_due_with_a_steer_that_came_too_late_both_are_in_the_next_turn_the_note_first(tmp_path: Path) -> None:
    async def story() -> None:
        talk, hold = Talk(tmp_path), Hold()
        bed = await talk.begin(["so ", hold, ModelError("It failed.")])
        await bed.platform.say("work")
        await hold.reached.wait()
        await talk.ask("/steer a hint")
        await talk.ask("/after 0 the note")
        hold.release()
        await bed.platform.settled()
        assert talk.read()[-2:] == [f"{NOTE}the note", "a hint"]
        await talk.end()

    run(story())


def test_due_with_a_native_reply_it_goes_before_the_quote(tmp_path: Path) -> None:
    async def story() -> None:
        talk, hold = Talk(tmp_path), Hold()
        bed = await talk.begin("one", [hold, "two"], "three", "four")
        await bed.say("a")
        await bed.platform.say("b")
        await hold.reached.wait()
        await bed.platform.say("why?", reply_to="p1")
        await bed.platform.say("c")
        await talk.ask("/after 1 for the reply")
        await talk.ask("/after 2 for the message")
        hold.release()
        await bed.platform.settled()
        assert talk.read(2)[-2:] == [f"{NOTE}for the reply", "> one\n\nwhy?"]
        assert talk.read(3)[-2:] == [f"{NOTE}for the message", "c"]
        await talk.end()

    run(story())


def test_due_with_an_event_it_goes_before_it_and_the_events_turn_carries_it(tmp_path: Path) -> None:
    async def story() -> None:
        talk, hold = Talk(tmp_path), Hold()
        bed = await talk.begin([hold, "one"], "two")
        await bed.platform.say("a")
        await hold.reached.wait()
        await talk.ask("/after 1 the note")
        await talk.event("[event] a job ended")
        hold.release()
        await bed.platform.settled()
        assert talk.notes() == [[], ["the note"]], "the running turn had no gap that could carry the event"
        assert talk.read()[-2:] == [f"{NOTE}the note", "[event] a job ended"]
        await talk.end()

    run(story())


def test_an_idle_event_starts_a_turn_that_carries_the_note(tmp_path: Path) -> None:
    async def story() -> None:
        talk = Talk(tmp_path)
        bed = await talk.begin()
        await bed.say("/after 0 the note")
        await talk.event("[event] a job ended")
        await bed.platform.settled()
        await until(lambda: bed.model.requests)
        assert talk.read() == [f"{NOTE}the note", "[event] a job ended"]
        await talk.end()

    run(story())


# ---- A5: riding


@pytest.mark.parametrize("keep", ["finished", "nothing"])
def test_a5_e2_an_interrupted_turn_hands_its_note_to_the_next_and_keeps_nothing_of_it(
    tmp_path: Path, keep: str
) -> None:
    async def story() -> None:
        talk, hold = Talk(tmp_path, "interrupt", interrupt={"keep": keep}), Hold()
        bed = await talk.begin(["so ", hold], "two", "three")
        await bed.say("/after 0 the note")
        await bed.platform.say("a")
        await hold.reached.wait()
        await talk.ask("/after 0 given meanwhile")
        await bed.say("b")
        kept = ["a"] if keep == "finished" else []
        assert talk.read() == [*kept, f"{NOTE}the note", f"{NOTE}given meanwhile", "b"]
        await bed.say("c")
        assert talk.notes() == [[], ["the note", "given meanwhile"], []]
        await talk.end()

    run(story())


def test_a5_a_failed_turn_hands_its_note_to_the_next(tmp_path: Path) -> None:
    async def story() -> None:
        talk = Talk(tmp_path)
        bed = await talk.begin([ModelError("It failed.")], [ModelError("Again.")], "well")
        await bed.say("/after 0 the note")
        for text in "abc":
            await bed.say(text)
        assert talk.notes() == [[], [], ["the note"]]
        await talk.end()

    run(story())


def test_a5_stop_cancels_what_waits_and_leaves_the_notes(tmp_path: Path) -> None:
    async def story() -> None:
        talk, hold = Talk(tmp_path), Hold()
        bed = await talk.begin(["so ", hold], "well")
        await bed.say("/after 0 rides")
        await bed.platform.say("a")
        await hold.reached.wait()
        await talk.ask("/after 0 waits")
        await bed.platform.say("b")
        assert await talk.ask("/stop") == "Stopped. Cancelled 1 waiting message."
        await bed.platform.settled()
        assert len(bed.model.requests) == 1
        await bed.say("c")
        assert talk.read() == ["a", f"{NOTE}rides", f"{NOTE}waits", "c"]
        await talk.end()

    run(story())


def test_t7_new_while_the_turn_is_being_stopped_counts_the_note_that_rode_with_it(tmp_path: Path) -> None:
    async def story() -> None:
        talk, hold = Talk(tmp_path), Hold()
        bed = await talk.begin(["so ", hold])
        await bed.say("/after 0 rides")
        await bed.platform.say("a")
        await hold.reached.wait()
        await bed.platform.say("/stop")
        assert await talk.ask("/new") == "This is a new conversation. Cancelled: 1 that waited."
        await bed.say("b")
        assert talk.read() == ["b"]
        await talk.end()

    run(story())


def test_t7_new_in_between_cancels_waiting_and_riding_notes_and_counts_on(tmp_path: Path) -> None:
    async def story() -> None:
        talk, hold = Talk(tmp_path), Hold()
        bed = await talk.begin("one", ["so ", hold], "two")
        await bed.say("a")
        await bed.say("/after 0 rides")
        await bed.say("/after 5 waits")
        await bed.platform.say("b")
        await hold.reached.wait()
        assert await talk.ask("/new") == (
            "This is a new conversation. The running work was stopped. Cancelled: 2 that waited."
        )
        await bed.platform.settled()
        assert "after reply 2 (1 from now)" in await bed.say("/after 1 fresh")
        await bed.say("c")
        assert talk.read() == ["c"]
        await talk.end()
        bed = await talk.begin()
        await bed.say("d")
        assert talk.read()[-2:] == [f"{NOTE}fresh", "d"]
        assert not any("rides" in text or "waits" in text for text in talk.read())
        await talk.end()

    run(story())
