"""Three fake platforms, a model server, and `hermes run` as a process that serves all of them at once."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import fcntl
import importlib.util
import json
import os
import pty
import random
import signal
import struct
import sys
import termios
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import psutil
import tomli_w

with warnings.catch_warnings():  # discord.py imports audioop, which Python 3.13 no longer has
    warnings.filterwarnings("ignore", "'audioop' is deprecated", DeprecationWarning)
    import discord as _  # noqa: F401

from hermes_core.testing.driver import until
from hermes_core.testing.model_server import Answer, ModelServer, says
from hermes_core.testing.platforms.discord import FakeDiscord
from hermes_core.testing.platforms.slack import FakeSlack
from hermes_core.testing.platforms.telegram import Fault, TelegramServer, flood
from hermes_core.testing.platforms.telegram_rules import Refusal

__all__ = ["Discord", "Platform", "Slack", "Stage", "Telegram", "Terminal", "echo", "shown"]

Talk = Callable[[dict[str, Any]], Answer]


class Platform(Protocol):
    """A platform as these tests use it; conversations are direct chats with numbers."""

    name: str

    def settings(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Its section of the config, and what the environment holds."""

    def writer(self, chat: int) -> str:
        """The stable id of who writes in this chat."""

    async def say(self, chat: int, text: str) -> None:
        """Write there."""

    def texts(self, chat: int) -> list[str]:
        """What the agent's messages there say now, oldest first."""

    async def trouble(self, dice: random.Random) -> None:
        """Misbehave once, as this platform does."""


class Slack:
    """Socket Mode."""

    name = "slack"

    def __init__(self, fake: FakeSlack) -> None:
        self.fake = fake

    def settings(self) -> tuple[dict[str, Any], dict[str, str]]:
        own = {"base_url": self.fake.base_url}
        return own, {"SLACK_BOT_TOKEN": self.fake.bot_token, "SLACK_APP_TOKEN": self.fake.app_token}

    def writer(self, chat: int) -> str:
        return "UANN"

    async def say(self, chat: int, text: str) -> None:
        place = f"D{chat:05d}"
        lost = [one for one in self.fake.unacked() if f'"{place}"' in json.dumps(one.body)]
        for one in lost:  # whoever writes again later than Slack's first retry finds the order kept
            await self.fake.redeliver(one)
        self.fake.world.say(place, "UANN", text)
        await self.fake.flush()

    def texts(self, chat: int) -> list[str]:
        return self.fake.texts(f"D{chat:05d}")

    async def trouble(self, dice: random.Random) -> None:
        fake, method = self.fake, dice.choice(["chat.postMessage", "chat.postMessage", "chat.update"])
        match dice.randrange(7):
            case 0:
                fake.refuse(method, "ratelimited", retry_after=1)
            case 1:
                fake.refuse(method, status=503)
            case 2:
                fake.cut(method, dice.choice(["before", "after"]))
            case 3:
                await fake.drop()
                await fake.connected(1)
                await fake.redeliver()  # Slack's first retry comes at once, before people write more
            case 4:
                await fake.refresh()
            case 5 if fake.envelopes:
                await fake.redeliver(dice.choice(fake.envelopes[-50:]))
            case _:
                await fake.redeliver()  # what was never acknowledged comes again


class Telegram:
    """Polling."""

    name = "telegram"

    def __init__(self, fake: TelegramServer) -> None:
        self.fake = fake
        self._said: list[dict[str, Any]] = []

    def settings(self) -> tuple[dict[str, Any], dict[str, str]]:
        own = {"base_url": self.fake.base_url, "paced": False}
        return own, {"TELEGRAM_BOT_TOKEN": self.fake.token}

    def writer(self, chat: int) -> str:
        return str(1000 + chat)

    async def say(self, chat: int, text: str) -> None:
        self.fake.chat(1000 + chat)
        self._said.append(self.fake.say(text, 1000 + chat, 1000 + chat))

    def texts(self, chat: int) -> list[str]:
        return self.fake.texts(1000 + chat)

    async def trouble(self, dice: random.Random) -> None:
        method = dice.choice(["sendMessage", "sendMessage", "editMessageText", "getUpdates"])
        if self.fake.failing(method):  # polls that fail come seldom: their troubles would pile up without end
            return
        match dice.randrange(4):
            case 0:
                self.fake.fail(method, Fault(flood(1)))
            case 1:
                self.fake.fail(method, Fault(Refusal(502, "Bad Gateway")))
            case 2:
                self.fake.fail(method, Fault(cut=dice.choice(["before", "after"])))
            case _ if self._said:
                self.fake.repeat(dice.choice(self._said[-50:]))


class Discord:
    """The gateway."""

    name = "discord"

    def __init__(self, fake: FakeDiscord) -> None:
        self.fake = fake
        self._chats: dict[int, str] = {}

    def settings(self) -> tuple[dict[str, Any], dict[str, str]]:
        own = {
            "base_url": self.fake.base_url,
            "gateway_url": self.fake.gateway_url,
            "requests": 1000.0,
        }
        return own, {"DISCORD_BOT_TOKEN": self.fake.token}

    def _chat(self, chat: int) -> str:
        if chat not in self._chats:
            self._chats[chat] = self.fake.direct(f"p{chat}")
        return self._chats[chat]

    def writer(self, chat: int) -> str:
        return str(self.fake.person(f"p{chat}")["id"])

    async def say(self, chat: int, text: str) -> None:
        await self.fake.say(self._chat(chat), f"p{chat}", text)

    def texts(self, chat: int) -> list[str]:
        return self.fake.texts(self._chat(chat))

    async def trouble(self, dice: random.Random) -> None:
        fake = self.fake
        method = dice.choice(["POST", "POST", "PATCH"])
        match dice.randrange(6):
            case 0:
                fake.limit(method, "/messages", 0.5)
            case 1:
                fake.fail(method, "/messages", dice.choice([500, 502, 503]))
            case 2:
                fake.fail(method, "/messages", cut=dice.choice(["before", "after"]))
            case 3:
                fake.gateway.cut()
            case 4:
                await fake.gateway.hang_up(4000)
            case _:
                chat = dice.choice(list(self._chats.values()) or [""])
                people = [
                    one
                    for one in fake.world.messages.get(chat, {}).values()
                    if one["author"]["id"] != fake.me["id"]
                ]
                if people:
                    again = fake.world.message(chat, dice.choice(people)["id"])
                    await fake.tell("MESSAGE_CREATE", again)


class Terminal:
    """The terminal in which the program was started: one conversation, and one text, which is the screen."""

    name = "terminal"
    columns, rows = 200, 50

    def __init__(self) -> None:
        file = Path(__file__).parents[2] / "adapters/terminal/tests/virtual_terminal.py"
        spec = importlib.util.spec_from_file_location("virtual_terminal", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.screen = module.Screen(self.columns, self.rows)
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", self.rows, self.columns, 0, 0))
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        asyncio.get_running_loop().add_reader(self.master, self._read)

    def settings(self) -> tuple[dict[str, Any], dict[str, str]]:
        return {}, {"TERM": "xterm-256color"}

    def writer(self, chat: int) -> str:
        return "local"

    async def say(self, chat: int, text: str) -> None:
        os.write(self.master, f"{text}\r".encode())

    def texts(self, chat: int) -> list[str]:
        return [self.screen.text]

    async def trouble(self, dice: random.Random) -> None:
        """It has none."""

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            self.screen.feed(self._decoder.decode(os.read(self.master, 1 << 16)))

    def close(self) -> None:
        """Take it away."""
        asyncio.get_running_loop().remove_reader(self.master)
        os.close(self.master)
        os.close(self.slave)


def echo(body: dict[str, Any]) -> Answer:
    """Says the last message of the user again, in three pieces."""
    told = next(one["content"] for one in reversed(body["messages"]) if one["role"] == "user")
    third = max(1, len(told) // 3)
    return says("you said: ", told[:third], told[third:])


class Stage:
    """`async with Stage(folder) as stage`: everything runs and is ready."""

    def __init__(
        self,
        folder: Path,
        model: Talk | None = echo,
        *,
        terminal: bool = False,
        context_chars: int = 400_000,
        **tables: Mapping[str, Any],
    ) -> None:
        self.folder = folder
        self.model = ModelServer(model) if model is not None else None
        self.platforms: dict[str, Platform] = {}
        self.process: asyncio.subprocess.Process
        self.took = 0.0  # seconds until the ready line
        self.example: Path | None = None
        self.environ: dict[str, str] = {}
        self._context_chars = context_chars
        self._tables = tables
        self._with_terminal = terminal
        self._terminal: Terminal | None = None
        self._stack = contextlib.AsyncExitStack()
        self._log = folder / "log"

    async def __aenter__(self) -> Self:
        stack = self._stack
        if self.model is not None:
            await stack.enter_async_context(self.model)
        places: list[Platform] = [
            Slack(await stack.enter_async_context(FakeSlack())),
            Telegram(await stack.enter_async_context(TelegramServer())),
            Discord(await stack.enter_async_context(FakeDiscord())),
        ]
        if self._with_terminal:
            self._terminal = Terminal()
            stack.callback(self._terminal.close)
            places.append(self._terminal)
        self.platforms = {one.name: one for one in places}
        stack.push_async_callback(self.end)
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def start(self) -> None:
        """Start the program, and wait for its ready line."""
        config: dict[str, Any] = {
            "runtime": {"data_dir": str(self.folder / "data")},
            "access": {
                "allow": ["*"],
                "per_minute": 0,  # in Slack all is written by one person
                "owners": [f"{one.name}:{one.writer(1)}" for one in self.platforms.values()],
            },
            "adapters": {},
        }
        if self.model is not None:
            config["model"] = {"provider": "openai", "name": "m", "base_url": self.model.base_url}
            config["model"]["context_chars"] = self._context_chars
        environ = {name: value for name, value in os.environ.items() if not name.startswith("HERMES")}
        for one in self.platforms.values():
            config["adapters"][one.name], secrets = one.settings()
            environ |= secrets
        for name, table in self._tables.items():
            config[name] = {**config.get(name, {}), **table}
        file = self.folder / "hermes.toml"
        file.write_text(tomli_w.dumps(config))
        if self.example is not None:  # its own config; only the addresses of the servers are ours
            file = self.example
            environ |= _pointed(config)
        environ |= self.environ
        before = self.log().count("ready: ")
        began = asyncio.get_running_loop().time()
        with self._log.open("ab") as log:
            terminal = self._terminal.slave if self._terminal is not None else None
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "hermes_core", "run", "--config", str(file), env=environ, cwd=self.folder,
                stdin=terminal or asyncio.subprocess.DEVNULL, stdout=terminal or log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        await until(
            lambda: self.log().count("ready: ") > before or self.process.returncode is not None,
            "the program is ready",
            lambda: self.log()[-3000:],
            30.0,
        )
        self.took = asyncio.get_running_loop().time() - began
        assert self.process.returncode is None, self.log()

    async def end(self, number: int = signal.SIGTERM) -> int:
        """Stop the program; gives its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(15):
            return await self.process.wait()

    def log(self) -> str:
        """All that it wrote."""
        return self._log.read_text() if self._log.exists() else ""

    def memory(self) -> int:
        """Its resident bytes, without its children."""
        found: int = psutil.Process(self.process.pid).memory_info().rss
        return found


def _pointed(config: dict[str, Any]) -> dict[str, str]:
    """The addresses of `config` and the data folder as variables; an example names the usual ones for secrets."""
    found = {"HERMES__RUNTIME__DATA_DIR": config["runtime"]["data_dir"]}
    found["HERMES__MODEL__BASE_URL"] = config["model"]["base_url"]
    for name, table in config["adapters"].items():
        for key in ("base_url", "gateway_url"):
            if key in table:
                found[f"HERMES__ADAPTERS__{name.upper()}__{key.upper()}"] = table[key]
    return found


def shown(value: object) -> str:
    """For messages of failed checks."""
    return json.dumps(value, ensure_ascii=False, indent=1)
