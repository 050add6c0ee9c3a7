"""Slash commands: registered by difference, acknowledged within three seconds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core.adapter import KnownCommand
from hermes_core.errors import StoreUnwritable
from hermes_core.messages import Entry
from hermes_core.store import Admission
from hermes_core.testing.driver import RecordingGateway
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import Hold
from hermes_core.testing.platforms.discord import FakeDiscord
from hermes_discord.adapter import DiscordAdapter
from hermes_discord.slash import differs, wanted

from .bench import Bench, until


async def test_case_32_a_command_is_answered_in_place_and_in_time(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord, plugins=[BasicsPlugin(), BusyPlugin()]) as bench:
        used = await discord.slash(chat, "ann", "status")
        await until(lambda: discord.texts(chat))
        assert used.took is not None
        assert used.took < 1.0
        assert used.answered == 5
        assert len(discord.mine(chat)) == 1
        assert not bench.model.requests
        assert not [one for one in discord.requests if one.status >= 400]


async def test_a_command_during_a_turn_does_not_wait_for_it_t5(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    plugins = [BasicsPlugin(), BusyPlugin()]
    async with Bench(tmp_path, discord, [["I will write for a long while now", Hold()]], plugins=plugins):
        await discord.say(chat, "ann", "go on")
        await until(lambda: discord.texts(chat))
        await discord.slash(chat, "ann", "stop")
        await until(lambda: discord.texts(chat)[0].endswith("*✂ interrupted*"))
        await until(lambda: len(discord.texts(chat)) == 2)


async def test_commands_are_registered_once_and_not_again(tmp_path: Path, discord: FakeDiscord) -> None:
    plugins = [BasicsPlugin(), BusyPlugin()]
    async with Bench(tmp_path, discord, plugins=plugins):
        await until(lambda: discord.commands)
        assert {"help", "new", "status", "stop", "queue"} <= {one["name"] for one in discord.commands}
    async with Bench(tmp_path, discord, plugins=[BasicsPlugin(), BusyPlugin()]):
        await until(lambda: len(discord.calls("GET", "/commands")) == 2)
    assert len(discord.calls("PUT", "/commands")) == 1


def test_case_31_at_most_a_hundred_are_registered_first_names_first_and_the_others_are_named() -> None:
    commands = [KnownCommand(f"c{n}", "does it " * 30, f"/c{n} TEXT", (f"a{n}",)) for n in range(60)]
    new, dropped = wanted(commands)
    assert len(new) == 100
    assert [one["name"] for one in new[:60]] == [f"c{n}" for n in range(60)]
    assert dropped == [f"a{n}" for n in range(40, 60)]
    assert all(len(one["description"]) <= 100 for one in new)


def test_what_the_platform_adds_is_no_difference_and_a_new_text_is() -> None:
    new, _ = wanted([KnownCommand("after", "keeps a note", "/after N TEXT")])
    registered = [{**one, "id": "1", "version": "2", "nsfw": False} for one in new]
    registered.append({"type": 2, "name": "menu", "description": ""})
    assert not differs(registered, new)
    other, _ = wanted([KnownCommand("after", "keeps two notes", "/after N TEXT")])
    assert differs(registered, other)


async def test_an_answer_that_is_too_late_for_the_platform_comes_as_a_message(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord, plugins=[BasicsPlugin(), BusyPlugin()]):
        used = await discord.slash(chat, "ann", "status", late=4.0)
        await until(lambda: discord.texts(chat))
        assert used.answered is None
        assert discord.calls("POST", "/callback")[0].status == 404


async def test_a_command_that_starts_a_turn_shows_itself_and_the_reply_follows(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord, plugins=[BasicsPlugin(), BusyPlugin()]) as bench:
        await discord.slash(chat, "ann", "queue", "good morning")
        await until(lambda: "you said: good morning" in discord.texts(chat))
        await until(lambda: "`/queue good morning`" in discord.texts(chat))
        assert len(bench.model.requests) == 1
        assert not any(one["flags"] & 128 for one in discord.mine(chat))


async def test_a_command_that_cannot_be_kept_is_told_so_in_time_d7(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    store = FullStore()
    async with Bench(tmp_path, discord, plugins=[BasicsPlugin()], store=store):
        store.full = True
        used = await discord.slash(chat, "ann", "status")
        await until(lambda: used.answered == 4)
        assert any(one.startswith("I cannot save") for one in discord.texts(chat))


async def test_a_message_that_cannot_be_kept_is_taken_once_it_can_d7(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    store = FullStore()
    async with Bench(tmp_path, discord, store=store) as bench:
        store.full = True
        await discord.say(chat, "ann", "one")
        await discord.say(chat, "ann", "two")
        await until(lambda: any("cannot save" in one for one in discord.texts(chat)))
        store.full = False
        await until(lambda: bench.model.requests)
        await until(lambda: discord.texts(chat)[-1].endswith("two"))
        admitted = list(await bench.store.history(bench.address(chat)))
        assert "one" in str(admitted)


class FullStore(MemoryStore):
    """A store whose disk is full while `full`, and takes nothing before `slow` is set."""

    full = False

    def __init__(self) -> None:
        super().__init__()
        self.slow = asyncio.Event()
        self.slow.set()

    def admit(self, entry: Entry) -> Any:
        """Refuses while the disk is full."""

        async def refuse() -> Admission:
            raise StoreUnwritable("The disk is full.")

        async def later() -> Admission:
            await self.slow.wait()
            return await super(FullStore, self).admit(entry)

        if self.full:
            return refuse()
        return super().admit(entry) if self.slow.is_set() else later()


async def test_an_answer_whose_place_was_deleted_comes_as_a_message(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    async with Bench(tmp_path, discord, plugins=[BasicsPlugin(), BusyPlugin()]):
        discord.fail("PATCH", "/messages/@original", 404, {"message": "Unknown Message", "code": 10008})
        await discord.slash(chat, "ann", "status")
        await until(lambda: discord.texts(chat))
        assert [one.status for one in discord.calls("POST", "/channels/") if "/messages" in one.path] == [200]


@pytest.mark.parametrize(
    ("code", "words"),
    [(30032, "there are more than Discord takes"), (30034, "Discord takes 200 new ones a day")],
)
async def test_case_31_a_list_that_is_refused_as_a_whole_is_named_and_everything_else_works(
    code: int, words: str, tmp_path: Path, discord: FakeDiscord, caplog: pytest.LogCaptureFixture
) -> None:
    chat = discord.direct()
    discord.fail("PUT", "/commands", 400, {"message": "refused", "code": code})
    async with Bench(tmp_path, discord, plugins=[BasicsPlugin()]) as bench:
        await until(lambda: words in caplog.text)
        await discord.say(chat, "ann", "/status")
        assert await bench.heard(chat)
        assert not bench.model.requests


async def test_registering_is_never_on_the_way_to_being_ready(tmp_path: Path, discord: FakeDiscord) -> None:
    chat = discord.direct()
    discord.limit("GET", "/commands", 25.0)
    async with Bench(tmp_path, discord, plugins=[BasicsPlugin()]) as bench:
        await discord.say(chat, "ann", "hello")
        assert await bench.heard(chat) == ["you said: hello"]
        assert not discord.commands


async def test_p5_what_is_switched_off_is_not_declared_and_not_done(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat = discord.direct()
    settings = {"slash": False}
    async with Bench(tmp_path, discord, plugins=[BasicsPlugin()], settings=settings) as bench:
        await discord.say(chat, "ann", "hello")
        await bench.heard(chat)
        assert not bench.runtime.services.adapters["discord"].features.registers
        assert not discord.calls("GET", "/commands")


async def test_case_32_a_command_is_answered_in_time_however_slow_the_store_is_and_is_carried_out_later(
    tmp_path: Path, discord: FakeDiscord
) -> None:
    chat, store = discord.direct(), FullStore()
    async with Bench(tmp_path, discord, plugins=[BasicsPlugin()], store=store):
        store.slow.clear()
        used = await discord.slash(chat, "ann", "status")
        await until(lambda: used.answered)
        assert used.took is not None
        assert used.took < 3.0
        assert discord.texts(chat)[0].startswith("This takes longer than usual.")
        store.slow.set()
        await until(lambda: len(discord.texts(chat)) == 2)


async def test_commands_that_come_and_go_while_it_runs_are_registered_anew(discord: FakeDiscord) -> None:
    discord.gateway.interval = 0.2
    gateway = RecordingGateway((KnownCommand("one", "does it", "/one"),))
    adapter = DiscordAdapter(discord.token, base_url=discord.base_url, gateway_url=discord.gateway_url)
    run = asyncio.create_task(adapter.run(gateway))
    await until(lambda: [one["name"] for one in discord.commands] == ["one"])
    gateway._commands = (KnownCommand("two", "does it", "/two"),)
    await until(lambda: [one["name"] for one in discord.commands] == ["two"])
    asked = len(discord.calls("GET", "/commands"))
    beats = discord.gateway.beats
    await until(lambda: discord.gateway.beats >= beats + 10)
    assert len(discord.calls("GET", "/commands")) == asked
    run.cancel()
    await asyncio.wait({run}, timeout=1.0)
