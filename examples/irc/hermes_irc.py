"""IRC: a whole adapter for a platform that Hermes does not ship, over the protocol itself.

IRC is a line at a time: no ids, no edits, no history, no word on whether a line arrived. So this adapter
declares little, and shows how to be honest about it. A private conversation is an address, and so is each
channel. In channels the agent is meant by `nick: …`. A line that begins with `!` is a command, because
clients keep those with `/` for themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import msgspec

from hermes_core.adapter import Adapter, AdapterFactory, Features, Gateway, Sent, Shown
from hermes_core.config import Secrets
from hermes_core.errors import ConfigError, SendError, StoreUnwritable
from hermes_core.hookspecs import hookimpl
from hermes_core.markup import Dialect, Style, parse, split, utf8
from hermes_core.messages import Address, Author, Message, Outgoing

__all__ = ["IrcAdapter", "IrcPlugin", "IrcSettings"]

MAX_TEXT: Final = (
    400  # bytes; RFC 2812 allows 512 for the whole line as others get it, with our mask in front
)
PATIENCE: Final = 30.0  # seconds in which a server answers a PING
IDLE: Final = 90.0  # seconds of silence after which it is asked whether it is still there
BURST: Final = (
    5  # lines at once; servers end the connection of who floods (RFC 1459 8.10: one in two seconds)
)
CLOSED: Final = frozenset({"401", "403", "404", "442"})  # nobody there, no such channel, not allowed to write
IRC: Final = Dialect(
    name="irc",
    strong=Style("\x02", "\x02"),
    emphasis=Style("\x1d", "\x1d"),
    strike=Style("\x1e", "\x1e"),
    quote_prefix="> ",
)


class IrcSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[adapters.irc]`. `channels` are joined; `every`: seconds between two lines once five were sent at once."""

    server: str = "127.0.0.1"
    port: int = 6697
    tls: bool = True
    nick: str = "hermes"
    password_env: str = ""
    channels: tuple[str, ...] = ()
    every: Annotated[float, msgspec.Meta(ge=0)] = 2.0
    secrets: Secrets = msgspec.field(default_factory=Secrets)


class Line(msgspec.Struct, frozen=True):
    """One line of the protocol: who it is from, the command, its arguments."""

    source: str
    command: str
    arguments: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Line:
        """What the server sent, tags left out."""
        if text.startswith("@"):
            text = text.partition(" ")[2]
        source = ""
        if text.startswith(":"):
            source, _, text = text[1:].partition(" ")
        head, colon, last = text.partition(" :")
        words = head.split()
        return cls(source, words[0].upper() if words else "", (*words[1:], *([last] if colon else [])))


class IrcAdapter:
    """One connection. `run` fails when it is lost, and the runtime starts it again with back-off."""

    platform = "irc"
    features = Features(max_text=MAX_TEXT)

    def __init__(self, settings: IrcSettings, password: str | None) -> None:
        self._settings = settings
        self._password = password
        self._nick = settings.nick
        self._writer: asyncio.StreamWriter | None = None
        self._in = asyncio.Event()  # registered, and in its channels
        self._sending = asyncio.Lock()
        self._pongs: dict[str, asyncio.Future[str]] = {}
        self._numbers = itertools.count(1)
        self._full = 0.0  # when the last of the lines sent so far is due

    # -- the connection

    async def run(self, gateway: Gateway) -> None:
        """Register, join, and take in what is said until the connection is lost or this is cancelled."""
        settings = self._settings
        context = ssl.create_default_context() if settings.tls else None
        reader, writer = await asyncio.open_connection(settings.server, settings.port, ssl=context)
        self._writer, self._nick = writer, settings.nick
        try:
            if self._password is not None:
                self._write(f"PASS {self._password}")
            self._write(f"NICK {self._nick}")
            self._write(f"USER {settings.nick} 0 * :Hermes")
            while True:
                line = Line.parse(await self._read(reader))
                await self._heard(line, gateway)
        finally:
            self._writer = None
            self._in.clear()
            for pong in self._pongs.values():
                if not pong.done():
                    pong.set_exception(SendError("The connection to the IRC server broke.", unknown=True))
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> str:
        for quiet in (False, True):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE if quiet else IDLE):
                    raw = await reader.readline()
                if not raw:
                    break
                return raw.decode("utf-8", "replace").rstrip("\r\n")
            self._write("PING :still-there")
        raise ConnectionError("the IRC server closed the connection or is silent")

    async def _heard(self, line: Line, gateway: Gateway) -> None:
        match line.command:
            case "PING":
                self._write(f"PONG :{line.arguments[-1]}")
            case "PONG":
                self._answered(line.arguments[-1], "")
            case "001":
                for channel in self._settings.channels:
                    self._write(f"JOIN {channel}")
                self._in.set()
                gateway.ready()
            case "433" | "436" if not self._in.is_set():  # the name is taken
                self._nick += "_"
                self._write(f"NICK {self._nick}")
            case "464" | "465":
                raise ConfigError("[adapters.irc]: the server lets this agent not in.", "Check password_env.")
            case "PRIVMSG" if len(line.arguments) == 2:
                await self._said(line, gateway)
            case number if number in CLOSED:
                for token in list(self._pongs):
                    self._answered(token, line.arguments[-1])

    async def _said(self, line: Line, gateway: Gateway) -> None:
        target, text = line.arguments
        nick = line.source.partition("!")[0]
        group = target.startswith(("#", "&", "+", "!"))
        if group:
            called, colon, rest = text.partition(" ")
            if called.rstrip(":,").casefold() != self._nick.casefold() or called[-1:] not in (":", ","):
                return  # X4: not for the agent
            text = rest if colon else ""
        if text.startswith("!"):
            text = f"/{text[1:]}"
        # The whole mask: whoever takes another's nick comes from elsewhere (X1)
        author = Author(line.source, nick)
        id_ = f"{time.time_ns()}-{next(self._numbers)}"
        place = target.casefold() if group else nick.casefold()
        message = Message(id_, self.address(place), author, text, group=group, sent=time.time())
        with contextlib.suppress(StoreUnwritable):  # the gateway has told people; IRC delivers nothing again
            await gateway.receive(message)

    def address(self, place: str) -> Address:
        """The conversation in this channel, or with this nick."""
        return Address(self.platform, self._settings.server, place)

    # -- sending

    async def send(self, outgoing: Outgoing) -> Sent:
        """Send every line, and wait until the server has read them: it answers a PING in their order."""
        lines = [
            line
            for part in split(parse(_plain(outgoing.text)), IRC, MAX_TEXT, utf8)
            for line in part.text.split("\n")
            if line.strip()
        ]
        if outgoing.repeat and lines:
            lines[0] = f"(may be a repeat) {lines[0]}"
        async with self._sending:
            await self._in.wait()
            token = f"h{next(self._numbers)}"
            pong = self._pongs[token] = asyncio.get_running_loop().create_future()
            try:
                for line in lines:
                    await self._pace()
                    self._write(f"PRIVMSG {outgoing.address.channel} :{line}", unknown=line is not lines[0])
                self._write(f"PING :{token}", unknown=True)
                async with asyncio.timeout(PATIENCE):
                    refused = await pong
            except TimeoutError as error:
                raise SendError("The IRC server does not answer.", unknown=True) from error
            finally:
                self._pongs.pop(token).cancel()
        if refused:
            raise SendError(f"The IRC server refuses: {refused}.", permanent=True)
        return Sent()

    async def _pace(self) -> None:
        """Wait for this line's turn."""
        now = asyncio.get_running_loop().time()
        every = self._settings.every
        self._full = max(self._full, now) + every
        await asyncio.sleep(max(0.0, self._full - now - BURST * every))

    def _write(self, line: str, *, unknown: bool = False) -> None:
        if self._writer is None or self._writer.is_closing():
            raise SendError("The connection to the IRC server broke.", unknown=unknown)
        self._writer.write(f"{line}\r\n".encode())

    def _answered(self, token: str, refused: str) -> None:
        pong = self._pongs.get(token)
        if pong is not None and not pong.done():
            pong.set_result(refused)

    def show(self, address: Address, shown: Shown) -> None:
        """IRC shows nothing in passing."""

    async def find(self, key: str, address: Address) -> Sent | None:
        """IRC keeps nothing."""
        return None


def _plain(text: str) -> str:
    """`text` without what ends a line or begins a colour."""
    return "".join(one for one in text.replace("\r", "\n") if one >= " " or one in "\n\t")


class IrcPlugin:
    """Brings the adapter."""

    Settings = IrcSettings

    def __init__(self, settings: IrcSettings) -> None:
        self._settings = settings

    @hookimpl
    def hermes_adapters(self) -> Iterable[AdapterFactory]:
        """One."""
        return [AdapterFactory("irc", self._open)]

    def _open(self, options: Mapping[str, Any]) -> Adapter:
        settings = self._settings
        return IrcAdapter(settings, settings.secrets.read("adapters.irc.password_env", settings.password_env))
