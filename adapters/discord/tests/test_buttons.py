"""Buttons: what is shown, and what a press of one is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes_access.plugin import AccessPlugin
from hermes_basics.plugin import BasicsPlugin
from hermes_core.messages import Choice, Outgoing, ToolCall
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Script
from hermes_core.testing.platforms.discord import FakeDiscord
from hermes_shell.plugin import ShellPlugin, ShellSettings

from .bench import Bench, until
from .test_slash import FullStore

CHOICES = (Choice("Yes", "/status"), Choice("No", "good morning"), Choice("Other", "é" * 30))


async def ask(bench: Bench, channel: str, thread: str | None = None) -> None:
    """A question with buttons."""
    address = bench.address(channel, thread)
    question = Outgoing(f"{address}#question", address, "Shall I? Type /status or say no.", choices=CHOICES)
    await bench.runtime.services.adapters["discord"].send(question)


async def test_a_press_is_what_the_presser_says_there_and_is_acknowledged_in_time(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    room = discord.room()
    thread = discord.thread(room)
    async with Bench(tmp_path, discord) as bench:
        await ask(bench, room, thread)
        pressed = await discord.press(thread, "bob", "No")
        await until(lambda: "good morning" in "".join(discord.texts(thread)))
        said = bench.model.requests[-1].items[-1]
        assert (said.author, said.text) == ("Bob", "good morning")  # type: ignore[union-attr]
        assert pressed.answered == 6
        assert pressed.took is not None
        assert pressed.took < 1.0
        await discord.press(thread, "bob", "Other")
        await until(lambda: "é" * 30 in "".join(discord.texts(thread)))
        assert discord.texts(room) == []
        assert not [one for one in discord.requests if one.status >= 400]


async def test_a_button_that_stands_for_a_command_is_the_command(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord, plugins=[BasicsPlugin()]) as bench:
        await ask(bench, chat)
        await discord.press(chat, "ann", "Yes")
        assert len(await bench.heard(chat, 2)) == 2
        assert discord.texts(chat)[0].startswith("Shall I?")
        assert bench.model.requests == []


async def test_a_button_works_after_the_program_was_started_anew(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    store, chat = MemoryStore(), discord.direct()
    async with Bench(tmp_path, discord, store=store) as bench:
        await ask(bench, chat)
    async with Bench(tmp_path, discord, store=store) as bench:
        pressed = await discord.press(chat, "ann", "No")
        assert (await bench.heard(chat, 2))[1] == "you said: good morning"
        assert pressed.answered == 6


async def test_d1_a_press_that_comes_again_with_a_resume_counts_once(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        await ask(bench, chat)
        await discord.press(chat, "ann", "No")
        await bench.heard(chat, 2)
        discord.gateway.duplicates = 9
        await discord.gateway.hang_up(4000)
        await until(lambda: discord.gateway.resumed)
        await discord.say(chat, "ann", "and now?")
        assert (await bench.heard(chat, 3))[2] == "you said: and now?"
        assert len(bench.model.requests) == 2


async def test_d7_whoever_presses_while_nothing_can_be_kept_is_told_so_aside(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat, store = discord.direct(), FullStore()
    async with Bench(tmp_path, discord, store=store) as bench:
        await ask(bench, chat)
        store.full = True
        pressed = await discord.press(chat, "ann", "No")
        await until(lambda: pressed.aside is not None)
        assert pressed.aside is not None
        assert pressed.aside.startswith("I cannot save")


async def test_case_32_a_press_is_acknowledged_in_time_however_slow_the_store_is(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat, store = discord.direct(), FullStore()
    async with Bench(tmp_path, discord, store=store) as bench:
        await ask(bench, chat)
        store.slow.clear()
        pressed = await discord.press(chat, "ann", "No")
        await until(lambda: pressed.aside is not None)
        assert pressed.took is not None
        assert pressed.took < 3.0
        store.slow.set()
        assert (await bench.heard(chat, 2))[1] == "you said: good morning"


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_d5_a_question_whose_post_was_cut_stands_once_and_has_its_buttons(
    cut: str, tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        discord.fail("POST", "/messages", cut=cut)
        await ask(bench, chat)
        labels = [one["label"] for row in discord.mine(chat)[0]["components"] for one in row["components"]]
        assert labels == ["Yes", "No", "Other"]
        assert len(discord.mine(chat)) == 1


async def test_d1_a_press_that_comes_again_while_it_is_being_taken_is_left(
    tmp_path: Path, discord: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    chat, store = discord.direct(), FullStore()
    async with Bench(tmp_path, discord, store=store) as bench:
        adapter: Any = bench.runtime.services.adapters["discord"]
        await ask(bench, chat)
        store.slow.clear()
        pressed = await discord.press(chat, "ann", "No")
        await discord.interact_again()
        await discord.say(discord.direct("bob"), "bob", "behind it")
        await until(lambda: adapter._writing._heard)  # so both were told
        store.slow.set()
        await bench.heard(chat, 2)
        assert pressed.answered == 6
        assert len(discord.calls("POST", "/callback")) == 1
        assert "failed" not in caplog.text


async def test_nothing_of_a_button_is_kept_in_memory(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord) as bench:
        await ask(bench, chat)
        adapter: Any = bench.runtime.services.adapters["discord"]
        assert not adapter._session.line._connection._view_store._views


async def test_a_tool_that_asks_is_let_run_by_the_button_of_whoever_may(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    room = discord.room()
    ann, bob = (discord.person(name)["id"] for name in ("ann", "bob"))
    scripts: list[Script] = [[ToolCall("1", "run_command", '{"command": "echo it-ran"}')], "It is done."]
    access = {"owners": [f"discord:{ann}"], "allow": [f"discord:{bob}"]}
    plugins = [ShellPlugin(ShellSettings(cwd=str(tmp_path))), AccessPlugin()]
    async with Bench(tmp_path, discord, scripts, plugins=plugins, access=access) as bench:
        asked = await discord.say(room, "ann", f"{discord.mention} run it")
        await until(lambda: any("May I run this?" in one for one in discord.texts(room)))
        question = discord.mine(room)[-1]
        assert question["message_reference"]["message_id"] == asked
        await discord.press(room, "bob", "Approve")
        await until(lambda: len(discord.texts(room)) == 2)
        assert len(bench.model.requests) == 1
        await discord.press(room, "ann", "Approve")
        await until(lambda: "It is done." in discord.texts(room))
        assert "it-ran" in str(bench.model.requests[-1].items)
