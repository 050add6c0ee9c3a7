"""The IRC adapter against a real IRC server, miniircd, as a process of its own; people are plain sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Self

import pytest
from hermes_irc import IrcAdapter, IrcPlugin, IrcSettings, Line

from hermes_core.config import Config
from hermes_core.messages import Address
from hermes_core.plugins import Plugins
from hermes_core.runtime import Runtime
from hermes_core.testing.adapter_contract import AdapterContract
from hermes_core.testing.driver import Driver, Impossible, Post, Session, until
from hermes_core.testing.model import ScriptedModel

STYLES = {ord(mark): "" for mark in "\x02\x1d\x1e"}


class Wire:
    """Between the agent and the server: hands lines on, and breaks when it is told to."""

    def __init__(self, server: int) -> None:
        self._server = server
        self.trouble = ""
        self.down = False
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()

    async def _join(self, near: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        if self.down:
            out.close()
            return
        there, far = await asyncio.open_connection("127.0.0.1", self._server)
        back = asyncio.create_task(self._back(there, out))
        self._tasks.add(back)
        try:
            while line := await near.readline():
                trouble = self.trouble if line.startswith(b"PRIVMSG") else ""
                if trouble:
                    self.trouble = ""
                if trouble != "cut before":
                    far.write(line)
                    await far.drain()
                if trouble:
                    break
        finally:
            back.cancel()
            out.close()
            far.close()

    async def _back(self, there: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while line := await there.readline():
                out.write(line)
                await out.drain()


class Person:
    """Somebody with an IRC client."""

    def __init__(self, nick: str) -> None:
        self.nick = nick
        self.mask = ""
        self.heard: list[Line] = []

    async def connect(self, port: int) -> Person:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        self.write(f"NICK {self.nick}", f"USER {self.nick} 0 * :{self.nick}", f"WHOIS {self.nick}")
        self._task = asyncio.create_task(self._listen())
        await until(lambda: self.mask, f"{self.nick} is in")
        return self

    def write(self, *lines: str) -> None:
        for line in lines:
            self._writer.write(f"{line}\r\n".encode())

    async def _listen(self) -> None:
        while raw := await self._reader.readline():
            line = Line.parse(raw.decode().rstrip("\r\n"))
            if line.command == "PING":
                self.write(f"PONG :{line.arguments[-1]}")
            elif line.command == "311":
                self.mask = f"{line.arguments[1]}!{line.arguments[2]}@{line.arguments[3]}"
            self.heard.append(line)

    def texts(self, where: str = "") -> list[str]:
        """What the agent wrote to this person, or in a channel."""
        return [
            one.arguments[1].translate(STYLES)
            for one in self.heard
            if one.command == "PRIVMSG"
            and one.source.startswith("hermes")
            and one.arguments[0] == (where or self.nick)
        ]

    async def leave(self) -> None:
        self._task.cancel()
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


class IrcDriver:
    """People on this server. IRC has no ids, so what is said has none either."""

    without = frozenset({"limited", "repeated", "unwritable", "token"})

    def __init__(self, wire: Wire, ann: Person) -> None:
        self._wire = wire
        self.ann = ann

    def open(self, folder: Path) -> IrcAdapter:
        return IrcAdapter(
            IrcSettings("127.0.0.1", self._wire.port, tls=False, channels=("#den",), every=0.0), None
        )

    async def shut(self, how: str) -> None:
        self._wire.down = how == "down"

    def person(self, name: str) -> str:
        return self.ann.mask

    def home(self) -> Address:
        return Address("irc", "127.0.0.1", "ann")

    def thread(self) -> Address:
        raise Impossible

    async def say(
        self, text: str, address: Address | None = None, author: str = "ann", **more: object
    ) -> str:
        if author != "ann" or more.get("reply_to") or more.get("files"):
            raise Impossible
        if "\n" in text:
            raise Impossible
        self.ann.write(f"PRIVMSG hermes :{text}")
        return ""

    async def edit(self, id: str, text: str, address: Address | None = None) -> None:
        raise Impossible

    async def delete(self, id: str, address: Address | None = None) -> None:
        raise Impossible

    async def press(self, post: Post, label: str, address: Address | None = None) -> None:
        raise Impossible

    async def repeat(self, id: str, address: Address | None = None) -> None:
        raise Impossible

    async def trouble(self, kind: str, address: Address | None = None) -> None:
        if kind == "refused":
            await self.ann.leave()
        elif kind in self.without:
            raise Impossible
        else:
            self._wire.trouble = kind

    async def seen(self, address: Address | None = None) -> list[Post]:
        return [Post(str(n), text) for n, text in enumerate(self.ann.texts())]

    async def receipts(self, address: Address | None = None) -> list[str]:
        raise Impossible

    async def status(self, address: Address | None = None) -> bool:
        raise Impossible

    async def registered(self) -> list[str]:
        raise Impossible


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A real IRC server for all tests of this file."""
    modest = ["--setuid", "nobody"] if os.geteuid() == 0 else []  # it does not serve as root
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, "-m", "miniircd", "--listen", "127.0.0.1", "--ports", str(number), *modest]
    ) as server:
        for _ in range(500):
            with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", number)):
                break
            assert server.poll() is None
            time.sleep(0.02)
        yield number
        server.kill()


@pytest.fixture
async def ann(port: int) -> AsyncIterator[Person]:
    """Ann is there before the agent is."""
    person = await Person("ann").connect(port)
    yield person
    await person.leave()


@pytest.fixture
async def wire(port: int) -> AsyncIterator[Wire]:
    """Where the agent connects."""
    async with Wire(port) as made:
        yield made


class TestIrc(AdapterContract):
    @pytest.fixture
    def driver(self, wire: Wire, ann: Person) -> Driver:
        return IrcDriver(wire, ann)


async def test_in_a_channel_only_what_is_meant_for_the_agent_is_taken(
    wire: Wire, ann: Person, tmp_path: Path
) -> None:
    """(X4)"""
    driver = IrcDriver(wire, ann)
    async with Session(driver, tmp_path) as session:
        ann.write("JOIN #den")
        for text in (
            "hello all",
            "hermes is nice",
            "Hermes: what time is it?",
            "hermes, !stop now",
            "hermes:",
        ):
            ann.write(f"PRIVMSG #den :{text}")
        heard = await session.heard(3)
        assert [one.text for one in heard] == ["what time is it?", "/stop now", ""]
        assert {str(one.address) for one in heard} == {"irc:127.0.0.1:#den"}
        assert all(one.group for one in heard)
        await session.send("in the channel", heard[0].address)
        await until(lambda: ann.texts("#den") == ["in the channel"], "it is seen there")


async def test_a_name_that_is_taken_gets_a_tail(wire: Wire, ann: Person, port: int, tmp_path: Path) -> None:
    other = await Person("hermes").connect(port)
    async with Session(IrcDriver(wire, ann), tmp_path) as session:
        ann.write("PRIVMSG hermes_ :hello")
        assert (await session.heard(1))[0].text == "hello"
    await other.leave()


async def test_it_serves_a_whole_agent_and_comes_back_after_the_connection_broke(
    wire: Wire, ann: Person, tmp_path: Path
) -> None:
    config = Config.of(
        {
            "runtime": {"data_dir": str(tmp_path)},
            "model": {"provider": "scripted"},
            "access": {"allow": [f"irc:{ann.mask}"]},
            "adapters": {"irc": {"server": "127.0.0.1", "port": wire.port, "tls": False, "every": 0}},
        }
    )
    plugins = Plugins(config)
    plugins.add("irc", IrcPlugin(config.section("adapters", "irc", IrcSettings)))
    plugins.add("scripted", ScriptedModel())
    ready = asyncio.Event()
    async with Runtime(
        config, adapters=["irc"], plugins=plugins, on_ready=lambda names: ready.set()
    ) as runtime:
        running = asyncio.create_task(runtime.run())
        await ready.wait()
        ann.write("PRIVMSG hermes :good **morning**")
        await until(lambda: ann.texts() == ["you said: good morning"], "it is answered")
        wire.trouble = "cut after"
        ann.write("PRIVMSG hermes :and now?")
        await until(lambda: len(ann.texts()) >= 3, "it is answered again, marked", ann.texts)
        assert ann.texts()[1:] == ["you said: and now?", "(may be a repeat) you said: and now?"]
        runtime.stop()
        await running


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (":a!b@c PRIVMSG #x :hello : there", Line("a!b@c", "PRIVMSG", ("#x", "hello : there"))),
        ("@t=1;m :a!b@c privmsg x :", Line("a!b@c", "PRIVMSG", ("x", ""))),
        ("PING token", Line("", "PING", ("token",))),
        (":srv 001 me :Hi", Line("srv", "001", ("me", "Hi"))),
        ("", Line("", "", ())),
    ],
)
def test_a_line_is_taken_apart(text: str, line: Line) -> None:
    assert Line.parse(text) == line
