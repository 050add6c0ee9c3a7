"""The HTTP side of the Telegram fake: requests in, answers out, connections that are cut on demand."""

from __future__ import annotations

import asyncio
import contextlib
import email.parser
import email.policy
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit

__all__ = ["Answer", "Hung", "Incoming", "Listener", "Upload", "post"]

_LONGEST_HEAD: Final = 64 * 1024


@dataclass(frozen=True)
class Upload:
    """A file that came with a request."""

    name: str
    media_type: str
    content: bytes


@dataclass(frozen=True)
class Incoming:
    """One request: `parameters` as text, JSON values still encoded; `files` by the name of their part."""

    path: str
    parameters: dict[str, str]
    files: dict[str, Upload]
    gone: asyncio.Event


@dataclass(frozen=True)
class Answer:
    """What a request gets; `only`: the connection is dropped after so many bytes of the body."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    only: int | None = None


class Hung(Exception):
    """The connection is dropped in place of an answer."""


class Listener:
    """An HTTP/1.1 server on a free port of loopback; `answer` makes every answer."""

    def __init__(self, answer: Callable[[Incoming], Awaitable[Answer]]) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._port = 0

    @property
    def root(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._tasks)

    async def start(self) -> Self:
        """Listen; after `close` again on the same port."""
        self._server = await asyncio.start_server(
            self._connected, "127.0.0.1", self._port, limit=_LONGEST_HEAD
        )
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def close(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is None:
            return
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, Hung):
            pass
        except asyncio.CancelledError:
            if self._server is not None and self._server.is_serving():
                raise
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        target = urlsplit(head[0].split(" ")[1])
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:])}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        parameters, files = _decoded(headers.get("content-type", ""), body)
        parameters.update(parse_qsl(target.query))
        gone = asyncio.Event()
        watch = asyncio.create_task(_until_gone(reader, gone))
        try:
            answer = await self._answer(Incoming(unquote(target.path), parameters, files, gone))
        finally:
            watch.cancel()
            await asyncio.wait({watch})
        if gone.is_set():
            return False
        lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        lines += [f"date: {formatdate(usegmt=True)}", f"content-length: {len(answer.body)}", "", ""]
        writer.write("\r\n".join(lines).encode("latin-1") + answer.body[: answer.only])
        await writer.drain()
        if answer.only is None:
            return True
        await asyncio.sleep(0)  # what was written leaves before the connection is aborted
        raise Hung


async def _until_gone(reader: asyncio.StreamReader, gone: asyncio.Event) -> None:
    # A client does not pipeline, so anything that can be read before the answer is the end.
    with contextlib.suppress(ConnectionError):
        if await reader.read(1):
            return
    gone.set()


def _decoded(kind: str, body: bytes) -> tuple[dict[str, str], dict[str, Upload]]:
    if kind.startswith("application/json"):
        given = json.loads(body or b"{}")
        return {k: v if isinstance(v, str) else json.dumps(v) for k, v in given.items()}, {}
    if not kind.startswith("multipart/form-data"):
        return dict(parse_qsl(body.decode(), keep_blank_values=True)), {}
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(
        f"content-type: {kind}\r\n\r\n".encode() + body
    )
    parameters: dict[str, str] = {}
    files: dict[str, Upload] = {}
    for part in message.iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes)
        filename = part.get_filename()
        if filename is None:
            parameters[name] = content.decode()
        else:
            files[name] = Upload(filename, part.get_content_type(), content)
    return parameters, files


async def post(url: str, value: Any, headers: Mapping[str, str]) -> int:
    """POST `value` as JSON; gives the status. `OSError` where nobody answers."""
    target = urlsplit(url)
    body = json.dumps(value).encode()
    reader, writer = await asyncio.open_connection(target.hostname, target.port)
    try:
        lines = [f"POST {target.path or '/'} HTTP/1.1", f"host: {target.netloc}", "connection: close"]
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
        lines += [f"{name}: {content}" for name, content in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()
        answer = await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    if not answer:
        raise ConnectionError("the connection was closed without an answer")
    return int(answer.split(b" ", 2)[1])
