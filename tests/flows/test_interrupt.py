"""Interrupt: I1 to I11, E1, E2, on the fake platform in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core import history
from hermes_core.hookspecs import Interruption, hookimpl
from hermes_core.messages import Address, Entry, Said, Step, ToolCall, TurnEnd
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold, ScriptedModel
from hermes_core.testing.virtual import run
from hermes_core.tools import Tool, tool
from hermes_steer.plugin import SteerPlugin


class Tools:
    """quick: at once; endless: until cancelled; deaf: swallows its cancellation."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.running = asyncio.Event()

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        @tool
        async def quick(name: str) -> str:
            """Answer at once."""
            self.log.append(f"quick {name}")
            return f"result {name}"

        @tool(deadline=3600)
        async def endless() -> str:
            """Never end."""
            self.running.set()
            try:
                await asyncio.sleep(3000)
            except asyncio.CancelledError:
                self.log.append("endless cancelled")
                raise
            return "late result"

        @tool(deadline=3600)
        async def deaf() -> str:
            """Swallow the cancellation."""
            self.running.set()
            for _ in range(5):
                try:
                    await asyncio.sleep(600)
                except asyncio.CancelledError:
                    self.log.append("deaf swallowed")
            self.log.append("deaf ended")
            return "late result"

        return [quick, endless, deaf]


class Watcher:
    """Keeps what the hooks of a turn were told."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.reports: list[Interruption] = []

    @hookimpl
    async def hermes_turn_started(self, turn: int, entries: tuple[Entry, ...]) -> None:
        self.seen.append(f"started {turn}: {', '.join(one.text for one in entries)}")

    @hookimpl
    async def hermes_turn_ended(self, turn: int, end: TurnEnd, reply: int | None) -> None:
        self.seen.append(f"ended {turn} {end.value} {reply}")

    @hookimpl
    async def hermes_interrupt(self, address: Address, turn: int) -> None:
        self.seen.append(f"interrupt {turn}")

    @hookimpl
    async def hermes_interrupted(self, interruption: Interruption) -> None:
        self.reports.append(interruption)


def bed(folder: Path, scripts: Iterable[Any] = (), *plugins: object, **more: Any) -> Bed:
    return Bed(folder, scripts, plugins=[BusyPlugin(), SteerPlugin(), BasicsPlugin(), *plugins], **more)


async def until(condition: Any) -> None:
    """Let the loop turn until the condition holds; virtual time does not move."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


def test_i2_i5_an_interrupt_while_the_model_streams_closes_it_and_drops_what_it_wrote(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(tmp_path, [["half an ans", hold], "new answer"]) as b:
            await b.platform.say("old question")
            await hold.reached.wait()
            await b.platform.say("new question")
            await b.platform.settled()
            assert b.model.cut == 1
            assert b.platform.broken() == [1]
            assert b.platform.texts() == ["new answer"]
            assert b.model.texts() == ["old question", "new question"]
            assert not any(isinstance(item, Step) for item in b.model.requests[-1].items)
            assert [kind for _, kind, _ in b.platform.receipts()] == ["interrupting"]

    run(story())


def test_t6_quick_messages_are_answered_together_without_a_word(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(tmp_path, [[hold], "all of it"]) as b:
            for text in ("one", "two", "three"):
                await b.platform.say(text)
                await until(lambda: len(b.model.requests) >= 1)
            await b.platform.settled()
            assert b.platform.texts() == ["all of it"]
            assert b.model.texts()[-1].endswith("three")
            assert "\n".join(b.model.texts()).split("\n") == ["one", "two", "three"]
            assert b.platform.receipts() == []
            assert b.platform.broken() == []

    run(story())


def test_i6_one_of_three_calls_finished_it_is_kept_the_others_are_not(tmp_path: Path) -> None:
    async def story() -> None:
        tools = Tools()
        calls = [
            ToolCall("a", "quick", '{"name": "x"}'),
            ToolCall("b", "endless", ""),
            ToolCall("c", "endless", ""),
        ]
        watcher = Watcher()
        async with bed(tmp_path, [calls, "ok"], tools, watcher) as b:
            await b.platform.say("work")
            await tools.running.wait()
            await until(lambda: "quick x" in tools.log)
            await b.platform.say("stop that")
            await b.platform.settled()
            items = b.model.requests[-1].items
            history.check(items)
            (step,) = [item for item in items if isinstance(item, Step)]
            assert [call.id for call in step.calls] == ["a"]
            assert [result.text for result in step.results] == ["result x"]
            assert b.model.texts() == ["work", "stop that"]
            assert tools.log.count("endless cancelled") == 2
            await until(lambda: watcher.reports)
            (report,) = watcher.reports
            assert (report.killed, report.kept) == (("endless", "endless"), ("quick",))

    run(story())


def test_i6_nothing_is_kept_where_the_operator_wants_it_so(tmp_path: Path) -> None:
    async def story() -> None:
        tools = Tools()
        calls = [ToolCall("a", "quick", '{"name": "x"}'), ToolCall("b", "endless", "")]
        async with bed(tmp_path, [calls, "ok"], tools, config={"interrupt": {"keep": "nothing"}}) as b:
            await b.platform.say("work")
            await tools.running.wait()
            await b.platform.say("other work")
            await b.platform.settled()
            assert b.model.texts() == ["other work"]
            assert len(b.model.requests[-1].items) == 1

    run(story())


def test_case_12_a_tool_that_swallows_its_cancellation_does_not_hold_the_conversation(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        tools = Tools()
        watcher = Watcher()
        async with bed(tmp_path, [[ToolCall("a", "deaf", "")], "next"], tools, watcher) as b:
            await b.platform.say("work")
            await tools.running.wait()
            began = asyncio.get_running_loop().time()
            await b.platform.say("now this")
            await b.platform.settled()
            assert asyncio.get_running_loop().time() - began <= 1.2
            assert b.platform.texts() == ["next"]
            assert "deaf" in caplog.text
            await until(lambda: watcher.reports)
            assert watcher.reports[0].abandoned == ("deaf",)
            await asyncio.sleep(4000)  # case 14: what it gives later is discarded
            assert "deaf ended" in tools.log
            assert b.platform.texts() == ["next"]
            assert "late result" not in str(b.model.requests[-1])

    run(story())


def test_i7_what_is_typed_while_the_turn_stops_is_joined_behind_the_interrupting_message(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        tools = Tools()
        async with bed(tmp_path, [[ToolCall("a", "deaf", "")], "next"], tools) as b:
            await b.platform.say("work")
            await tools.running.wait()
            await b.platform.say("stop that")
            await until(lambda: b.platform.gateway.activity(b.platform.address()).state == "stopping")
            await b.platform.say("do this")
            await b.platform.say("and this")
            await b.platform.settled()
            assert b.model.texts()[-1] == "stop that\ndo this\nand this"

    run(story())


def test_e1_an_interrupt_overtakes_what_was_queued_which_keeps_its_order(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(
            tmp_path, [["x", hold], "urgent", "rest"], config={"conversation": {"busy": "queue"}}
        ) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            await b.platform.say("q1")
            await b.platform.say("q2")
            await b.platform.say("/interrupt now")
            await b.platform.settled()
            assert [one.texts() for one in [b.model]] == [["work", "now", "q1\nq2"]]
            assert b.platform.texts() == ["urgent", "rest"]

    run(story())


def test_i10_stop_says_what_it_did_and_nothing_starts(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(tmp_path, [["x", hold]], config={"conversation": {"busy": "queue"}}) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            for text in ("q1", "q2", "q3"):
                await b.platform.say(text)
            await b.say("/stop")
            assert b.platform.texts() == ["Stopped. Cancelled 3 waiting messages."]
            assert len(b.model.requests) == 1
            assert b.model.cut == 1
            assert await b.say("/stop") == "Nothing runs here and nothing waits."
            assert await b.say("hello") == "you said: hello"

    run(story())


def test_case_17_stop_is_a_command_also_while_steering_is_on(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(tmp_path, [["x", hold]], config={"conversation": {"busy": "steer"}}) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            await b.platform.say("hint")
            await b.say("/stop")
            assert b.platform.texts() == ["Stopped. Cancelled 1 waiting message."]
            assert b.model.texts() == ["work"]

    run(story())


def test_i10_a_bare_interrupt_lets_what_waits_begin(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(tmp_path, [["x", hold]], config={"conversation": {"busy": "queue"}}) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            await b.platform.say("next")
            await b.say("/interrupt")
            assert b.platform.texts() == ["you said: next"]
            assert await b.say("/interrupt") == "Nothing runs here."

    run(story())


def test_i11_hooks_tell_of_every_interrupt_in_order_and_a_slow_one_does_not_delay_it(tmp_path: Path) -> None:
    class Slow:
        @hookimpl
        async def hermes_interrupt(self) -> None:
            await asyncio.sleep(3600)

        @hookimpl
        async def hermes_turn_started(self) -> None:
            await asyncio.sleep(3600)

    async def story() -> None:
        watcher = Watcher()
        hold = Hold()
        async with bed(tmp_path, [["x", hold], "two"], Slow(), watcher) as b:
            await b.platform.say("one")
            await hold.reached.wait()
            began = asyncio.get_running_loop().time()
            await b.platform.say("two")
            await b.platform.settled()
            assert asyncio.get_running_loop().time() - began < 0.05
            await asyncio.sleep(10)
            assert sorted(watcher.seen) == sorted(
                [
                    "started 1: one",
                    "interrupt 1",
                    "ended 1 interrupted None",
                    "started 2: two",
                    "ended 2 completed 1",
                ]
            )

    run(story())


def test_d4_an_interrupt_that_was_accepted_holds_over_a_crash(tmp_path: Path) -> None:
    """The program dies while the turn is being stopped: at the next start it does not go on (I1)."""

    async def story() -> None:
        store = MemoryStore()
        tools = Tools()
        async with bed(tmp_path, [[ToolCall("a", "deaf", "")]], tools, store=store) as b:
            await b.platform.say("work")
            await tools.running.wait()
            await b.platform.say("/stop")
            await until(lambda: b.platform.texts())
        async with bed(tmp_path, store=store) as b:
            assert await b.say("hello") == "you said: hello"
            assert b.model.texts() == ["work", "hello"]
            assert len(b.model.requests) == 1

    run(story())


# ---- steer


def test_s1_a_steer_enters_at_the_gap_behind_the_results_as_a_message_of_its_own(tmp_path: Path) -> None:
    async def story() -> None:
        tools = Tools()
        hold = Hold()
        scripts = [[hold, ToolCall("a", "quick", '{"name": "x"}')], "done"]
        async with bed(tmp_path, scripts, tools) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            await b.platform.say("/steer use metres")
            await until(lambda: b.platform.sent)
            hold.release()
            await b.platform.settled()
            assert b.platform.texts() == ["This goes into the running work at its next step.", "done"]
            prompt, step, steer = b.model.requests[-1].items
            assert isinstance(prompt, Said)
            assert isinstance(step, Step)
            assert isinstance(steer, Said)
            assert (steer.kind.value, steer.text) == ("steer", "use metres")
            assert b.model.cut == 0

    run(story())


def test_s2_a_steer_during_the_final_text_gives_one_reply_that_has_seen_it(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(
            tmp_path, [["first try", hold], "second try"], config={"conversation": {"busy": "steer"}}
        ) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            await b.platform.say("hint 1")
            await b.platform.say("hint 2")
            await asyncio.sleep(0)
            hold.release()
            await b.platform.settled()
            assert b.platform.texts() == ["second try"]
            assert b.platform.sent[0].number == 1
            assert b.model.texts() == ["work", "hint 1", "hint 2"]
            assert [kind for _, kind, _ in b.platform.receipts()] == ["steering", "steering"]
            await b.say("and then?")
            assert [one.text for one in b.model.requests[-1].items] == [
                "work",
                "first try",
                "hint 1",
                "hint 2",
                "second try",
                "and then?",
            ]

    run(story())


def test_s3_a_steer_of_an_interrupted_turn_is_in_the_next_prompt_once(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(tmp_path, [["x", hold]]) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            await b.platform.say("/steer hint")
            await b.platform.say("no, this")
            await b.platform.settled()
            assert b.model.texts() == ["work", "no, this\nhint"]

    run(story())


def test_s3_a_steer_when_idle_is_a_plain_message(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed(tmp_path) as b:
            assert await b.say("/steer hello") == "you said: hello"

    run(story())


def test_s4_calls_that_have_not_started_are_skipped_where_it_is_set_so(tmp_path: Path) -> None:
    async def story() -> None:
        tools = Tools()
        calls = [ToolCall("e", "endless", "")] * 8 + [ToolCall("q", "quick", '{"name": "late"}')]
        model = ScriptedModel([calls, "done"])
        async with bed(tmp_path, (), tools, model=model, config={"steer": {"skip_pending": True}}) as b:
            await b.platform.say("work")
            await tools.running.wait()
            await b.platform.say("/steer enough")
            await b.platform.settled()
            step = model.requests[-1].items[1]
            assert isinstance(step, Step)
            assert "Skipped" in step.results[-1].text
            assert "quick late" not in tools.log
            assert model.texts() == ["work", "enough"]

    run(story())


# ---- several people, edits, quiet window, followup


def test_t2_others_are_queued_and_told_so_the_owner_interrupts(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(tmp_path, [["x", hold], "for bob"], config={"access": {"owners": ["fake:root"]}}) as b:
            await b.platform.say("work", author="ann", group=True)
            await hold.reached.wait()
            await b.platform.say("me too", author="bob", group=True)
            await asyncio.sleep(0)
            assert [(kind, position) for _, kind, position in b.platform.receipts()] == [("queued", 1)]
            assert b.model.cut == 0
            await b.platform.say("/steer psst", author="bob", group=True)
            await until(lambda: b.platform.sent)
            assert "only the person whose work runs" in b.platform.texts()[0]
            await b.platform.say("enough", author="root", group=True)
            await b.platform.settled()
            assert b.model.cut == 1

    run(story())


def test_d9_an_edit_of_a_waiting_message_replaces_it_and_a_deleted_one_is_cancelled(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(tmp_path, [["x", hold]], config={"conversation": {"busy": "queue"}}) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            one = await b.platform.say("left")
            two = await b.platform.say("never mind")
            await asyncio.sleep(0)
            await b.platform.gateway.edited(one.address, one.id, "right")
            await b.platform.gateway.deleted(two.address, two.id)
            hold.release()
            await b.platform.settled()
            assert b.model.texts() == ["work", "right"]
            await b.platform.gateway.edited(one.address, one.id, "too late")
            assert await b.say("and?") == "you said: and?"
            assert b.model.texts()[1] == "right"

    run(story())


def test_d9_what_a_command_put_in_is_edited_and_deleted_with_the_command(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(tmp_path, [["x", hold]]) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            one = await b.platform.say("/queue left")
            two = await b.platform.say("/queue never mind")
            await until(lambda: len(b.platform.sent) == 2)
            await b.platform.gateway.edited(one.address, one.id, "/queue right")
            await b.platform.gateway.deleted(two.address, two.id)
            hold.release()
            await b.platform.settled()
            assert b.model.texts() == ["work", "right"]

    run(story())


def test_t1_a_long_paste_in_parts_is_one_turn_and_waits_no_longer_than_five_seconds(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed(tmp_path) as b:
            began = asyncio.get_running_loop().time()
            for number in range(3):
                await b.platform.say(f"part {number}", partial=True)
                await asyncio.sleep(1)
            await b.platform.settled()
            while b.model.requests == []:
                await asyncio.sleep(0.5)
            await b.platform.settled()
            assert asyncio.get_running_loop().time() - began <= 5.5
            assert b.model.texts() == ["part 0\npart 1\npart 2"]

    run(story())


def test_t1_a_quiet_window_gathers_what_comes_in_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed(tmp_path, config={"conversation": {"quiet": 2.0}}) as b:
            await b.platform.say("one")
            await asyncio.sleep(1)
            await b.platform.say("two")
            await asyncio.sleep(3)
            await b.platform.settled()
            assert b.model.texts() == ["one\ntwo"]

    run(story())


def test_t3_followups_have_a_turn_each(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(tmp_path, [["x", hold]], config={"conversation": {"busy": "followup"}}) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            await b.platform.say("one")
            await b.platform.say("two")
            hold.release()
            await b.platform.settled()
            assert b.platform.texts() == ["x", "you said: one", "you said: two"]

    run(story())


def test_t2_the_busy_mode_of_a_conversation_can_be_set_and_outlives_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        async with bed(tmp_path, store=store) as b:
            assert "work: queue" in await b.say("/busy queue")
        hold = Hold()
        async with bed(tmp_path, [["x", hold]], store=store) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            await b.platform.say("more")
            await asyncio.sleep(0)
            assert [kind for _, kind, _ in b.platform.receipts()] == ["queued"]
            hold.release()
            await b.platform.settled()
            assert "work: interrupt" in await b.say("/busy default")

    run(story())


def test_t7_new_during_a_turn_starts_an_empty_history_and_says_what_it_cancelled(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(tmp_path, [["x", hold]], config={"conversation": {"busy": "queue"}}) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            await b.platform.say("queued")
            answer = await b.say("/new")
            assert (
                answer
                == "This is a new conversation. The running work was stopped. Cancelled: 1 that waited."
            )
            await b.say("fresh")
            assert b.model.texts() == ["fresh"]

    run(story())


def test_t6_receipts_can_be_switched_off(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with bed(
            tmp_path, [["x", hold]], config={"conversation": {"busy": "queue", "receipts": False}}
        ) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            await b.platform.say("more")
            await asyncio.sleep(0)
            assert b.platform.receipts() == []
            hold.release()
            await b.platform.settled()
            assert b.model.texts() == ["work", "more"]

    run(story())


# ---- restarts


def test_d4_a_turn_goes_on_from_its_last_finished_step_and_a_running_call_is_reported(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        tools = Tools()
        first = [[ToolCall("a", "quick", '{"name": "x"}')], [ToolCall("b", "endless", "")]]
        async with bed(tmp_path, first, tools, store=store) as b:
            await b.platform.say("work")
            await tools.running.wait()
        again = Tools()
        async with bed(tmp_path, ["done"], again, store=store) as b:
            await b.platform.settled()
            assert b.platform.texts() == ["done"]
            assert b.platform.sent[0].number == 1
            items = b.model.requests[0].items
            history.check(items)
            steps = [item for item in items if isinstance(item, Step)]
            assert steps[0].results[0].text == "result x"
            assert "restart" in steps[1].results[0].text
            assert again.log == [], "nothing is silently run again"

    run(story())


def test_d4_what_waited_at_a_crash_follows_the_open_turn(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        hold = Hold()
        config = {"conversation": {"busy": "queue"}}
        async with bed(tmp_path, [["x", hold]], store=store, config=config) as b:
            await b.platform.say("work")
            await hold.reached.wait()
            await b.platform.say("one")
            await b.platform.say("two")
        async with bed(tmp_path, ["done"], store=store, config=config) as b:
            await b.platform.settled()
            assert b.platform.texts() == ["done", "you said: one\ntwo"]

    run(story())
