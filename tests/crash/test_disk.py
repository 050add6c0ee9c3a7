"""A disk that takes nothing while the program runs (D7): nobody is told "received", and nothing else goes wrong.

The real runtime in a process of its own; the trouble is made from outside: a limit on the size of its
files, a file system that is full or turns read-only, another program that locks the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

from hermes_core.testing.model_server import Answer, ModelServer, asks, says

from .chat import Chat
from .gateways import Gateways, Life
from .mind import names

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs process handles (Linux)")

PATIENCE = 20.0  # seconds
UNLIMITED = resource.RLIM_INFINITY

Relieve = Callable[[], None]


class Scene:
    """One gateway with its data in `data`, its platform and its model server."""

    def __init__(self, folder: Path, data: Path) -> None:
        self.data = data
        self.life: Life
        self.hold: asyncio.Event | None = None  # holds every answer of the model back
        self.gateways: Gateways
        self.chat = Chat(lambda what, channel: self._changed.set())
        self.server = ModelServer(self._answer)
        self._folder = folder
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.server.start()
        await self.chat.__aenter__()
        model = {"provider": "openai", "name": "m", "base_url": self.server.base_url}
        tables = {
            "runtime": {"data_dir": str(self.data)},
            "model": model,
            "conversation": {"busy": "queue"},
            "access": {"owners": ["wire:ann"]},
            "plugins": {"shell": {"enabled": True, "approval": "never", "cwd": str(self._folder)}},
        }
        self.gateways = Gateways(self._folder, self.chat.port, tables)
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.gateways.__aexit__()
        await self.chat.__aexit__()
        await self.server.close()

    async def start(self) -> None:
        """Start the gateway."""
        self.life = await self.gateways.start(whole=True)

    def _answer(self, body: dict[str, Any]) -> Answer:
        last = body["messages"][-1]
        if last["role"] == "user" and "run " in last["content"]:
            answer = asks(("run_command", '{"command": "echo ran >> runs"}'))
        else:
            said = [one["content"] for one in body["messages"] if one["role"] == "user"]
            answer = says("done: " + " ".join(names(said[-1:])))
        return Answer(answer.parts, before=self.hold)

    async def until(self, what: Callable[[], object]) -> None:
        """Wait until it is so."""
        async with asyncio.timeout(PATIENCE):
            while not what():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await self._changed.wait()
                self._changed.clear()

    def write(self, text: str) -> None:
        """Ann writes, into the channel that the name in the text begins with."""
        self.chat.write(names([text])[0].partition("-")[0], "ann", text)

    def replies(self, channel: str) -> list[str]:
        """What people read as replies there."""
        return [one["text"] for one in self._sent(channel) if one["number"] is not None]

    def notices(self, channel: str) -> list[str]:
        """What they read besides."""
        return [one["text"] for one in self._sent(channel) if one["number"] is None]

    def _sent(self, channel: str) -> list[dict[str, Any]]:
        return [one for one in self.chat.sent if one["address"]["channel"] == channel]

    def acked(self) -> list[str]:
        """The texts that the platform was told were received."""
        return [one.text for one in self.chat.written.values() if one.acked]

    def unfinished(self) -> list[str]:
        """What the store still has to do."""
        with contextlib.closing(sqlite3.connect(self.data / "hermes.db")) as connection:
            rows = connection.execute(
                "SELECT id FROM entries WHERE state = 'waiting' UNION ALL SELECT number FROM turns WHERE end IS NULL"
                " UNION ALL SELECT key FROM outbox WHERE state IN ('waiting', 'sending')"
            )
            return [str(value) for (value,) in rows]

    async def end(self) -> None:
        """Everything is done, and the gateway stops as an operator stops it."""
        await self.until(lambda: not self.unfinished())
        assert await self.gateways.stop(self.life) == 0
        assert self.chat.sent == list({one["key"]: one for one in self.chat.sent}.values())


def no_file_may_grow(scene: Scene) -> Relieve:
    """Any user can have this on any Linux."""
    resource.prlimit(scene.life.pid, resource.RLIMIT_FSIZE, (0, UNLIMITED))

    def relieve() -> None:
        resource.prlimit(scene.life.pid, resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))

    return relieve


def no_space_is_left(scene: Scene) -> Relieve:
    """The data folder is on a small file system of its own, which somebody fills."""
    ballast = scene.data / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return ballast.unlink


def another_program_locks_it(scene: Scene) -> Relieve:
    """As a backup does, or a person with a database browser."""
    connection = sqlite3.connect(scene.data / "hermes.db", isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    return connection.close


TROUBLES = [no_file_may_grow, no_space_is_left, another_program_locks_it]


@contextlib.contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """A file system of its own there; the test is left out where one may not mount."""
    folder.mkdir()
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True, timeout=PATIENCE)


@pytest.fixture
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Where the gateway keeps its data: on a small disk where the trouble wants one."""
    if request.getfixturevalue("trouble") is not no_space_is_left:
        yield tmp_path / "data"
        return
    with mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=3m", "tmpfs") as disk:
        yield disk


def one_plain_notice(texts: list[str]) -> bool:
    """One, that says what is the matter and shows nothing of the machine."""
    return len(texts) == 1 and "cannot save" in texts[0] and "/" not in texts[0] and len(texts[0]) < 200


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: one.__name__)
async def test_what_cannot_be_kept_is_not_acknowledged_and_is_answered_once_when_there_is_room_again(
    tmp_path: Path, data: Path, trouble: Callable[[Scene], Relieve]
) -> None:
    async with Scene(tmp_path, data) as scene:
        scene.write("say a-1")
        await scene.until(lambda: scene.replies("a") == ["done: a-1"] and not scene.unfinished())
        relieve = trouble(scene)
        process = psutil.Process(scene.life.pid)
        try:
            for text in ("say a-2", "say a-3", "say b-4", "/echo b-5"):
                scene.write(text)
            await scene.until(lambda: scene.chat.refusals >= 4)
            cpu, began = process.cpu_times(), asyncio.get_running_loop().time()
            refusals = scene.chat.refusals
            await scene.until(lambda: scene.chat.refusals >= refusals + 12)
            used, now = process.cpu_times(), asyncio.get_running_loop().time()
            assert scene.acked() == ["say a-1"]
            assert one_plain_notice(scene.notices("a"))
            assert one_plain_notice(scene.notices("b"))
            # Six refusals of each conversation: some milliseconds each, the rest of the time is rest.
            assert used.user + used.system - cpu.user - cpu.system < 0.5 * (now - began)
        finally:
            relieve()
        await scene.until(lambda: len(scene.acked()) == 5)
        await scene.end()
        assert " ".join(scene.replies("a")) in ("done: a-1 done: a-2 a-3", "done: a-1 done: a-2 done: a-3")
        assert scene.replies("b") == ["done: b-4"]
        assert len(scene.notices("a")) == 1
        assert scene.notices("b")[1:] == ["echo b-5"]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: one.__name__)
async def test_a_turn_that_cannot_be_kept_runs_no_tool_and_says_its_answer_once_when_there_is_room_again(
    tmp_path: Path, data: Path, trouble: Callable[[Scene], Relieve]
) -> None:
    """(D3, D4)"""
    async with Scene(tmp_path, data) as scene:
        scene.hold = asyncio.Event()
        scene.write("run a-1")
        scene.write("say b-2")
        await scene.server.asked(2, PATIENCE)
        relieve = trouble(scene)
        try:
            scene.hold.set()
            await scene.until(lambda: scene.notices("a") and scene.notices("b"))
            # Now the plan of the one and the end of the other are tried again and again.
            assert one_plain_notice(scene.notices("a"))
            assert one_plain_notice(scene.notices("b"))
            assert not (tmp_path / "runs").exists()
            assert scene.replies("a") + scene.replies("b") == []
            assert psutil.Process(scene.life.pid).is_running()
        finally:
            relieve()
        await scene.until(lambda: scene.replies("a") and scene.replies("b"))
        await scene.end()
        assert (tmp_path / "runs").read_text() == "ran\n"
        assert scene.replies("a") == ["done: a-1"]
        assert scene.replies("b") == ["done: b-2"]
        assert (len(scene.notices("a")), len(scene.notices("b"))) == (1, 1)


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: one.__name__)
async def test_that_a_reply_was_sent_is_noted_when_there_is_room_again(
    tmp_path: Path, data: Path, trouble: Callable[[Scene], Relieve]
) -> None:
    """(D5) Else a platform that cannot be asked would get it a second time after the next start."""
    async with Scene(tmp_path, data) as scene:
        scene.chat.hold = asyncio.Event()
        scene.write("say a-1")
        await scene.until(lambda: scene.replies("a"))
        relieve = trouble(scene)
        try:
            scene.chat.hold.set()
            scene.write("say b-2")  # after its refusal the note was refused as well: one queue, in order
            await scene.until(lambda: scene.notices("b"))
        finally:
            relieve()
        await scene.until(lambda: scene.replies("b"))
        await scene.end()
        assert scene.replies("a") == ["done: a-1"]


async def test_a_file_system_that_turns_read_only_is_survived_and_served_again_after_a_start(
    tmp_path: Path,
) -> None:
    """As ext4 does it after a fault of the disk: open files as well."""
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    if os.geteuid() != 0 or subprocess.run(["mkfs.ext4", "-q", image], check=False).returncode:
        pytest.skip("cannot make a file system")
    disk = tmp_path / "disk"
    with contextlib.ExitStack() as stack:
        stack.enter_context(mounted(disk, "-o", "loop", str(image)))
        async with Scene(tmp_path, disk / "data") as scene:
            scene.write("say a-1")
            await scene.until(lambda: scene.replies("a") and not scene.unfinished())
            subprocess.run(["mount", "-o", "remount,abort", str(disk)], check=True, timeout=PATIENCE)
            scene.write("say a-2")
            await scene.until(lambda: scene.chat.refusals >= 4)
            assert scene.acked() == ["say a-1"]
            assert one_plain_notice(scene.notices("a"))
            assert await scene.gateways.stop(scene.life) == 0
            for command in (["umount", str(disk)], ["mount", "-o", "loop", str(image), str(disk)]):
                subprocess.run(command, check=True, timeout=PATIENCE)
            await scene.start()
            await scene.until(lambda: len(scene.replies("a")) == 2)
            await scene.end()
            assert scene.replies("a") == ["done: a-1", "done: a-2"]
            assert len(scene.notices("a")) == 1
