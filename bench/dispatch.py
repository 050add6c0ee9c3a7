"""Dispatch: messages a second from the adapter's call to the handler, on the store in memory.

Against a bare asyncio lane per conversation that looks the first word up in a dict and awaits the
handler; both get the same prepared messages, and the handlers keep what they got. Then the same with an
answer to every message that goes through the outbox to the platform, which the bare lane has none of.
Also what 500 commands cost against 5.

Messages come one by one, each in its own turn of the event loop, as sockets deliver them; and once more
as a burst that is handed over without the loop turning at all, where the bare lane never has to wake
anything. Prints ratios from one run; the figures alone mean nothing on a shared machine.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from hermes_core.adapter import Adapter, AdapterFactory, Features, Gateway, Sent, Shown
from hermes_core.commands import Command, Context, Rest, command
from hermes_core.config import Config
from hermes_core.hookspecs import Answer, hookimpl
from hermes_core.messages import Address, Author, Entry, Message, Outgoing
from hermes_core.plugins import Plugins
from hermes_core.runtime import Runtime
from hermes_core.testing.memory import MemoryStore
from hermes_core.testing.model import ScriptedModel

MESSAGES = 10_000
CONVERSATIONS = 100
ROUNDS = 7


def messages() -> list[Message]:
    """A third /echo, the rest plain text, round-robin over the conversations."""
    addresses = [Address("bench", "me", str(number)) for number in range(CONVERSATIONS)]
    author = Author("ann")
    return [
        Message(
            str(number),
            addresses[number % CONVERSATIONS],
            author,
            f"{'hi' if number % 3 else '/echo'} {number}",
        )
        for number in range(MESSAGES)
    ]


async def bare(prepared: list[Message], burst: bool) -> float:
    """The floor: a queue and a task per conversation, a dict, an await."""
    answers: list[tuple[Address, str]] = []

    async def echo(message: Message, rest: str) -> str:
        return rest

    async def catch_all(message: Message, rest: str) -> str:
        return message.text

    handlers: dict[str, Callable[[Message, str], Awaitable[str]]] = {f"/c{n}": echo for n in range(4)} | {
        "/echo": echo
    }
    lanes: dict[Address, asyncio.Queue[Message]] = {}
    done = asyncio.Event()

    async def work(queue: asyncio.Queue[Message]) -> None:
        while True:
            message = await queue.get()
            word, _, rest = message.text.partition(" ")
            answers.append((message.address, await handlers.get(word, catch_all)(message, rest)))
            if len(answers) == len(prepared):
                done.set()

    tasks: list[asyncio.Task[None]] = []
    begin = time.perf_counter()
    for message in prepared:
        lane = lanes.get(message.address)
        if lane is None:
            lane = lanes[message.address] = asyncio.Queue()
            tasks.append(asyncio.create_task(work(lane)))
        await lane.put(message)
        if not burst:
            await asyncio.sleep(0)
    await done.wait()
    took = time.perf_counter() - begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return took


class Platform:
    """Counts what it is sent."""

    platform = "bench"
    features = Features(once=True)

    def __init__(self) -> None:
        self.answers: list[tuple[Address, str]] = []
        self.wanted = 0
        self.done = asyncio.Event()
        self.gateway: asyncio.Future[Gateway] = asyncio.get_running_loop().create_future()

    async def run(self, gateway: Gateway) -> None:
        self.gateway.set_result(gateway)
        await asyncio.Event().wait()

    async def send(self, outgoing: Outgoing) -> Sent:
        self.got(outgoing.address, outgoing.text)
        return Sent()

    def got(self, address: Address, text: str) -> None:
        self.answers.append((address, text))
        if len(self.answers) == self.wanted:
            self.done.set()

    def show(self, address: Address, shown: Shown) -> None: ...

    async def find(self, key: str, address: Address) -> Sent | None:
        return None

    @hookimpl
    def hermes_adapters(self) -> Iterable[AdapterFactory]:
        def open_(options: Mapping[str, Any]) -> Adapter:
            return self

        return [AdapterFactory("bench", open_)]


class Plugin:
    """`/echo`, other commands, and a catch-all for every message that is no command."""

    def __init__(self, commands: int, platform: Platform, answers: bool) -> None:
        self._count = commands
        self._platform = platform
        self._answers = answers

    def _got(self, address: Address, text: str) -> str:
        if self._answers:
            return text
        self._platform.got(address, text)
        return ""

    @hookimpl
    def hermes_commands(self) -> Iterable[Command]:
        async def echo(context: Context, text: Rest) -> str:
            return self._got(context.address, text)

        made = command("echo", help="Say it again.")
        return [made(echo), *(command(f"c{n}", help="Another.")(echo) for n in range(self._count - 1))]

    @hookimpl
    async def hermes_message(self, entry: Entry) -> Answer:
        return Answer(self._got(entry.address, entry.text))


async def hermes(prepared: list[Message], commands: int, burst: bool, answers: bool = False) -> float:
    """The whole way through a runtime."""
    platform = Platform()
    plugins = Plugins()
    plugins.add("platform", platform)
    plugins.add("scripted", ScriptedModel())
    plugins.add("bench", Plugin(commands, platform, answers))
    with tempfile.TemporaryDirectory() as folder:
        tables = {
            "runtime": {"data_dir": folder},
            "model": {"provider": "scripted"},
            "access": {"allow": ["*"], "per_minute": 0},
        }
        runtime = Runtime(Config.of(tables), adapters=["bench"], store=MemoryStore(), plugins=plugins)
        async with runtime:
            running = asyncio.create_task(runtime.run())
            gateway = await platform.gateway
            platform.wanted = len(prepared)
            begin = time.perf_counter()
            for message in prepared:
                await gateway.receive(message)
                if not burst:
                    await asyncio.sleep(0)
            await platform.done.wait()
            took = time.perf_counter() - begin
            runtime.stop()
            await running
    assert [text for _, text in sorted(platform.answers, key=lambda one: int(one[1].split()[-1]))] == [
        message.text.removeprefix("/echo ") for message in prepared
    ]
    return took


def main() -> None:
    """Print the table."""
    prepared = messages()
    for title, burst in (("one by one", False), ("burst", True)):
        floor: list[float] = []
        few: list[float] = []
        many: list[float] = []
        answered: list[float] = []
        for _ in range(ROUNDS):
            for figures, run in (
                (floor, bare(prepared, burst)),
                (few, hermes(prepared, 5, burst)),
                (many, hermes(prepared, 500, burst)),
                (answered, hermes(prepared, 5, burst, answers=True)),
            ):
                gc.collect()
                figures.append(asyncio.run(run))
        a, b, c, d = (statistics.median(one) for one in (floor, few, many, answered))
        print(f"{title}")
        print(f"  bare lane            {MESSAGES / a:>10,.0f} messages/s")
        print(f"  hermes, 5 commands   {MESSAGES / b:>10,.0f} messages/s   {a / b:6.1%} of the bare lane")
        print(f"  hermes, 500 commands {MESSAGES / c:>10,.0f} messages/s   {b / c:6.1%} of 5 commands")
        print(f"  … and answered       {MESSAGES / d:>10,.0f} messages/s   {a / d:6.1%} of the bare lane")


if __name__ == "__main__":
    if "--profile" in sys.argv:
        import cProfile

        cProfile.run("asyncio.run(hermes(messages(), 5, burst=False))", sort="tottime")
    else:
        main()
