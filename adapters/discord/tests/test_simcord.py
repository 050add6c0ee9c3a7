"""The adapter against simcord, a Discord in the process that others wrote, with its own strictness."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hermes_core.adapter import KnownCommand
from hermes_core.messages import Address, Attachment, Choice, Message, Outgoing
from hermes_discord.adapter import DiscordAdapter
from hermes_discord.line import Line

from .bench import until

simcord = pytest.importorskip("simcord")


class Echo:
    """A runtime that answers everything with itself."""

    def __init__(self) -> None:
        self.got: list[Message] = []
        self.environment: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.answers: asyncio.Queue[Outgoing] = asyncio.Queue()

    def commands(self) -> tuple[KnownCommand, ...]:
        """One."""
        return (KnownCommand("status", "tells how it stands", "/status"),)

    def knows(self, command: str) -> bool:
        """That one."""
        return command == "status"

    def alive(self) -> None:
        """A sign of life."""

    def dated(self, header: str | None) -> None:
        """Its clock is ours."""

    def ready(self) -> None:
        """Nothing waits for it."""

    async def settled(self, address: Address) -> None:
        """Nothing goes on."""

    async def receive(self, message: Message, committed: Any = None) -> None:
        """Keep it, and answer it soon."""
        self.got.append(message)
        if committed is not None:
            committed()
        key = f"{message.address}#{message.id}"
        self.answers.put_nowait(Outgoing(key, message.address, f"**{message.text}**", answers=message.id))


@asynccontextmanager
async def world() -> AsyncIterator[tuple[Any, Echo, DiscordAdapter]]:
    """simcord, the runtime and the adapter between them."""
    echo = Echo()

    class SimulatedLine(Line):
        async def serve(self, token: str) -> None:
            async with simcord.run(self, strict_sync=False) as environment:
                echo.environment.set_result(environment)
                await asyncio.Event().wait()

    adapter = DiscordAdapter("any", connect=SimulatedLine)
    run = asyncio.create_task(adapter.run(echo))  # type: ignore[arg-type]

    async def answer() -> None:
        while True:
            await adapter.send(await echo.answers.get())

    answering = asyncio.create_task(answer())
    try:
        async with asyncio.timeout(10.0):
            yield await echo.environment, echo, adapter
    finally:
        answering.cancel()
        run.cancel()
        await asyncio.wait({run, answering}, timeout=5.0)


async def test_a_mention_is_answered_with_a_native_reply_and_chatter_is_not() -> None:
    async with world() as (environment, echo, _):
        guild = environment.create_guild()
        room = guild.create_text_channel("general")
        ann = guild.add_member(environment.create_user("ann"))
        await ann.send(room, "not for you")
        await ann.send(room, f"<@{environment.bot.user.id}> hello")
        await until(lambda: len(room.history()) == 3)
        answer = room.history()[-1]
        assert (answer.content, answer.author.id) == ("**hello**", environment.bot.user.id)
        assert answer.reference.message_id == room.history()[1].id
        assert [one.text for one in echo.got] == ["hello"]


async def test_a_long_answer_is_split_within_its_limits() -> None:
    async with world() as (environment, echo, _):
        guild = environment.create_guild()
        room = guild.create_text_channel("general")
        ann = guild.add_member(environment.create_user("ann"))
        await ann.send(room, f"<@{environment.bot.user.id}> hello")
        await until(lambda: len(room.history()) == 2)
        address = echo.got[0].address
        echo.answers.put_nowait(Outgoing("long", address, "word " * 1000, answers=echo.got[0].id))
        await until(lambda: len(room.history()) == 5)
        assert sum(one.content.count("word") for one in room.history()) == 1000


async def test_a_direct_message_is_answered() -> None:
    async with world() as (environment, echo, _):
        guild = environment.create_guild()
        ann = guild.add_member(environment.create_user("ann"))
        await ann.send_dm("psst")
        await until(lambda: any(one.method == "POST" for one in environment.http_requests))
        assert [(one.text, one.group) for one in echo.got] == [("psst", False)]


async def test_files_and_buttons_go_out_and_a_press_and_a_file_come_in(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_bytes(b"a note")
    async with world() as (environment, echo, adapter):
        guild = environment.create_guild()
        room = guild.create_text_channel("general")
        ann = guild.add_member(environment.create_user("ann"))
        await ann.send(
            room, f"<@{environment.bot.user.id}> hello", attachments=[("to-the-agent.txt", b"for you")]
        )
        await until(lambda: len(room.history()) == 2)
        (file,) = echo.got[0].attachments
        assert (file.name, file.size) == ("to-the-agent.txt", 7)
        await adapter.send(
            Outgoing(
                "k",
                echo.got[0].address,
                "Shall I?",
                attachments=(Attachment("note.txt", "text/plain", 6, str(note)),),
                choices=(Choice("Yes, do", "/approve 7f"), Choice("No", "/deny 7f")),
            )
        )
        asked = room.history()[-1]
        assert [one.filename for one in asked.attachments] == ["note.txt"]
        await ann.click(asked, label="No")
        await until(lambda: len(echo.got) == 2)
        assert (echo.got[1].text, echo.got[1].author.id, echo.got[1].address) == (
            "/deny 7f",
            str(ann.id),
            echo.got[0].address,
        )
        await until(lambda: room.history()[-1].content == "**/deny 7f**")


async def test_commands_are_registered_as_people_are_offered_them() -> None:
    async with world() as (environment, _, _adapter):
        guild = environment.create_guild()
        room = guild.create_text_channel("general")
        ann = guild.add_member(environment.create_user("ann"))
        await until(lambda: ann.available_commands(room) == ("status",))
