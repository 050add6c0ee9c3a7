"""Platforms: from the raw payload on the socket to the HTTP call that answers it, against the client library alone.

The platform is a strict fake in a process of its own. The bot is another process: either the library as its
documentation shows it (slack-bolt, python-telegram-bot, discord.py) with a handler that answers each message,
or Hermes with the same library, a real store (SQLite, FULL) and a plugin that answers each message. A third of
the messages are a command. Both take turns. Three figures of each: what one message takes that comes alone, how
many a second get through when many come at once, each in one of 200 conversations, and how long a processor
worked in the bot for each of these; that one says most on a machine with other work.

    bench/platforms.py [--rounds N] [--messages N] [--only slack|telegram|discord]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

CHATS = 200
ALONE = 40
LOOK = 0.001  # seconds; the times are the platform's own, and one that spins would take a core from the bot
BOTS = Path(__file__).with_name("platform_bots.py")
SETTLE = 0.3  # seconds; what follows from the last answers is work too
TARGETS = {"slack": 1.2, "telegram": 0.8, "discord": 0.6}


class Side(Protocol):
    """A fake platform, as this benchmark uses it."""

    place: dict[str, str]

    async def ready(self) -> None: ...

    async def say(self, chat: int, text: str) -> None: ...

    def answered(self) -> list[float]:
        """When each answer came in, by the monotonic clock."""

    def acked(self) -> list[float]:
        """Seconds from each delivery to its acknowledgement, where the platform waits for one."""


class Seen:
    """The times of the calls that count, each call looked at once."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._looked = 0

    def of(self, calls: list[Any], counts: Callable[[Any], bool]) -> list[float]:
        for one in calls[self._looked :]:
            if counts(one):
                self._times.append(one.at)
        self._looked = len(calls)
        return self._times


class Slack:
    def __init__(self, fake: Any) -> None:
        self.fake = fake
        self.seen = Seen()
        self.place = {"base_url": fake.base_url, "token": fake.bot_token, "app": fake.app_token}
        for chat in range(
            CHATS
        ):  # else Slack refuses the answer to a command that is the first thing in its chat
            fake.world.channel(f"D{chat:05d}")

    async def ready(self) -> None:
        await self.fake.connected(1)

    async def say(self, chat: int, text: str) -> None:
        if text.startswith("/"):  # commands are slash commands there
            command, _, rest = text.partition(" ")
            await self.fake.slash(f"D{chat:05d}", "UANN", command, rest)
        else:
            self.fake.world.say(f"D{chat:05d}", "UANN", text)
        await self.fake.flush()

    def answered(self) -> list[float]:
        return self.seen.of(self.fake.calls, lambda one: one.method == "chat.postMessage")

    def acked(self) -> list[float]:
        return [one.acked - one.sent for one in self.fake.envelopes if one.acked is not None]


class Telegram:
    def __init__(self, fake: Any) -> None:
        self.fake = fake
        self.seen = Seen()
        self.place = {"base_url": fake.base_url, "token": fake.token}

    async def ready(self) -> None:
        """What is written before the first poll waits for it."""

    async def say(self, chat: int, text: str) -> None:
        self.fake.chat(1000 + chat)
        self.fake.say(text, 1000 + chat, 1000 + chat)

    def answered(self) -> list[float]:
        return self.seen.of(self.fake.calls, lambda one: one.method.lower() == "sendmessage")

    def acked(self) -> list[float]:
        return []


class Discord:
    def __init__(self, fake: Any) -> None:
        self.fake = fake
        self.seen = Seen()
        self.place = {"base_url": fake.base_url, "gateway_url": fake.gateway_url, "token": fake.token}
        self.chats: list[str] = [fake.direct(f"p{n}") for n in range(CHATS)]

    async def ready(self) -> None:
        """Who says ready is connected."""

    async def say(self, chat: int, text: str) -> None:
        await self.fake.say(self.chats[chat], f"p{chat}", text)

    def answered(self) -> list[float]:
        return self.seen.of(
            self.fake.requests, lambda one: one.method == "POST" and one.path.endswith("/messages")
        )

    def acked(self) -> list[float]:
        return []


async def measure(side: Side, messages: int, bot: int) -> dict[str, Any]:
    """Talk to the bot that is connected, the process `bot`; times in seconds."""
    alone = []
    for number in range(ALONE):
        before = len(side.answered())
        began = time.monotonic()
        await side.say(number % CHATS, _text(number))
        await _until(lambda before=before: len(side.answered()) > before)  # type: ignore[misc]
        alone.append(side.answered()[-1] - began)
    before = len(side.answered())
    worked = _worked(bot)
    began = time.monotonic()
    for number in range(messages):
        await side.say(number % CHATS, _text(number))
    await _until(lambda: len(side.answered()) >= before + messages)
    took = side.answered()[before + messages - 1] - began
    await asyncio.sleep(SETTLE)
    return {
        "alone": statistics.median(alone),
        "through": messages / took,
        "cpu": (_worked(bot) - worked) / messages,
        "acked": side.acked()[:ALONE],
    }


def _worked(process: int) -> float:
    """Seconds of a processor that all threads of this process had; other programs do not change them much."""
    return (
        sum(int(one.read_text().split()[0]) for one in Path(f"/proc/{process}/task").glob("*/schedstat"))
        / 1e9
    )


def _text(number: int) -> str:
    return f"{'hi' if number % 3 else '/command1'} {number}"


async def _until(check: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not check():
        if time.monotonic() > end:
            raise TimeoutError("the bot does not answer")
        await asyncio.sleep(LOOK)


async def serve(platform: str, bot: str, commands: int, messages: int) -> None:
    """One run: the platform here, the bot as a child."""
    side: Side
    if platform == "slack":
        from hermes_core.testing.platforms.slack import FakeSlack

        server: Any = FakeSlack()
        make: Callable[[Any], Side] = Slack
    elif platform == "telegram":
        from hermes_core.testing.platforms.telegram import TelegramServer

        server, make = TelegramServer(), Telegram
    else:
        from hermes_core.testing.platforms.discord import FakeDiscord

        server, make = FakeDiscord(), Discord
    async with server as fake:
        side = make(fake)
        with tempfile.TemporaryDirectory(dir=".") as folder:
            child = await asyncio.create_subprocess_exec(
                sys.executable, str(BOTS), bot, platform, str(commands), folder, json.dumps(side.place),
                stdout=subprocess.PIPE,
            )  # fmt: skip
            try:
                assert child.stdout is not None
                async with asyncio.timeout(30):
                    assert (await child.stdout.readline()).strip() == b"ready", "the bot did not start"
                await side.ready()
                print(json.dumps(await measure(side, messages, child.pid)))
            finally:
                child.kill()
                await child.wait()


def once(platform: str, bot: str, commands: int, messages: int) -> dict[str, Any]:
    """One run, in processes of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--serve", platform, bot, str(commands), "--messages", str(messages)],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    read: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=600)
    parser.add_argument("--only", choices=sorted(TARGETS))
    parser.add_argument("--serve", nargs=3)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given.serve[0], given.serve[1], int(given.serve[2]), given.messages))
        return
    for platform in [given.only] if given.only else sorted(TARGETS):
        runs: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for _ in range(given.rounds):
            for bot, commands in (("bare", 5), ("hermes", 5), ("hermes", 500), ("bare", 500)):
                runs.setdefault((bot, commands), []).append(once(platform, bot, commands, given.messages))
        report(platform, runs)


def report(platform: str, runs: dict[tuple[str, int], list[dict[str, Any]]]) -> None:
    """One platform's table: medians, and ratios of runs that stood side by side."""
    print(f"\n{platform} (target {TARGETS[platform]} of the library alone)")
    for (bot, commands), found in runs.items():
        alone = statistics.median(one["alone"] for one in found) * 1000
        through = statistics.median(one["through"] for one in found)
        acks = [ack for one in found for ack in one["acked"]]
        ack = f", ack p50 {statistics.median(acks) * 1000:.2f} ms" if acks else ""
        cpu = statistics.median(one["cpu"] for one in found) * 1e6
        print(
            f"  {bot:7}{commands:4} commands: one alone {alone:6.2f} ms, {through:7.0f} a second,"
            f" {cpu:6.0f} us of a processor each{ack}"
        )

    def ratio(a: tuple[str, int], b: tuple[str, int], key: str) -> float:
        pairs = zip(runs[a], runs[b], strict=True)
        return statistics.median(one[key] / other[key] for one, other in pairs)

    for commands in (5, 500):
        through = ratio(("hermes", commands), ("bare", commands), "through")
        alone = ratio(("bare", commands), ("hermes", commands), "alone")
        cpu = ratio(("bare", commands), ("hermes", commands), "cpu")
        print(
            f"  hermes / library, {commands} commands: {through:.2f} through ({cpu:.2f} by processor time),"
            f" {alone:.2f} alone"
        )
    print(f"  500 commands / 5: {ratio(('hermes', 500), ('hermes', 5), 'through'):.2f} through")


if __name__ == "__main__":
    main()
