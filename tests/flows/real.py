"""What stories over real sockets, files and processes share: a house, a relay, a look at /proc, checks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core import history
from hermes_core.messages import Item, Message, Said, Step
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Hold
from hermes_core.testing.model_server import Asked, ModelServer
from hermes_openai.plugin import OpenAIPlugin
from hermes_shell.plugin import ShellPlugin, ShellSettings
from hermes_steer.plugin import SteerPlugin

__all__ = [
    "Held",
    "Relay",
    "accepted",
    "answers",
    "certificate",
    "check_anthropic",
    "check_openai",
    "environment",
    "house",
    "living",
    "past",
    "said",
    "tls",
    "until",
]

Tables = Mapping[str, Mapping[str, Any]]


class Held:
    """A store whose calls can be made to stand still, as on a slow disk: `hold("append")` holds the next one."""

    def __init__(self, store: SQLiteStore) -> None:
        self._store = store
        self._holds: dict[str, Hold] = {}

    def hold(self, name: str) -> Hold:
        """The next call of this name stands here, not yet done, until released."""
        self._holds[name] = Hold()
        return self._holds[name]

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        hold = self._holds.pop(name, None)
        return method if hold is None else _after(hold, method)


def _after(hold: Hold, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def call(*arguments: Any, **named: Any) -> Any:
        await hold.wait()
        return await method(*arguments, **named)

    return call


@contextlib.asynccontextmanager
async def house(
    folder: Path, base_url: str, *plugins: object, tables: Tables | None = None
) -> AsyncIterator[Bed]:
    """A whole runtime: SQLite in `folder`, the model at `base_url`, the shell in `folder`/work; "ann" is its owner.

    `bed.store` is a `Held`. A second house in the same folder goes on where the first stopped.
    """
    work = folder / "work"
    work.mkdir(exist_ok=True)
    store = await SQLiteStore.open(folder / "data")
    config: dict[str, Mapping[str, Any]] = {
        "model": {"provider": "openai", "name": "some-model", "base_url": base_url, "timeout": 30.0},
        "interrupt": {"kill_after": 0.3},
        **(tables or {}),
    }
    first_party = [
        OpenAIPlugin(),
        ShellPlugin(ShellSettings(approval="never", cwd=str(work))),
        BusyPlugin(),
        SteerPlugin(),
        BasicsPlugin(),
    ]
    try:
        held: Any = Held(store)
        async with Bed(folder / "data", plugins=[*first_party, *plugins], config=config, store=held) as bed:
            yield bed
    finally:
        await store.close()


async def until(condition: Callable[[], object], within: float = 10.0) -> None:
    """Wait for something real: `TimeoutError` where `condition` does not hold within so many seconds."""
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.002)


async def accepted(bed: Bed, text: str, author: str = "ann", **more: Any) -> tuple[Message, float]:
    """Write, and give the message with the instant of its commit on the clock of the event loop."""
    loop = asyncio.get_running_loop()
    times: list[float] = []
    message = bed.platform.message(text, author=author, **more)
    await bed.platform.gateway.receive(message, lambda: times.append(loop.time()))
    return message, times[0]


async def answers(bed: Bed, count: int) -> list[str]:
    """Wait until the agent has sent `count` messages and is idle; gives all of them."""
    await until(lambda: len(bed.platform.sent) >= count)
    async with asyncio.timeout(10):
        await bed.platform.settled()
    return bed.platform.texts()


async def past(bed: Bed) -> list[Item]:
    """The items of all turns that stand in the store."""
    records = await bed.store.history(bed.platform.address())
    items = [item for record in records for item in record.items]
    history.check(items)
    return items


# ---- processes


def living(folder: Path) -> list[int]:
    """The processes whose working folder is this one: a command and all that came from it, wherever it went."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # gone, a zombie, or of somebody else
                if (entry / "cwd").readlink() == folder:
                    found.append(int(entry.name))
    return found


# ---- what a request carries


def said(asked: Asked) -> list[str]:
    """The texts in the user role of one request."""
    return [one["content"] for one in asked.body["messages"] if one["role"] == "user"]


def check_openai(server: ModelServer) -> None:
    """OpenAI takes every request that the server got: one result for each call, right behind it, in order."""
    for asked in server.requests:
        ids: set[str] = set()
        messages = list(asked.body["messages"])
        if messages[0]["role"] == "system":
            messages.pop(0)
        assert messages[0]["role"] == "user"
        assert messages[-1]["role"] in ("user", "tool")
        while messages:
            message = messages.pop(0)
            assert message["role"] in ("user", "assistant"), "a result without its call"
            assert message["content"] or message.get("tool_calls"), "an empty message"
            for call in message.get("tool_calls", ()):
                result = messages.pop(0)
                assert (result["role"], result["tool_call_id"]) == ("tool", call["id"])
                assert call["id"] not in ids, "an id used twice"
                ids.add(call["id"])


def check_anthropic(items: Iterable[Item]) -> None:
    """These items make a request that Anthropic takes.

    Roles take turns, the user first and last; what follows a call begins with exactly its results; no
    block of text is blank; ids are unique.
    """
    messages: list[tuple[str, list[tuple[str, str]]]] = []

    def add(role: str, blocks: list[tuple[str, str]]) -> None:
        if messages and messages[-1][0] == role:
            messages[-1][1].extend(blocks)
        elif blocks:
            messages.append((role, blocks))

    for item in items:
        if isinstance(item, Said):
            add("user", [("text", item.text)])
        else:
            assert isinstance(item, Step)
            text = [("text", item.text)] if item.text else []
            add("assistant", [*text, *(("tool_use", call.id) for call in item.calls)])
            add("user", [("tool_result", result.call_id) for result in item.results])
    roles = [role for role, _ in messages]
    assert roles == ["user" if place % 2 == 0 else "assistant" for place in range(len(roles))]
    assert roles[-1:] == ["user"]
    ids: list[str] = []
    for (_, before), (role, blocks) in zip([("", []), *messages], messages, strict=False):
        assert all(value.strip() for kind, value in blocks), "a blank block"
        called = [id_ for kind, id_ in before if kind == "tool_use"]
        if role == "user":
            assert [id_ for kind, id_ in blocks[: len(called)] if kind == "tool_result"] == called
            assert "tool_result" not in [kind for kind, _ in blocks[len(called) :]]
        ids += [id_ for kind, id_ in blocks if kind == "tool_use"]
    assert len(set(ids)) == len(ids)


# ---- the way to the server


def certificate(folder: Path) -> Path:
    """A key and a certificate for 127.0.0.1 that signs itself, in one file."""
    key, cert, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    made = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=test",
    ]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", "req", "-x509", *made, *names], check=True, capture_output=True)
    both.write_bytes(cert.read_bytes() + key.read_bytes())
    return both


def tls(both: Path) -> ssl.SSLContext:
    """The server's side of TLS with this certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(both)
    return context


class Relay:
    """Stands between a client and a server on loopback: as a bare wire to `port`, or as an HTTP proxy (`port` 0).

    `mute` makes its next connection silent, for as long as the client stays: "wire" takes the connection
    and reads, "connect" takes the CONNECT of a proxy and does not answer it, "tunnel" answers it and
    carries nothing. `silent` is set when it has come so far, `left` has the time at which the client left.
    """

    def __init__(self, port: int = 0, mute: str = "") -> None:
        self.mute = mute
        self.silent = asyncio.Event()
        self.left: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.connections = 0
        self._target = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def variables(self) -> dict[str, str]:
        """The environment in which everything goes through this proxy."""
        url = f"http://127.0.0.1:{self.port}"
        return {"HTTP_PROXY": url, "HTTPS_PROXY": url, "NO_PROXY": "", "no_proxy": ""}

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        mute, self.mute = self.mute, ""
        task = asyncio.ensure_future(self._serve(reader, writer, mute))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mute: str) -> None:
        target, begin = self._target, b""
        try:
            if mute == "wire":
                await self._ignore(reader)
                return
            if not target:
                head = await reader.readuntil(b"\r\n\r\n")
                method, url, _ = head.split(b" ", 2)
                target = int(url.removeprefix(b"http://").split(b"/")[0].split(b":")[1])
                if method != b"CONNECT":
                    begin = head
                elif mute != "connect":
                    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            if mute:
                await self._ignore(reader)
                return
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", target)
            up_writer.write(begin)
            ways = [
                asyncio.ensure_future(_carry(reader, up_writer)),
                asyncio.ensure_future(_carry(up_reader, writer)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                up_writer.transport.abort()
        finally:
            writer.transport.abort()

    async def _ignore(self, reader: asyncio.StreamReader) -> None:
        self.silent.set()
        with contextlib.suppress(ConnectionError):
            while await reader.read(65536):
                pass
        self.left.set_result(asyncio.get_running_loop().time())


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


@contextlib.contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a while."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
