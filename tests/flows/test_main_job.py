"""The main job: a person writes, the agent answers, runs tools, remembers (D1 to D4, T1, T4, T5, P3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core import history
from hermes_core.commands import Command, Context, Rest, command
from hermes_core.errors import ModelError, SendError
from hermes_core.hookspecs import Answer, hookimpl
from hermes_core.messages import Address, Author, Entry, Said, SaidKind, Step, ToolCall, When
from hermes_core.models import Stop
from hermes_core.testing.bed import Bed
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold, ScriptedModel
from hermes_core.testing.platform import FakePlatform
from hermes_core.testing.virtual import run
from hermes_core.tools import Tool, tool

ANN = Author("ann", "Ann")
QUEUE = {"conversation": {"busy": "queue"}}


class Tools:
    """Three tools: one that answers, one that fails, one that takes long."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        @tool
        async def add(a: int, b: int) -> int:
            """Add two numbers."""
            self.calls.append(f"add {a} {b}")
            return a + b

        @tool
        async def fail() -> str:
            """Fail."""
            raise ValueError("it broke")

        @tool
        async def slow(seconds: float) -> str:
            """Take some time."""
            self.calls.append(f"slow {seconds}")
            await asyncio.sleep(seconds)
            return "slept"

        return [add, fail, slow]


def test_a_message_is_answered_and_what_was_said_is_remembered(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path) as bed:
            assert await bed.say("one") == "you said: one"
            assert await bed.say("two") == "you said: two"
            assert bed.model.texts() == ["one", "two"]
            assert [one.number for one in bed.platform.sent] == [1, 2]
            assert bed.platform.drafts() == "you said: oneyou said: two"

    run(story())


def test_what_was_said_is_remembered_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        async with Bed(tmp_path, store=store) as bed:
            await bed.say("my name is Ann")
        async with Bed(tmp_path, store=store) as bed:
            await bed.say("who am I?")
            assert bed.model.texts() == ["my name is Ann", "who am I?"]
            assert bed.platform.sent[-1].number == 2

    run(story())


def test_tools_run_side_by_side_and_their_results_are_in_the_history(tmp_path: Path) -> None:
    async def story() -> None:
        calls = [
            ToolCall("1", "add", '{"a": 1, "b": 2}'),
            ToolCall("2", "fail", ""),
            ToolCall("3", "nope", "{}"),
        ]
        async with Bed(tmp_path, [["let me see", *calls], "three"], plugins=[Tools()]) as bed:
            assert await bed.say("add") == "three"
            items = bed.model.requests[-1].items
            history.check(items)
            step = items[-1]
            assert isinstance(step, Step)
            assert step.text == "let me see"
            assert (step.results[0].text, step.results[0].error) == ("3", False)
            assert "it broke" in step.results[1].text
            assert step.results[1].error
            assert "There is no tool 'nope'" in step.results[2].text

    run(story())


def test_tool_ids_that_a_server_uses_twice_are_made_unique(tmp_path: Path) -> None:
    async def story() -> None:
        again = [ToolCall("call_0", "add", '{"a": 1, "b": 2}')]
        async with Bed(tmp_path, [again, again, "done"], plugins=[Tools()]) as bed:
            await bed.say("add")
            history.check(bed.model.requests[-1].items)

    run(story())


def test_the_prompt_begins_with_the_same_items_from_turn_to_turn(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[Tools()]) as bed:
            for number in range(5):
                await bed.say(f"m{number}")
            for before, after in zip(bed.model.requests, bed.model.requests[1:], strict=False):
                assert after.items[: len(before.items)] == before.items
                assert (after.system, after.tools) == (before.system, before.tools)

    run(story())


def test_the_oldest_turns_leave_a_bounded_context_whole(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, config={"model": {"context_chars": 600}}) as bed:
            for number in range(30):
                await bed.say(f"message {number} " + "x" * 40)
            last = bed.model.requests[-1].items
            assert history.size(last) < 1200
            assert isinstance(last[0], Said)
            history.check(last)
            store = bed.store
        async with Bed(tmp_path, config={"model": {"context_chars": 600}}, store=store) as bed:
            await bed.say("after a restart")
            assert bed.model.requests[-1].items[:-1][: len(last)][0] in last

    run(story())


# ---- T3, queue mode


def test_case_1_five_messages_during_a_long_turn_are_all_in_the_next_one(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with Bed(tmp_path, [["first", hold]], config=QUEUE, plugins=[BusyPlugin()]) as bed:
            await bed.platform.say("work")
            await hold.reached.wait()
            for number in range(1, 6):
                await bed.platform.say(f"m{number}")
            await asyncio.sleep(0)
            assert [kind for _, kind, _ in bed.platform.receipts()] == ["queued"] * 5
            assert [position for *_, position in bed.platform.receipts()] == [1, 2, 3, 4, 5]
            hold.release()
            await bed.platform.settled()
            assert bed.model.texts() == ["work", "m1\nm2\nm3\nm4\nm5"]
            assert bed.platform.texts() == ["first", "you said: m1\nm2\nm3\nm4\nm5"]

    run(story())


def test_d2_what_waits_is_listed_and_can_be_cancelled_by_position_and_by_id(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with Bed(tmp_path, [["first", hold]], config=QUEUE, plugins=[BusyPlugin()]) as bed:
            await bed.platform.say("work")
            await hold.reached.wait()
            for text in ("a", "b", "c", "d"):
                await bed.platform.say(text)
            await bed.platform.say("/queue list")
            await until(lambda: bed.platform.sent)
            listing = bed.platform.texts()[0].splitlines()
            assert [line.split()[2] for line in listing] == ["a", "b", "c", "d"]
            await bed.platform.say("/queue cancel 2")
            await bed.platform.say(f"/queue cancel {listing[2].split()[1]}")
            await bed.platform.say("/queue cancel 9")
            await until(lambda: len(bed.platform.sent) == 4)
            assert bed.platform.texts()[1:] == [
                "Cancelled: b",
                "Cancelled: c",
                "Nothing waits under '9'. Type /queue list to see what does.",
            ]
            hold.release()
            await bed.platform.settled()
            assert bed.model.texts()[-1] == "a\nd"

    run(story())


def test_conversations_do_not_wait_for_each_other(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with Bed(tmp_path, [[hold, "late"]]) as bed:
            await bed.platform.say("work", channel="1")
            await hold.reached.wait()
            assert await bed.say("hello", channel="2") == "you said: hello"
            hold.release()
            await bed.platform.settled("1")
            assert bed.platform.texts("1") == ["late"]

    run(story())


# ---- T5, commands


@command("echo")
async def echo(context: Context, text: Rest) -> str:
    """Say it again."""
    return text


@command("slow")
async def slow(context: Context) -> str:
    """Take an hour."""
    await asyncio.sleep(30)
    return "at last"


@command("broken")
async def broken(context: Context) -> str:
    """Fail."""
    raise RuntimeError("/etc/secret")


class Commands:
    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        return [echo, slow, broken]


async def until(condition: Any) -> None:
    """Let the loop turn until the condition holds; virtual time does not move."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


def test_case_46_a_command_is_answered_while_a_turn_runs_and_is_not_given_to_the_model(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        hold = Hold()
        async with Bed(tmp_path, [[hold, "done"]], plugins=[Commands()]) as bed:
            await bed.platform.say("work")
            await hold.reached.wait()
            await bed.platform.say("/echo are you there?")
            await until(lambda: bed.platform.sent)
            assert bed.platform.texts() == ["are you there?"]
            hold.release()
            await bed.platform.settled()
            assert bed.platform.texts() == ["are you there?", "done"]
            assert bed.model.texts() == ["work"]
            assert bed.model.cut == 0

    run(story())


def test_t5_nothing_waits_behind_a_slow_command(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[Commands()]) as bed:
            await bed.platform.say("/slow")
            await bed.platform.say("/echo quick")
            await bed.platform.say("hello")
            await until(lambda: len(bed.platform.sent) == 2)
            assert sorted(bed.platform.texts()) == ["quick", "you said: hello"]
            await bed.platform.settled()
            assert bed.platform.texts()[-1] == "at last"

    run(story())


def test_t5_nor_does_what_comes_while_it_has_been_waiting_for_a_while(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[Commands()]) as bed:
            clock = asyncio.get_running_loop()
            await bed.platform.say("/slow")
            for text in ("/slow", "/echo quick", "hello"):
                await asyncio.sleep(0.01)
                await bed.platform.say(text)
            await asyncio.sleep(0.01)
            assert clock.time() < 0.1
            assert bed.platform.texts() == ["quick", "you said: hello"]
            await bed.platform.settled()
            assert bed.platform.texts()[2:] == ["at last", "at last"]

    run(story())


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/ecko hi", "There is no command /ecko. Did you mean /echo?"),
        ("/zzzzzz", "There is no command /zzzzzz. Type /help to see them all."),
        ("/echo", "/echo: TEXT is missing. Type /echo TEXT"),
    ],
)
def test_bad_input_is_answered_with_what_to_type_and_never_reaches_the_model(
    tmp_path: Path, text: str, answer: str
) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[Commands()]) as bed:
            assert await bed.say(text) == answer
            assert bed.model.requests == []

    run(story())


def test_case_52_a_command_that_fails_shows_a_short_id_and_nothing_else(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[Commands()]) as bed:
            answer = await bed.say("/broken")
            assert answer.startswith("/broken failed (error ")
            assert "secret" not in answer
            assert "RuntimeError" not in answer
            assert "/etc/secret" in bed.plugins.infos["commands"].problem

    run(story())


def test_case_50_a_path_is_a_message_and_not_a_command(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[Commands()]) as bed:
            assert await bed.say("/usr/bin/env is missing") == "you said: /usr/bin/env is missing"

    run(story())


def test_help_status_and_new(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[BasicsPlugin(), BusyPlugin(), Commands()]) as bed:
            await bed.say("hello")
            assert "/echo TEXT" in await bed.say("/help")
            assert "Say it again" in await bed.say("/help echo")
            status = await bed.say("/status")
            assert "Now: idle" in status
            assert "Replies so far: 1" in status
            assert await bed.say("/new") == "This is a new conversation."
            await bed.say("fresh")
            assert bed.model.texts() == ["fresh"]
            assert bed.platform.sent[-1].number == 2, "replies are counted on"

    run(story())


# ---- D1


def test_d1_the_same_message_delivered_twice_is_answered_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[Commands()]) as bed:
            acks: list[str] = []
            for text, id_ in [("hello", "x"), ("hello", "x"), ("/echo a", "y"), ("/echo a", "y")]:
                message = bed.platform.message(text, id=id_)
                await bed.platform.gateway.receive(message, lambda id_=id_: acks.append(id_))  # type: ignore[misc]
            await bed.platform.settled()
            assert acks == ["x", "x", "y", "y"], "answered like the first"
            assert sorted(bed.platform.texts()) == ["a", "you said: hello"]

    run(story())


def test_d1_a_redelivery_after_a_restart_changes_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        async with Bed(tmp_path, store=store) as bed:
            await bed.say("hello", id="x")
        async with Bed(tmp_path, store=store) as bed:
            await bed.platform.say("hello", id="x")
            await bed.platform.settled()
            assert bed.platform.sent == []

    run(story())


def test_the_same_id_in_two_conversations_is_two_messages(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path) as bed:
            await bed.say("hello", id="x", channel="1")
            await bed.say("hello", id="x", channel="2")
            assert len(bed.platform.sent) == 2

    run(story())


# ---- models that fail


def test_a_model_that_fails_at_first_is_asked_again_while_nothing_was_shown(tmp_path: Path) -> None:
    async def story() -> None:
        busy = ModelError("The model server is busy.", retryable=True)
        async with Bed(tmp_path, [[busy], [busy], "here I am"]) as bed:
            assert await bed.say("hello") == "here I am"
            assert len(bed.model.requests) == 3

    run(story())


def test_a_model_that_fails_in_the_middle_is_not_asked_again_and_the_draft_is_closed(tmp_path: Path) -> None:
    async def story() -> None:
        cut = ModelError("The connection to the model was cut.", "Try again.", retryable=True)
        async with Bed(tmp_path, [["half an ans", cut]]) as bed:
            assert await bed.say("hello") == "The connection to the model was cut. Try again."
            assert bed.platform.broken() == [1]
            assert bed.platform.sent[-1].number is None, "a failed turn has no reply number"
            await bed.say("again")
            assert bed.model.texts() == ["hello", "again"]

    run(story())


@pytest.mark.parametrize(
    ("script", "answer"),
    [
        ([""], "(The model gave no answer.)"),
        ([Stop("refused")], "(The model declined to answer.)"),
        (["so far", Stop("length")], "so far\n\n(The answer was cut at the model's length limit."),
    ],
)
def test_an_answer_that_is_none_is_said_in_words(tmp_path: Path, script: list[Any], answer: str) -> None:
    async def story() -> None:
        async with Bed(tmp_path, [script]) as bed:
            assert (await bed.say("hello")).startswith(answer)

    run(story())


def test_the_limit_of_steps_ends_a_turn_with_words(tmp_path: Path) -> None:
    async def story() -> None:
        again = [ToolCall("c", "add", '{"a": 1, "b": 2}')]
        model = ScriptedModel(default=again)
        async with Bed(
            tmp_path, model=model, plugins=[Tools()], config={"conversation": {"max_steps": 3}}
        ) as bed:
            assert (await bed.say("loop")).startswith("I stopped after 3 steps")
            history.check(bed.model.requests[-1].items)

    run(story())


# ---- the outbox


def test_d5_a_send_that_fails_is_repeated_and_the_order_holds(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[Commands()]) as bed:
            bed.platform.refuse = [SendError("busy", retry_after=200), SendError("busy")]
            for text in "abc":
                await bed.platform.say(f"/echo {text}")
            await bed.platform.settled()
            assert bed.platform.texts() == ["a", "b", "c"]

    run(story())


def test_d5_a_send_with_unknown_outcome_is_looked_up_and_not_repeated(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[Commands()]) as bed:
            bed.platform.refuse = [SendError("cut", unknown=True)]
            assert await bed.say("/echo a") == "a"
            assert bed.platform.texts() == ["a"]

    run(story())


def test_d5_where_it_cannot_be_looked_up_it_is_sent_once_more_with_a_mark(tmp_path: Path) -> None:
    async def story() -> None:
        platform = FakePlatform(features=FakePlatform("x").features.__class__())
        async with Bed(tmp_path, plugins=[Commands()], platform=platform) as bed:
            bed.platform.refuse = [SendError("cut", unknown=True)]
            await bed.say("/echo a")
            assert [(one.text, one.repeat) for one in platform.sent] == [("a", False), ("a", True)]

    run(story())


def test_case_34_one_chat_that_must_wait_does_not_stop_the_others(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[Commands()]) as bed:
            bed.platform.refuse = [SendError("flood", retry_after=200)]
            await bed.platform.say("/echo slow", channel="1")
            await until(lambda: not bed.platform.refuse)
            before = asyncio.get_running_loop().time()
            await bed.say("/echo quick", channel="2")
            assert asyncio.get_running_loop().time() == before
            await bed.platform.settled("1")
            assert bed.platform.texts() == ["quick", "slow"]

    run(story())


# ---- access, and plugins that answer


def test_x1_nobody_is_served_by_default_and_is_told_once_an_hour(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, config={"access": {"allow": []}}) as bed:
            for _ in range(3):
                await bed.platform.say("let me in", author="eve")
            await until(lambda: bed.platform.sent)
            assert len(bed.platform.sent) == 1
            assert bed.model.requests == []
            assert await bed.say("hello", author="ann") == "you said: hello"

    run(story())


class Faq:
    """Answers one question without the model."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @hookimpl
    async def hermes_message(self, entry: Entry) -> Answer | None:
        self.seen.append(entry.text)
        return Answer("Mondays at nine.") if "when" in entry.text else None


def test_p3_a_plugin_answers_a_message_in_every_state(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        faq = Faq()
        async with Bed(tmp_path, [[hold, "done"]], plugins=[faq], config=QUEUE) as bed:
            await bed.platform.say("work")
            await hold.reached.wait()
            await bed.platform.say("when do we meet?")
            await until(lambda: bed.platform.sent)
            hold.release()
            await bed.platform.settled()
            assert bed.platform.texts() == ["Mondays at nine.", "done"]
            assert faq.seen == ["work", "when do we meet?"]
            assert len(bed.model.requests) == 1

    run(story())


def test_several_people_in_one_conversation_are_told_apart(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, config=QUEUE) as bed:
            await bed.say("hi", author="ann", group=True)
            await bed.say("hello", author="bob", group=True)
            said = [history.render(one) for one in bed.model.requests[-1].items if isinstance(one, Said)]
            assert said == ["Ann: hi", "Bob: hello"]
            assert all(
                one.kind is SaidKind.MESSAGE for one in bed.model.requests[-1].items if isinstance(one, Said)
            )

    run(story())


class Prompt:
    @hookimpl
    async def hermes_system_prompt(self, prompt: str, address: Address) -> str:
        return f"{prompt}You are on {address.platform}."


def test_plugins_make_the_system_prompt(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[Prompt()]) as bed:
            await bed.say("hi")
            assert bed.model.requests[-1].system == "You are on fake."

    run(story())


def test_d6_what_waited_at_a_crash_is_one_batch_also_where_plugins_look_at_messages(tmp_path: Path) -> None:
    async def story() -> None:
        store = MemoryStore()
        for number in range(3):
            await store.admit(
                Entry(f"m{number}", Address("fake", "agent", "1"), ANN, f"text {number}", When.INTERRUPT)
            )
        await store.admit(Entry("m4", Address("fake", "agent", "1"), ANN, "when is it?", When.INTERRUPT))
        faq = Faq()
        async with Bed(tmp_path, plugins=[faq], store=store) as bed:
            assert await bed.say("a new one") != ""
            assert bed.model.texts()[0] == "text 0\ntext 1\ntext 2"
            assert faq.seen == ["text 0", "text 1", "text 2", "when is it?", "a new one"]
            assert "Mondays at nine." in bed.platform.texts()

    run(story())
