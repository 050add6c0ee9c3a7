"""ModelServer: a model server that does exactly what a test or benchmark tells it.

It takes the requests of OpenAI's chat completions and of Anthropic's Messages API.

It listens on a free port of loopback, takes real HTTP requests and plays one `Answer` for each: those
given to `script` first, in order, then what the function handed to the constructor makes of the
request. Nothing is timed by sleeping: an `asyncio.Event` among the parts of an answer holds it there
until it is set (one that is never set is a silent server). Each request is kept as an `Asked`, which
tells when the client left before it had its answer.

    async with ModelServer() as server:
        server.script(says("Good ", "morning"), fails(503))
        model = ...  # with base_url = server.base_url

`python -m hermes_core.testing.model_server --port 0` runs one that answers every request at once, and
prints its port.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import ssl
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Self

__all__ = [
    "DONE",
    "Answer",
    "Asked",
    "Cut",
    "ModelServer",
    "asks",
    "blocks",
    "chunk",
    "event",
    "fails",
    "main",
    "says",
]

DONE: Final = b"data: [DONE]\n\n"
_EVENTS: Final = {"content-type": "text/event-stream"}
_JSON: Final = {"content-type": "application/json"}
_PATHS: Final = ("/chat/completions", "/messages")


@dataclass(frozen=True)
class Cut:
    """Among the parts of an answer: the connection is dropped here, without the end of the body."""


Part = bytes | asyncio.Event | Cut


@dataclass(frozen=True)
class Answer:
    """What one request gets. Each `bytes` part is one HTTP chunk, written by itself.

    `parts` may be endless where the client is to leave. `before` holds even the status line back
    until it is set.
    """

    parts: Iterable[Part] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: _EVENTS)
    before: asyncio.Event | None = None


def chunk(text: str | None = None, *, calls: Any = None, finish: str | None = None, **more: Any) -> bytes:
    """One event of a stream: a delta of text or tool calls. `more` goes beside `choices` (`usage=`, …)."""
    delta = {key: value for key, value in (("content", text), ("tool_calls", calls)) if value is not None}
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}] if delta or finish else []
    return b"data: " + json.dumps({"id": "c", "choices": choices, **more}).encode() + b"\n\n"


def _end(finish: str) -> tuple[bytes, ...]:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}}
    return chunk(finish=finish), chunk(usage=usage), DONE


def says(*pieces: str) -> Answer:
    """A whole answer of text, one chunk a piece; 7 tokens in (2 of them cached), 3 out."""
    return Answer((*map(chunk, pieces), *_end("stop")))


def asks(*calls: tuple[str, str], text: str | None = None) -> Answer:
    """A whole answer that asks for tool calls (name, JSON arguments), the arguments in two pieces."""
    parts: list[Part] = [chunk(text)] if text else []
    for index, (name, arguments) in enumerate(calls):
        half = len(arguments) // 2
        first = {"name": name, "arguments": arguments[:half]}
        parts.append(
            chunk(calls=[{"index": index, "id": f"id-{index}", "type": "function", "function": first}])
        )
        parts.append(chunk(calls=[{"index": index, "function": {"arguments": arguments[half:]}}]))
    return Answer((*parts, *_end("tool_calls")))


def event(kind: str, **data: Any) -> bytes:
    """One event of the Messages API."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


_DELTAS: Final = {
    "text": "text_delta",
    "partial_json": "input_json_delta",
    "thinking": "thinking_delta",
    "signature": "signature_delta",
}


def blocks(*content: Mapping[str, Any], stop: str | None = "end_turn") -> tuple[bytes, ...]:
    """The events of a whole answer of the Messages API, each block's text in two pieces.

    The `input` of a tool_use block is given as JSON text. 7 tokens in (2 of them cached), 3 out.
    `stop=None` leaves the end out.
    """
    usage = {"input_tokens": 4, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 2}
    events = [event("message_start", message={"content": [], "usage": {**usage, "output_tokens": 1}})]
    for index, block in enumerate(content):
        start: dict[str, Any] = {"signature": ""} if block["type"] == "thinking" else {}
        deltas: list[tuple[str, str]] = []
        for key, value in block.items():
            if key == "input":
                start[key] = {}
                deltas += (
                    ("partial_json", value[: len(value) // 2]),
                    ("partial_json", value[len(value) // 2 :]),
                )
            elif key == "signature":
                deltas.append((key, value))
            elif key in _DELTAS:
                start[key] = ""
                deltas += ((key, value[: len(value) // 2]), (key, value[len(value) // 2 :]))
            else:
                start[key] = value
        events.append(event("content_block_start", index=index, content_block=start))
        for key, value in deltas:
            delta = {"type": _DELTAS[key], key: value}
            events.append(event("content_block_delta", index=index, delta=delta))
        events.append(event("content_block_stop", index=index))
    if stop is not None:
        events.append(event("message_delta", delta={"stop_reason": stop}, usage={"output_tokens": 3}))
        events.append(event("message_stop"))
    return tuple(events)


def fails(status: int, message: str = "no", code: str | None = None, **headers: str) -> Answer:
    """An error as OpenAI words it; `retry_after="3"` becomes the header Retry-After."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": code}}).encode()
    return Answer(
        (body,), status, {**_JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
    )


@dataclass
class Asked:
    """One request as it came in, times in seconds of the event loop's clock.

    `gone` is set at the moment the client closes the connection, `left` is that time; both only if
    it had not got its answer, which `answered` says.
    """

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    connection: int
    at: float
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    left: float | None = None
    answered: bool = False


class ModelServer:
    """See the head of this module. `answer` makes the answers that were not scripted; `tls` is for https."""

    def __init__(
        self,
        answer: Callable[[dict[str, Any]], Answer] = lambda body: says("All ", "well."),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests: list[Asked] = []
        self.connections = 0  # opened so far
        self._answer = answer
        self._tls = tls
        self._script: deque[Answer] = deque()
        self._came = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, port: int = 0) -> None:
        """Listen on 127.0.0.1; port 0 is a free one."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, "127.0.0.1", port, ssl=self._tls)

    async def close(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is not None:
            self._server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._server.wait_closed()
            self._server = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._server is not None, "the server is not running"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def base_url(self) -> str:
        """What `[model] base_url` is to be."""
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}/v1"

    def script(self, *answers: Answer) -> None:
        """Play these for the next requests, in this order."""
        self._script.extend(answers)

    async def asked(self, count: int = 1, within: float = 5.0) -> Asked:
        """Wait until that many requests have come; gives the one of that number.

        `TimeoutError` after `within` seconds.
        """
        async with asyncio.timeout(within), self._came:
            await self._came.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        reader = _Reader()
        return asyncio.StreamReaderProtocol(reader, lambda _, writer: self._connected(reader, writer))

    def _connected(self, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.create_task(self._serve(self.connections, reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: int, reader: _Reader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                while await self._one(connection, reader, writer):
                    pass
            finally:
                writer.transport.abort()

    async def _one(self, connection: int, reader: _Reader, writer: asyncio.StreamWriter) -> bool:
        """Take one request and answer it; False where the connection ends with it."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        path = head[0].split(" ")[1]
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if not path.endswith(_PATHS):
            return await _play(fails(404, f"no such path: {path}"), reader.gone, writer)
        now = asyncio.get_running_loop().time()
        asked = Asked(path, headers, json.loads(body), connection, now, reader.gone)
        reader.asked = asked
        self.requests.append(asked)
        async with self._came:
            self._came.notify_all()
        answer = self._script.popleft() if self._script else self._answer(asked.body)
        try:
            asked.answered = await _play(answer, reader.gone, writer)
        finally:
            reader.asked = None
        return asked.answered


class _Reader(asyncio.StreamReader):
    """A stream reader that notes the moment at which the client closed, read from or not."""

    def __init__(self) -> None:
        super().__init__()
        self.gone = asyncio.Event()
        self.asked: Asked | None = None

    def feed_eof(self) -> None:
        self._note()
        super().feed_eof()

    def set_exception(self, exc: Exception) -> None:
        self._note()
        super().set_exception(exc)

    def _note(self) -> None:
        if self.asked is not None and self.asked.left is None:
            self.asked.left = asyncio.get_running_loop().time()
        self.gone.set()


async def _play(answer: Answer, gone: asyncio.Event, writer: asyncio.StreamWriter) -> bool:
    """Write `answer`; False where it was cut, or the client left."""
    if answer.before is not None and not await _held(answer.before, gone):
        return False
    reason = HTTPStatus(answer.status).phrase if answer.status in set(HTTPStatus) else "Own"  # 529
    lines = [
        f"HTTP/1.1 {answer.status} {reason}",
        *(f"{name}: {value}" for name, value in answer.headers.items()),
    ]
    out = ("\r\n".join(lines) + "\r\ntransfer-encoding: chunked\r\n\r\n").encode("latin-1")
    for part in answer.parts:
        if isinstance(part, bytes):
            if gone.is_set():
                return False
            writer.write(out + b"%x\r\n%b\r\n" % (len(part), part))
            out = b""
            await writer.drain()
            await asyncio.sleep(0)  # an endless answer leaves room for its reader
            continue
        writer.write(out)
        out = b""
        if isinstance(part, Cut) or not await _held(part, gone):
            return False
    writer.write(out + b"0\r\n\r\n")
    await writer.drain()
    return True


async def _held(event: asyncio.Event, gone: asyncio.Event) -> bool:
    """Wait for `event`; False where the client left first."""
    waits = [asyncio.create_task(one.wait()) for one in (event, gone)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return not gone.is_set()


async def _run(port: int, text: str) -> None:
    """Answer every request at once with `text`, written in one piece, until cancelled."""
    at_once = Answer((b"".join(part for part in says(text).parts if isinstance(part, bytes)),))
    server = ModelServer(lambda body: at_once)
    await server.start(port)
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    try:
        await asyncio.Event().wait()
    finally:
        await server.close()


def main() -> None:
    """The command line: `--port` (0: a free one) and `--text`, what it answers."""
    parser = argparse.ArgumentParser(prog="python -m hermes_core.testing.model_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--text", default="All well.")
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run(given.port, given.text))


if __name__ == "__main__":
    main()
