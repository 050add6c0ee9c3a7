"""The room in which texts are written: one after the other, each whole and once, whatever the platform does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hermes_core.adapter import Broken, Progress
from hermes_core.errors import SendError
from hermes_core.messages import Attachment, Outgoing
from hermes_core.pacing import Rate, Slot
from hermes_core.testing.virtual import run

from .wall import HERE, MARK, REPEAT, STYLE, THERE, House, Sheet, Wall


async def until(condition: Callable[[], bool]) -> None:
    """Wait for it, for a virtual minute."""
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to that")


def test_a_draft_grows_and_becomes_the_reply_in_the_same_message() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            house.says(1, 0, "Once *upon*")
            await until(lambda: wall.texts() == ["Once *upon*"])
            house.says(1, 0, " a time")
            await until(lambda: wall.texts() == ["Once *upon* a time"])
            ids = await house.reply(1, "Once *upon* a time there was more.")
        assert wall.texts() == ["Once upon a time there was more."]
        assert list(ids) == list(wall.messages)

    run(main())


def test_a_reply_that_is_sooner_than_its_draft_is_one_call() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            house.says(1, 0, "Hi")
            await house.reply(1, "Hi.")
        assert wall.calls == ["post"]
        assert wall.texts() == ["Hi."]

    run(main())


def test_each_text_before_a_tool_is_finished_before_the_next_one_is_shown() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            house.says(1, 0, "Let me *look*.")
            house.does("tool")
            house.says(1, 1, "Found it")
            await house.reply(1, "Found it.")
            assert wall.texts() == ["Let me look.", "Found it."]

    run(main())


def test_d5_of_texts_that_nobody_saw_grow_the_reply_alone_says_how_long_it_is() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            house.says(1, 0, "Hm.")
            house.says(1, 1, "F")
            await house.reply(1, "Found it.")
            assert wall.texts() == ["Hm.", "Found it."]
            assert [one.place.of for one in wall.messages.values()] == [0, 1]

    run(main())


def test_a_reply_of_which_nothing_was_drafted_does_not_take_the_place_of_the_text_before_the_tool() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            house.says(1, 0, "Let me *look*.")
            await until(lambda: bool(wall.messages))
            house.does("tool")
            await house.reply(1, "Found it.")
            assert wall.texts() == ["Let me look.", "Found it."]

    run(main())


def test_a_reply_takes_the_place_of_its_draft_though_it_is_worded_otherwise() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            house.says(1, 0, "The key is abc")
            await until(lambda: bool(wall.messages))
            await house.reply(1, "The key is ***.")
            assert wall.texts() == ["The key is ."]

    run(main())


def test_i5_a_text_that_breaks_off_ends_with_its_mark_and_one_that_nobody_saw_leaves_nothing() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            house.says(1, 0, "A story")
            await until(lambda: bool(wall.messages))
            house.writing.show(HERE, Broken(1, "interrupted"))
            house.says(2, 0, "A")
            house.writing.show(HERE, Broken(2, "interrupted"))
            await house.reply(3, "Done.")
            assert wall.texts() == [f"A story\n\n{MARK}", "Done."]

    run(main())


def test_a_text_that_no_reply_completes_stands_as_it_is_and_the_next_turn_waits_for_that() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            house.says(1, 0, "I *wait*")
            house.does("idle")
            house.says(2, 0, "The next")
            await until(lambda: wall.texts() == ["I wait", "The next"])
            await house.reply(2, "The next turn.")
        assert wall.texts() == ["I wait", "The next turn."]

    run(main())


def test_the_answer_to_a_command_does_not_wait_for_a_draft_and_ends_none() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            house.says(1, 0, "A story")
            await until(lambda: bool(wall.messages))
            await house.send(Outgoing("c1", HERE, "at work"))
            await house.reply(1, "A story ends.")
        assert wall.texts() == ["A story ends.", "at work"]

    run(main())


@pytest.mark.parametrize("fault", ["refused", "parked", "before", "after", "gone", "fault"])
@pytest.mark.parametrize("at", range(4))
def test_d5_whatever_meets_a_call_the_text_stands_there_whole_and_once(fault: str, at: int) -> None:
    async def main() -> None:
        house = House(wall := Wall(["ok"] * at + [fault, fault]))
        async with house.connected():
            house.says(1, 0, "Let me *look* at what it is.")
            house.does("tool")
            house.says(1, 1, "Here it *is*, the whole")
            await asyncio.sleep(0.5)
            await house.reply(1, "Here it *is*, the whole of it.")
            assert wall.texts() == ["Let me look at what it is.", "Here it is, the whole of it."]

    run(main())


@pytest.mark.parametrize("fault", ["before", "after"])
def test_d5_where_nothing_can_be_looked_up_a_doubtful_post_is_made_again_with_its_mark(fault: str) -> None:
    async def main() -> None:
        house = House(wall := Wall([fault], asked=False))
        async with house.connected():
            await house.send(Outgoing("c1", HERE, "Hello."))
            first = ["Hello."] if fault == "after" else []
            assert [one.sheet.words for one in wall.messages.values()] == [*first, f"{REPEAT}Hello."]
            await house.reply(2, "Two.", repeat=True)
            assert wall.texts()[-1] == f"{REPEAT}Two."

    run(main())


def test_d5_a_first_message_that_is_certainly_not_taken_is_given_back_to_the_outbox() -> None:
    async def main() -> None:
        house = House(wall := Wall(["parked"]))
        async with house.connected():
            with pytest.raises(SendError) as raised:
                await house.writing.send(Outgoing("c1", HERE, "Hello."))
            assert (raised.value.retry_after, raised.value.unknown) == (3.0, False)
            with pytest.raises(SendError) as raised:  # case 34: parked, and nobody is asked
                await house.writing.send(Outgoing("c2", HERE, "Hello."))
            assert raised.value.retry_after == pytest.approx(3.0, abs=0.1)
            await house.send(Outgoing("c3", THERE, "Elsewhere it goes on."))
            assert wall.calls == ["post", "post", "post"]

    run(main())


def test_d5_a_message_whose_sender_was_interrupted_goes_on_where_it_was() -> None:
    async def main() -> None:
        house = House(wall := Wall(["ok", "parked"], asked=False))
        async with house.connected():
            outgoing = Outgoing("wall:me:room#turn:1", HERE, "One text of two messages.", turn="1")
            sender = asyncio.create_task(house.writing.send(outgoing))
            await until(lambda: len(wall.calls) == 2)
            await asyncio.sleep(0.1)
            sender.cancel()
            await asyncio.wait({sender})
            await house.send(outgoing)
            assert [one.sheet.words for one in wall.messages.values()] == ["One text of two mess", "ages."]

    run(main())


def test_a_platform_that_wants_a_message_otherwise_is_asked_again_at_once() -> None:
    async def main() -> None:
        house = House(wall := Wall(["otherwise"]))
        async with house.connected():
            await house.writing.send(Outgoing("c", HERE, "Hello."))
        assert wall.calls == ["post", "post"]

    run(main())


def test_texts_outlive_a_connection_and_go_on_with_the_next_one() -> None:
    async def main() -> None:
        house = House(wall := Wall(["ok", "after"]))
        async with house.connected():
            house.says(1, 0, "A story")
            await until(lambda: bool(wall.messages))
        house.says(1, 0, " that goes on")
        house.writing.show(HERE, Progress("j", "10%"))
        reply = asyncio.create_task(house.reply(1, "A story that goes on to its end."))
        await asyncio.sleep(20.0)
        assert wall.texts() == ["A story"]
        async with house.connected():
            await reply
            await until(lambda: "10%" in wall.texts())
        assert wall.texts() == ["A story that goes on to its end.", "10%"]

    run(main())


def test_a_text_whose_connection_ends_in_the_midst_of_a_call_stands_there_once() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            house.says(1, 0, "A story")
            await until(lambda: wall.calls == ["post"])
        house.writing.show(HERE, Broken(1, "interrupted"))
        async with house.connected():
            await asyncio.sleep(5.0)
        assert len(wall.messages) <= 1

    run(main())


def test_a_message_that_somebody_removed_is_posted_anew_at_another_place() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            house.says(1, 0, "A story")
            await until(lambda: bool(wall.messages))
            wall.messages.clear()
            await house.reply(1, "A story ends.")
            assert wall.texts() == ["A story ends."]
            assert [one.place.again for one in wall.messages.values()] == [1]

    run(main())


def test_of_messages_that_waited_for_each_other_the_last_is_answered_by_its_turn() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            for id_ in ("q1", "q2", "q3"):
                house.writing.heard(HERE, id_)
            for turn, waiting in ((1, 2), (2, 1), (3, 0)):
                house.does("thinking", queued=waiting)
                house.says(turn, 0, "Text")
                await house.reply(turn, "Text.")
                house.does("idle")
        assert wall.answers() == [None, None, "q3"]

    run(main())


def test_the_first_message_of_a_turn_answers_what_began_it_unless_others_wait() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            house.writing.heard(HERE, "q1")
            house.does("thinking")
            house.writing.heard(HERE, "q2")
            house.says(1, 0, "One text of two messages.")
            await house.reply(1, "One text of two messages.", answers="q1")
            house.does("idle")
            house.does("thinking", queued=1)
            house.says(2, 0, "Next")
            await house.reply(2, "Next.")
            house.does("idle")
            house.does("thinking")  # the event of a job: nobody asked
            house.says(3, 0, "Last")
            await house.reply(3, "Last.", answers="q3")
        assert wall.answers() == ["q1", None, None, None]

    run(main())


def test_files_come_with_the_whole_text_and_a_message_with_slots_is_mended() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            house.says(1, 0, "Here it")
            await until(lambda: bool(wall.messages))
            await house.reply(1, "Here it is.", attachments=(Attachment("a.txt", "text/plain", 1, "x"),))
            assert [one.sheet.files for one in wall.messages.values()] == [(), ("a.txt",)]
            (known,) = [id_ for id_, one in wall.messages.items() if not one.sheet.files]
            slots = (Slot(known, Sheet("Here it is.", True)),)
            await house.writing.send(Outgoing("c", HERE, "Here it is."), slots)
        assert wall.calls.count("post") == 2

    run(main())


def test_j13_a_job_has_one_line_that_is_edited_in_place_and_what_came_in_between_is_left_out() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            for percent in range(0, 100, 5):
                house.writing.show(HERE, Progress("j", f"{percent}% of it"))
                await asyncio.sleep(0.5)
            house.writing.show(HERE, Progress("j", "done", done=True))
            await until(lambda: wall.texts() == ["done"])
            house.writing.show(HERE, Progress("j", "anew"))
            await until(lambda: wall.texts() == ["doneanew"])
        assert wall.calls.count("edit") <= 5

    run(main())


def test_case_42_typing_is_said_again_while_the_agent_works_and_never_once_it_writes() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            house.does("thinking")
            await asyncio.sleep(0.2)
            assert wall.typed == []
            await asyncio.sleep(10.3)
            assert len(wall.typed) == 3
            house.says(1, 0, "A story")
            await house.reply(1, "A story.")
            await asyncio.sleep(20.0)
            assert len(wall.typed) == 3

    run(main())


def test_case_33_texts_lines_and_typing_share_what_a_chat_is_allowed() -> None:
    async def main() -> None:
        times: list[float] = []

        class Timed(Wall):
            async def _call(self, name: str, do: Callable[[], None], id_: str) -> str:
                times.append(asyncio.get_running_loop().time())
                return await super()._call(name, do, id_)

        house = House(Timed(), rates=(Rate(1.0, burst=3),))
        async with house.connected():
            house.writing.show(HERE, Progress("j", "10%"))
            for word in range(60):
                house.says(1, 0, f"word{word} ")
                await asyncio.sleep(0.1)
            await house.reply(1, "The end of it.")
            house.writing.show(HERE, Progress("j", "20%", done=True))
            await asyncio.sleep(10.0)
        for at, _ in enumerate(times):
            assert sum(1 for one in times if times[at] <= one < times[at] + 4.0) <= 7

    run(main())


def test_nothing_is_kept_of_what_is_over() -> None:
    async def main() -> None:
        house = House(wall := Wall())
        async with house.connected():
            for turn in range(1, 40):
                house.says(turn, 0, "Let me see")
                house.does("tool")
                house.says(turn, 1, "It is")
                if turn % 3 == 0:
                    await asyncio.sleep(0.2)
                    house.writing.show(HERE, Broken(turn, "interrupted"))
                elif turn % 3 == 1:
                    await house.reply(turn, f"It is {turn}.")
                house.does("idle")
                await asyncio.sleep(5.0)
        assert len(wall.texts()) >= 39
        kept = house.writing
        assert (kept._open, kept._texts, kept._newest, kept._left.unfinished()) == ({}, {}, {}, [])

    run(main())


def test_a_style_without_more_is_enough() -> None:
    async def main() -> None:
        house = House(wall := Wall(), style=type(STYLE)(STYLE.cut, MARK))
        async with house.connected():
            await house.reply(1, "Hello.", attachments=(Attachment("a.txt", "text/plain", 1, "x"),))
            house.writing.show(HERE, Progress("j", "10%"))
            await until(lambda: wall.texts() == ["Hello.", "10%"])

    run(main())
