"""A receiver of callbacks on loopback: keeps what it was sent, and answers as a test wants."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import NamedTuple, Self

from standardwebhooks import Webhook

__all__ = ["Got", "Receiver"]


class Got(NamedTuple):
    """One request."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """The event's."""
        return self.headers["webhook-id"]

    def verified(self, secret: str) -> dict[str, dict[str, str]]:
        """The body, if the signature is right and the time is ours."""
        return dict(Webhook(secret).verify(self.body, self.headers))


class Receiver:
    """`answers` are statuses, one for each request, the last one for all further; None answers nothing."""

    def __init__(self, *answers: int | None, location: str = "") -> None:
        self._answers = list(answers) or [204]
        self._location = location
        self.got: list[Got] = []
        self.connections = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._came = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}/hook"

    async def wait(self, count: int) -> list[Got]:
        """Until so many came."""
        async with asyncio.timeout(20), self._came:
            await self._came.wait_for(lambda: len(self.got) >= count)
        return self.got

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            signed = {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in head[1:] if line}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            answer = self._answers[min(len(self.got), len(self._answers) - 1)]
            async with self._came:
                self.got.append(Got(head[0], signed, body))
                self._came.notify_all()
            if answer is None:
                await reader.read()  # until the other side has enough
            else:
                more = f"Location: {self._location}\r\n" if self._location else ""
                writer.write(
                    f"HTTP/1.1 {answer} X\r\nContent-Length: 0\r\n{more}Connection: close\r\n\r\n".encode()
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
