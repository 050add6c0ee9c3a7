"""Plugins: the three verbs, isolation, limits, and what is refused (P1, P2; cases 44, 45, 48)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

import pytest

from hermes_core.commands import Command, command
from hermes_core.errors import PluginError
from hermes_core.hookspecs import Answer, hookimpl
from hermes_core.messages import Address, Author, Entry, When
from hermes_core.plugins import Plugins, within
from hermes_core.testing.virtual import run

HERE = Address("test", "me", "1")
ENTRY = Entry("1", HERE, Author("ann"), "hi", When.QUEUE)


class Answers:
    """Answers every message with its name."""

    def __init__(self, text: str | None) -> None:
        self.text = text
        self.asked = 0

    @hookimpl
    async def hermes_message(self, entry: Entry) -> Answer | None:
        self.asked += 1
        return Answer(self.text) if self.text is not None else None


class Breaks:
    @hookimpl
    async def hermes_message(self, entry: Entry) -> Answer | None:
        raise ValueError("secret path /etc/x")


class Hangs:
    def __init__(self) -> None:
        self.cancelled = 0

    @hookimpl
    async def hermes_message(self) -> Answer | None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return None


class Swallows:
    """Does not let itself be cancelled."""

    @hookimpl
    async def hermes_message(self) -> Answer | None:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue


class Adds:
    def __init__(self, text: Any) -> None:
        self.text = text

    @hookimpl
    def hermes_system_prompt(self, prompt: str) -> Any:
        return prompt + self.text if isinstance(self.text, str) else self.text


def loaded(*plugins: object) -> Plugins:
    made = Plugins()
    for number, plugin in enumerate(plugins):
        made.add(f"p{number}", plugin)
    return made


def test_first_asks_in_order_until_one_answers_also_coroutines() -> None:
    silent, answers, never = Answers(None), Answers("yes"), Answers("no")
    plugins = loaded(silent, answers, never)
    assert run(plugins.first("hermes_message", entry=ENTRY)) == Answer("yes")
    assert (silent.asked, answers.asked, never.asked) == (1, 1, 0)


def test_fold_hands_a_value_through_all_and_passes_over_what_fails_or_gives_another_type() -> None:
    plugins = loaded(Adds("a"), Adds(7), Adds("b"))
    assert run(plugins.fold("hermes_system_prompt", "", "prompt", address=HERE)) == "ab"
    assert "TypeError" in plugins.infos["p1"].problem


def test_each_gives_all_results_in_order() -> None:
    plugins = loaded(Adds("a"), Adds("b"))
    assert run(plugins.each("hermes_system_prompt", prompt="x", address=HERE)) == ["xa", "xb"]


def test_tryfirst_and_trylast_order_as_in_pluggy() -> None:
    class Late:
        @hookimpl(trylast=True)
        def hermes_system_prompt(self, prompt: str) -> str:
            return prompt + "late"

    class Early:
        @hookimpl(tryfirst=True)
        def hermes_system_prompt(self, prompt: str) -> str:
            return prompt + "early"

    plugins = loaded(Late(), Adds("-"), Early())
    assert run(plugins.fold("hermes_system_prompt", "", "prompt", address=HERE)) == "early-late"


def test_p2_an_exception_is_reported_under_the_plugins_name_and_the_next_is_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plugins = loaded(Breaks(), Answers("yes"))
    with caplog.at_level(logging.ERROR):
        assert run(plugins.first("hermes_message", entry=ENTRY)) == Answer("yes")
    assert "plugin p0: hermes_message failed" in caplog.text
    assert "ValueError" in plugins.infos["p0"].problem


@pytest.mark.parametrize("bad", [Hangs, Swallows])
def test_p2_a_hook_that_hangs_is_ended_at_its_limit_even_if_it_swallows_that(bad: type) -> None:
    plugins = loaded(bad(), Answers("yes"))

    async def story() -> float:
        begin = asyncio.get_running_loop().time()
        assert await plugins.first("hermes_message", entry=ENTRY) == Answer("yes")
        return asyncio.get_running_loop().time() - begin

    assert run(story()) <= 10.0
    assert "longer than" in plugins.infos["p0"].problem


def test_a_hook_that_was_ended_at_its_limit_was_really_cancelled() -> None:
    hangs = Hangs()
    run(loaded(hangs).first("hermes_message", entry=ENTRY))
    assert hangs.cancelled == 1


def test_cancelling_the_caller_cancels_the_hook_and_is_not_swallowed() -> None:
    hangs = Hangs()
    plugins = loaded(hangs)

    async def story() -> None:
        task = asyncio.create_task(plugins.first("hermes_message", entry=ENTRY))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(story())
    assert hangs.cancelled == 1


def test_within_lets_a_timeout_inside_do_its_own_work() -> None:
    async def inner() -> str:
        try:
            async with asyncio.timeout(1):
                await asyncio.sleep(3600)
        except TimeoutError:
            return "inner"
        return "none"

    assert run(within(inner(), 5.0)) == "inner"


def test_within_gives_the_value_of_what_takes_less_than_its_limit() -> None:
    async def inner() -> int:
        await asyncio.sleep(4)
        return 7

    assert run(within(inner(), 5.0)) == 7


def test_within_ends_what_takes_longer_with_a_timeout_error_and_leaves_the_task_usable() -> None:
    async def story() -> str:
        with pytest.raises(TimeoutError):
            await within(asyncio.sleep(10), 5.0)
        await asyncio.sleep(1)
        return "alive"

    assert run(story()) == "alive"


# ---- what is refused when a plugin is added


class Misspelt:
    @hookimpl
    def hermes_mesage(self, entry: Entry) -> None: ...


class WrongArgument:
    @hookimpl
    def hermes_message(self, mesage: Entry) -> None: ...


class Unmarked:
    def hermes_message(self, entry: Entry) -> None: ...


class Wrapper:
    @hookimpl(wrapper=True)
    def hermes_message(self, entry: Entry) -> Iterable[None]:
        yield


class BringsNonsense:
    @hookimpl
    def hermes_commands(self) -> Iterable[Any]:
        return ["echo"]


class FailsToBring:
    @hookimpl
    def hermes_tools(self) -> Iterable[Any]:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("plugin", "says"),
    [
        (Misspelt(), "Did you mean hermes_message"),
        (WrongArgument(), "mesage"),
        (Unmarked(), "lacks the mark"),
        (Wrapper(), "is a wrapper"),
        (BringsNonsense(), "gave str, not Command"),
        (FailsToBring(), "hermes_tools failed: RuntimeError: no"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_case_44_a_plugin_that_breaks_a_rule_is_refused_by_name_and_leaves_nothing_behind(
    plugin: object, says: str
) -> None:
    plugins = Plugins()
    with pytest.raises(PluginError, match=says) as error:
        plugins.add("bad", plugin)
    assert error.value.plugin == "bad"
    assert not plugins.asks("hermes_message")
    plugins.add("bad", Answers("now it is right"))
    assert plugins.asks("hermes_message")


def test_case_48_of_two_plugins_with_one_command_the_first_keeps_it_and_both_are_named() -> None:
    def brings(answer: str) -> object:
        made = command("same", help="x")(lambda context: answer)
        other = command(answer, help="x")(lambda context: answer)

        class Brings:
            @hookimpl
            def hermes_commands(self) -> Iterable[Command]:
                return [made, other]

        return Brings()

    plugins = loaded(brings("one"), brings("two"))
    assert plugins.commands.owner("same") == "p0"
    assert plugins.infos["p1"].commands == ("two",), "the rest of the second plugin works"
    assert "'p1'" in plugins.infos["p1"].problem
    assert "'p0'" in plugins.infos["p1"].problem
