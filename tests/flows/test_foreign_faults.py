"""Whatever foreign code does (raise anything, give nonsense, end the program): its fault stays its own.

The conversation answers the next message, nothing is stuck, and the fault is named (P2, D2; cases 44, 45).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from hermes_core.adapter import Sent
from hermes_core.commands import Command, Context, command
from hermes_core.config import ModelSettings
from hermes_core.errors import ToolError
from hermes_core.hookspecs import hookimpl
from hermes_core.job import JobState
from hermes_core.messages import Outgoing, ToolCall
from hermes_core.models import Delta, Model, ModelFactory, Opaque, Request, Stop, Text
from hermes_core.plugins import Plugins
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.bed import Bed
from hermes_core.testing.platform import FakePlatform
from hermes_core.testing.virtual import run
from hermes_core.tools import AsyncTool, Tool, async_tool, tool


class OutOfLine(BaseException):
    """What no `except Exception` catches."""


class Unspeakable(Exception):
    """What cannot even say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


class UnspeakableFault(ToolError):
    """The same as an error that is meant to be read."""

    def __str__(self) -> str:
        raise SystemExit(3)


FAULTS = [
    ValueError("no"),
    asyncio.CancelledError(),
    SystemExit(7),
    OutOfLine("no"),
    Unspeakable(),
    UnspeakableFault("no"),
]
names = pytest.mark.parametrize("fault", FAULTS, ids=lambda one: type(one).__name__)


class Message:
    def __init__(self, fault: BaseException) -> None:
        self.fault = fault

    @hookimpl
    async def hermes_message(self) -> None:
        raise self.fault


class Prompt(Message):
    hermes_message = None  # type: ignore[assignment]

    @hookimpl
    async def hermes_system_prompt(self, prompt: str) -> str:
        raise self.fault


class Injections(Message):
    hermes_message = None  # type: ignore[assignment]

    @hookimpl
    def hermes_injections(self) -> Iterable[Any]:
        raise self.fault


class Started(Message):
    hermes_message = None  # type: ignore[assignment]

    @hookimpl
    async def hermes_turn_started(self) -> None:
        raise self.fault


class Tools(Message):
    hermes_message = None  # type: ignore[assignment]

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        @tool
        async def bad() -> str:
            """Fail."""
            raise self.fault

        return [bad]


@pytest.mark.parametrize("kind", [Message, Prompt, Injections, Started], ids=lambda one: one.__name__)
@names
def test_p2_a_hook_may_raise_anything_and_the_message_is_answered(
    tmp_path: Path,
    kind: Callable[[BaseException], object],
    fault: BaseException,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[kind(fault)]) as bed:
            assert await bed.say("hello") == "you said: hello"
            for _ in range(10):
                await asyncio.sleep(0)

    with caplog.at_level(logging.ERROR):
        run(story())
    assert f"plugin {kind.__name__.lower()}" in caplog.text


@names
def test_p2_a_tool_may_raise_anything_and_the_model_reads_that_it_failed(
    tmp_path: Path, fault: BaseException
) -> None:
    async def story() -> None:
        async with Bed(tmp_path, [[ToolCall("1", "bad", "{}")], "I see"], plugins=[Tools(fault)]) as bed:
            assert await bed.say("go") == "I see"

    run(story())


@names
def test_p2_a_job_may_raise_anything_and_has_failed(tmp_path: Path, fault: BaseException) -> None:
    class Jobs:
        @hookimpl
        def hermes_async_tools(self) -> Iterable[AsyncTool]:
            @async_tool
            async def bad() -> str:
                """Fail."""
                raise fault

            return [bad]

    async def story() -> None:
        start = [ToolCall("1", "start_bad", '{"idempotency_key": "k"}')]
        async with Bed(tmp_path, [start, "ok", "I see"], plugins=[Jobs()]) as bed:
            await bed.say("go")
            await asyncio.sleep(1)
            await bed.platform.settled()
            (job,) = await bed.store.jobs()
            assert job.state is JobState.FAILED
            assert any("job_failed" in text for text in bed.model.texts())

    run(story())


@pytest.mark.parametrize("result", [*FAULTS, 7, "half \ud800 of a pair"], ids=lambda one: type(one).__name__)
def test_p2_a_command_may_do_anything_and_its_sender_is_answered(tmp_path: Path, result: Any) -> None:
    class Commands:
        @hookimpl
        def hermes_commands(self) -> Iterable[Command]:
            @command("bad")
            async def bad(context: Context) -> Any:
                """Fail."""
                if isinstance(result, BaseException):
                    raise result
                return result

            return [bad]

    async def story() -> None:
        async with Bed(tmp_path, plugins=[Commands()]) as bed:
            answer = await bed.say("/bad")
            assert answer.startswith(("/bad failed (error ", "half "))
            answer.encode()
            assert await bed.say("hello") == "you said: hello"

    run(story())


class BadModel:
    """Does what it is told in its first call, and answers in the ones after it."""

    def __init__(self, first: Any) -> None:
        self.first = first
        self.calls = 0

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        self.calls += 1
        if self.calls == 1:
            if isinstance(self.first, BaseException):
                raise self.first
            yield self.first
        yield Text("fine")
        yield Stop("end")

    async def aclose(self) -> None: ...

    @hookimpl
    def hermes_models(self) -> Iterable[ModelFactory]:
        def open_(settings: ModelSettings) -> Model:
            return self

        return [ModelFactory("scripted", open_)]


NONSENSE = [
    *FAULTS,
    Text("half \ud800 of a pair"),
    Text(7),  # type: ignore[arg-type]
    ToolCall("", "", None),  # type: ignore[arg-type]
    ToolCall("1", "half \ud800", "{}"),
    Opaque({"what": object()}),
    "no delta at all",
]


@pytest.mark.parametrize("first", NONSENSE, ids=lambda one: type(one).__name__)
async def test_p2_a_model_may_do_anything_and_the_next_message_is_answered_also_after_a_restart(
    tmp_path: Path, first: Any
) -> None:
    """On the store that writes everything down: what cannot be written must not get that far."""
    model: Any = BadModel(first)
    store = await SQLiteStore.open(tmp_path / "store")
    async with Bed(tmp_path, model=model, store=store) as bed:
        assert await bed.say("hello") != ""
        assert await bed.say("again") == "fine"
    await store.close()
    store = await SQLiteStore.open(tmp_path / "store")
    assert await store.open_work() == []
    async with Bed(tmp_path, model=model, store=store) as bed:
        assert await bed.say("and after a restart") == "fine"
    await store.close()


class Brings:
    def __init__(self, fault: BaseException) -> None:
        self.fault = fault

    @hookimpl
    def hermes_tools(self) -> Iterable[Any]:
        raise self.fault


@names
def test_case_44_a_plugin_may_raise_anything_while_it_is_taken_in(fault: BaseException) -> None:
    from hermes_core.errors import PluginError

    with pytest.raises(PluginError):
        Plugins().add("bad", Brings(fault))


async def test_d9_an_edit_with_half_a_surrogate_pair_is_kept_as_far_as_it_can_be(tmp_path: Path) -> None:
    from hermes_core.testing.model import Hold

    hold = Hold()
    store = await SQLiteStore.open(tmp_path / "store")
    config = {"conversation": {"busy": "queue"}}
    async with Bed(tmp_path, [["x", hold]], config=config, store=store) as bed:
        await bed.platform.say("work")
        await hold.reached.wait()
        message = await bed.platform.say("plain")
        await bed.platform.say("other", author="Bo\udc00b")
        await bed.platform.gateway.edited(message.address, message.id, "a\ud800b")
        hold.release()
        await bed.platform.settled()
        assert bed.model.texts()[-1] == "a\ufffdb\nother"
    await store.close()


def test_d2_an_empty_message_is_refused_in_words_and_starts_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path) as bed:
            assert await bed.say("  \n") == "That message has no text. Write what you want."
            assert bed.model.requests == []

    run(story())


def test_an_adapter_that_gives_nothing_back_has_sent_all_the_same(tmp_path: Path) -> None:
    class Careless(FakePlatform):
        async def send(self, outgoing: Outgoing) -> Sent:
            await super().send(outgoing)
            return None  # type: ignore[return-value]

    async def story() -> None:
        async with Bed(tmp_path, platform=Careless()) as bed:
            assert await bed.say("one") == "you said: one"
            assert await bed.say("two") == "you said: two"

    run(story())
