"""How fast an interrupt is: `python bench/interrupt.py [--rounds 30] [--only WORD]`.

A whole runtime (SQLite, the plugins `openai` and `shell`) against a model server in a process of its own,
which says when a request came and when its client left. Every figure counts from the commit of the message
that interrupts; both processes read the same monotonic clock (Linux). The end of a command is seen through
process handles, of the command and of everything that came from it.

Then one conversation with up to 10,000 messages that wait: nothing may cost more because more waits.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

from hermes_busy.plugin import BusyPlugin
from hermes_core.adapter import Sent
from hermes_core.messages import Outgoing
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Hold
from hermes_core.testing.model_server import Answer, Asked, ModelServer, asks, chunk, says
from hermes_core.testing.platform import FakePlatform
from hermes_openai.plugin import OpenAIPlugin
from hermes_shell.plugin import ShellPlugin, ShellSettings

DETACH: Final = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if sys.argv[1] == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open("up", "w").close()
        time.sleep(60)
    os._exit(0)
time.sleep(60)
"""
PYTHON: Final = f"exec {sys.executable} -I -S ../detach.py"
SLEEP: Final = ": > up; exec sleep 60"
COMMANDS: Final = {  # what is run, and the target in milliseconds: of the median, or of the worst
    "sleep 60 dead": (SLEEP, "median 10"),
    "ignores SIGTERM, dead": ("trap '' TERM; : > up; sleep 60; sleep 60", "worst 1050"),
    "detached grandchild dead": (f"{PYTHON} listening", "worst 1100"),
    "detached and deaf, dead": (f"{PYTHON} deaf", "worst 1100"),
}
BLOCK: Final = 100  # messages that come at once where one more is measured
STATES: Final = {
    "waiting for the first byte": "wait",
    "silent in the middle": "silent",
    "streaming, 500 words a second": "stream",
    "streaming without a pause": "flood",
}


# ---- the model server, in a process of its own


def report(**event: Any) -> None:
    """One line to the benchmark."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def words() -> Iterator[bytes | asyncio.Event]:
    """A word every two milliseconds, for as long as somebody listens."""
    loop = asyncio.get_running_loop()
    while True:
        pause = asyncio.Event()
        loop.call_later(0.002, pause.set)
        yield chunk("word ")
        yield pause


async def serve() -> None:
    """Answer as the last message of a request says, and report what comes and goes."""
    tasks: set[asyncio.Task[None]] = set()

    async def watch(asked: Asked) -> None:
        await asked.gone.wait()
        report(what="gone", at=asked.left)

    def answer(body: dict[str, Any]) -> Answer:
        asked = server.requests[-1]
        report(what="asked", at=asked.at)
        last = body["messages"][-1]
        word, _, rest = last["content"].split("\n")[-1].partition(" ")
        if last["role"] == "tool" or word not in ("wait", "silent", "stream", "flood", "run"):
            return says("ok")
        if word == "run":
            return asks(("run_command", json.dumps({"command": rest})))
        task = asyncio.create_task(watch(asked))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        if word == "stream":
            return Answer(words())
        if word == "flood":
            return Answer(iter(lambda: chunk("word "), b""))
        silence = asyncio.Event()
        return Answer(before=silence) if word == "wait" else Answer((chunk("half"), silence))

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        report(what="asked", at=time.monotonic())
        with contextlib.suppress(ConnectionError):
            await reader.read(65536)
        report(what="gone", at=time.monotonic())
        writer.close()

    async with ModelServer(answer) as server, await asyncio.start_server(mute, "127.0.0.1", 0) as silent:
        report(port=server.port, mute=silent.sockets[0].getsockname()[1])
        await asyncio.Event().wait()


class Server:
    """That process as the benchmark holds it."""

    def __init__(self, process: asyncio.subprocess.Process, ports: dict[str, int]) -> None:
        self._process = process
        self.url = f"http://127.0.0.1:{ports['port']}/v1"
        self.mute = f"https://127.0.0.1:{ports['mute']}/v1"

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls) -> AsyncIterator[Server]:
        """Start it; it ends with the benchmark."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--serve", stdout=asyncio.subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            yield cls(process, json.loads(await process.stdout.readline()))
        finally:
            process.terminate()
            await process.wait()

    async def next(self, what: str, after: float) -> float:
        """The time of the first event of this kind after that time; all before it are passed over."""
        assert self._process.stdout is not None
        async with asyncio.timeout(20):
            while True:
                event = json.loads(await self._process.stdout.readline())
                if event["what"] == what and event["at"] >= after:
                    return float(event["at"])


# ---- the runtime


class Platform(FakePlatform):
    """Knows when its last message was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sending = asyncio.Event()
        self.sent_at = 0.0

    async def send(self, outgoing: Outgoing) -> Sent:
        self.sent_at = time.monotonic()
        self.sending.set()
        return await super().send(outgoing)


@contextlib.asynccontextmanager
async def house(folder: Path, url: str) -> AsyncIterator[tuple[Bed, Platform]]:
    """A runtime with the defaults of `hermes run`."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    store = await SQLiteStore.open(folder / "data")
    platform = Platform()
    plugins = [OpenAIPlugin(), ShellPlugin(ShellSettings(approval="never", cwd=str(work))), BusyPlugin()]
    config = {"model": {"provider": "openai", "name": "m", "base_url": url}}
    try:
        async with Bed(
            folder / "data", plugins=plugins, config=config, store=store, platform=platform
        ) as bed:
            yield bed, platform
    finally:
        await store.close()


async def committed(platform: FakePlatform, text: str, channel: str) -> float:
    """Write, and give the time of the commit."""
    times: list[float] = []
    message = platform.message(text, channel)
    await platform.gateway.receive(message, lambda: times.append(time.monotonic()))
    return times[0]


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that the runtime does not tell."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


def living(folder: Path) -> list[int]:
    """The processes whose working folder is this one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "cwd").readlink() == folder:
                    found.append(int(entry.name))
    return found


async def death(pids: list[int]) -> float:
    """Wait until all of these have ended; gives the time of the last one."""
    loop = asyncio.get_running_loop()
    last = 0.0

    async def one(pid: int) -> None:
        nonlocal last
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        ended = asyncio.Event()
        loop.add_reader(handle, ended.set)
        try:
            await ended.wait()
            last = max(last, time.monotonic())
        finally:
            loop.remove_reader(handle)
            os.close(handle)

    await asyncio.gather(*map(one, pids))
    return last


# ---- what is measured

Row = tuple[str, str, list[float]]
Measure = Callable[[int], Awaitable[float]]


async def closing(server: Server, bed: Bed, platform: Platform, word: str, number: int) -> float:
    """Commit to the end of the connection, in one of the states of an answer."""
    channel = f"{word}{number}"
    await server.next("asked", await committed(platform, word, channel))
    if word != "wait":
        await until(platform.drafts)
    await asyncio.sleep(0.01)
    at = await committed(platform, "something else", channel)
    gone = await server.next("gone", at)
    await platform.settled(channel)
    platform.shown.clear()
    return gone - at


async def connecting(server: Server, platform: Platform, number: int) -> float:
    """The same, where the server takes the connection and says nothing to the TLS handshake."""
    channel = f"connecting{number}"
    await server.next("asked", await committed(platform, "hello", channel))
    at = await committed(platform, "/stop", channel)
    gone = await server.next("gone", at)
    await platform.settled(channel)
    return gone - at


async def begun(platform: Platform, work: Path, command: str, channel: str) -> list[int]:
    """Let the agent run the command, until it stands where it is to be interrupted; gives its processes."""
    (work / "up").unlink(missing_ok=True)
    await platform.say(f"run {command}", channel)
    await until((work / "up").exists)
    await asyncio.sleep(0.01)
    return living(work)


async def killing(platform: Platform, work: Path, command: str, number: int) -> float:
    """Commit to the death of the last process."""
    channel = f"kill{hash(command)}-{number}"
    pids = await begun(platform, work, command, channel)
    dying = asyncio.create_task(death(pids))
    await asyncio.sleep(0)
    at = await committed(platform, "/stop", channel)
    dead = await dying
    await platform.settled(channel)
    assert living(work) == []
    return dead - at


async def following(server: Server, platform: Platform, work: Path, number: int) -> float:
    """Commit of a message during a command to the request of the next turn."""
    channel = f"next{number}"
    await begun(platform, work, SLEEP, channel)
    at = await committed(platform, "something else", channel)
    asked = await server.next("asked", at)
    await platform.settled(channel)
    return asked - at


async def stopping(server: Server, platform: Platform, work: Path, word: str, number: int) -> float:
    """Commit of /stop to the adapter's getting its answer."""
    channel = f"stop{word}{number}"
    if word == "run":
        await begun(platform, work, SLEEP, channel)
    else:
        await server.next("asked", await committed(platform, word, channel))
        await asyncio.sleep(0.01)
    platform.sending.clear()
    at = await committed(platform, "/stop", channel)
    await platform.sending.wait()
    sent = platform.sent_at
    await platform.settled(channel)
    return sent - at


async def interrupts(rounds: int, only: str) -> None:
    """All figures of one interrupt."""
    rows: list[Row] = []

    async def measure(title: str, target: str, one: Measure) -> None:
        if only in title:
            await one(-1)
            rows.append((title, target, [await one(number) for number in range(rounds)]))

    async with Server.started() as server:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            (folder / "detach.py").write_text(DETACH)
            work = folder / "work"
            async with house(folder, server.mute) as (_, platform):
                await measure(
                    "connection closed: connecting (TLS)",
                    "median 5, worst 20",
                    lambda n: connecting(server, platform, n),
                )
            async with house(folder, server.url) as (bed, platform):
                for title, word in STATES.items():
                    await measure(
                        f"connection closed: {title}",
                        "median 5, worst 20",
                        lambda n, word=word: closing(server, bed, platform, word, n),  # type: ignore[misc]
                    )
                await measure(
                    "next request, during a command",
                    "median 20",
                    lambda n: following(server, platform, work, n),
                )
                for title, word in (("an answer", "silent"), ("a command", "run")):
                    await measure(
                        f"/stop answered, during {title}",
                        "worst 10",
                        lambda n, word=word: stopping(server, platform, work, word, n),  # type: ignore[misc]
                    )
                for title, (command, target) in COMMANDS.items():
                    await measure(
                        title,
                        target,
                        lambda n, command=command: killing(platform, work, command, n),  # type: ignore[misc]
                    )
    print(f"{rounds} rounds, milliseconds from the commit of the interrupt")
    print(f"{'':50}{'median':>8} {'worst':>8}   target")
    for title, target, seconds in rows:
        print(f"{title:50}{statistics.median(seconds) * 1e3:8.1f} {max(seconds) * 1e3:8.1f}   {target}")


# ---- a long queue


async def queues(rounds: int) -> None:
    """What each step costs while so many messages wait, on a real store."""
    print(f"\none conversation, median of {rounds}, by the number of messages that wait")
    titles = ("one more", "/queue list", "cancel ID", "cancel N", "deleted", "batch, each")
    print(f"{'waiting':>8}", *(f"{title:>12}" for title in titles))
    for length in (100, 1_000, 10_000):
        with tempfile.TemporaryDirectory() as name:
            print(f"{length:8,}", *await queue(Path(name), length, rounds))


async def queue(folder: Path, length: int, rounds: int) -> list[str]:
    """One line of the table, in microseconds."""
    hold = Hold()
    store = await SQLiteStore.open(folder)
    platform = Platform()
    times: dict[str, list[float]] = {}

    async def timed(title: str, step: Awaitable[object]) -> None:
        began = time.perf_counter()
        await step
        times.setdefault(title, []).append(time.perf_counter() - began)

    config = {"conversation": {"busy": "queue"}}
    async with Bed(
        folder, [[hold, "done"]], plugins=[BusyPlugin()], config=config, store=store, platform=platform
    ) as bed:
        await platform.say("work")
        await hold.reached.wait()
        await filled(platform, length)
        waiting = await store.waiting(platform.address())
        ids = [entry.short for entry in waiting[-rounds:]]
        for _ in range(rounds):
            messages = [platform.message("one more") for _ in range(BLOCK)]
            await timed("more", asyncio.gather(*map(platform.gateway.receive, messages)))
            await timed("list", answered(platform, "/queue list"))
            await timed("id", answered(platform, f"/queue cancel {ids.pop()}"))
            await timed("place", answered(platform, f"/queue cancel {length // 2}"))
            for message in messages:  # back to the length that is measured
                await timed("delete", platform.gateway.deleted(message.address, message.id))
            await filled(platform, 2)
        began = time.perf_counter()
        hold.release()
        await until(lambda: len(bed.model.requests) == 2)
        batch = time.perf_counter() - began
        await platform.settled()
    await store.close()
    medians = {title: statistics.median(some) for title, some in times.items()}
    medians["more"] /= BLOCK
    return [f"{figure * 1e6:9,.0f} µs" for figure in (*medians.values(), batch / length)]


async def filled(platform: FakePlatform, count: int) -> None:
    """So many messages more wait."""
    await asyncio.gather(*(platform.say(f"message {number}") for number in range(count)))


async def answered(platform: Platform, text: str) -> None:
    """A command, until its answer is sent."""
    platform.sending.clear()
    await platform.say(text)
    await platform.sending.wait()


async def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument(
        "--only", default="", help="of the interrupts, those whose title has this in it; 'queue' for none"
    )
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        await serve()
        return
    if given.only != "queue":
        await interrupts(given.rounds, given.only)
    if given.only in ("", "queue"):
        await queues(given.rounds)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
