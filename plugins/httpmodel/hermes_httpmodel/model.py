"""The connection: one HTTP request a call, read as it streams.

Theory of operation. All calls share one `httpx.AsyncClient`, so that connections are kept alive. A
call that is cancelled, or left before its end, closes its own connection at once, in every state,
and retires the client: the next call makes a fresh one, with the TLS context of the first, while
calls of other conversations that still run on the retired client end undisturbed; the last of them
closes it. A call has no retry here: the turn knows whether people have seen a part of the answer.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import functools
import socket
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping
from typing import Any, Final, cast

import httpx
from httpcore import AsyncNetworkStream

from hermes_core.errors import ModelError, first_cause
from hermes_core.models import Delta, Request
from hermes_httpmodel import faults
from hermes_httpmodel.pictures import Pictures, pictures
from hermes_httpmodel.server import Server
from hermes_httpmodel.stream import Assembly

__all__ = ["HttpModel"]

_CONNECT: Final = 15.0  # seconds in which a server that is there has taken a connection
_TAIL: Final = 1.0  # seconds that usage and the end of the body may take after the answer's end
_ERROR_BYTES: Final = 64 * 1024
_ERROR_SECONDS: Final = 5.0
_WHOLE_BYTES: Final = 16 * 1024 * 1024
_IDLE: Final = 30.0  # seconds for which an unused connection is kept


class _Line:
    """A client and how many calls are on it."""

    __slots__ = ("client", "users")

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.users = 0


class HttpModel(abc.ABC):
    """A model behind one address; a provider says what is sent (`write`) and how it is read (`read`).

    `url` is where requests go, `headers` go with each of them (the key among them), and `hint` tells
    what `[model] base_url` looks like where it led to a web page. See the head of this module.
    """

    def __init__(self, server: Server, url: str, headers: Mapping[str, str], hint: str) -> None:
        self.name = server.name
        self._url = httpx.URL(url)
        self._headers = headers
        self._key = server.key
        self._timeout = server.timeout
        self._images = server.images
        self._hint = hint
        self._line: _Line | None = None

    @abc.abstractmethod
    def write(self, request: Request, shown: Pictures) -> bytes:
        """The JSON body of this request, with these pictures."""

    @abc.abstractmethod
    def read(self, request: Request) -> Assembly:
        """What puts the answer to this request together."""

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Call the model, as `Model.stream` says; `timeout` counts from byte to byte, comments included.

        A task that may be cancelled between two elements, and not only while it waits for one, wraps
        this in `contextlib.aclosing`: closing the generator closes the connection.
        """
        content = self.write(request, await pictures(request) if self._images else {})
        assembly = self.read(request)
        line = self._borrow()
        began = False
        try:
            async with line.client.stream(
                "POST", self._url, content=content, extensions={"trace": _close_half_open()}
            ) as response:
                if response.status_code != 200:
                    raise await self._refused(response)
                began = True
                kind = response.headers.get("content-type", "")
                if kind.startswith(("application/json", "text/html")):
                    for delta in assembly.whole(await self._whole(response, kind)):
                        yield delta
                else:
                    async with contextlib.aclosing(_pieces(response)) as pieces:
                        async for piece in pieces:
                            for delta in assembly.feed(piece):
                                yield delta
                            if assembly.finished:
                                break
                        for delta in await _tail(pieces, assembly):
                            yield delta
        except httpx.RequestError as error:
            detail = faults.Detail(
                f"{self._asked()}: {first_cause(error)}"
            )  # for the log: people see no address
            detail.__cause__ = error
            raise _broken(error, began, self._timeout) from detail
        except (asyncio.CancelledError, GeneratorExit):
            self._retire(line)
            raise
        finally:
            await self._give_back(line)
        for delta in assembly.end():
            yield delta

    async def aclose(self) -> None:
        """As `Model.aclose` says; a call that still runs is cut."""
        line, self._line = self._line, None
        if line is not None:
            await line.client.aclose()

    def _borrow(self) -> _Line:
        if self._line is None:
            self._line = _Line(self._client())
        self._line.users += 1
        return self._line

    def _retire(self, line: _Line) -> None:
        if self._line is line:
            self._line = None

    async def _give_back(self, line: _Line) -> None:
        line.users -= 1
        if line is not self._line and not line.users:
            await line.client.aclose()

    @functools.cached_property
    def _context(self) -> ssl.SSLContext:
        """Made once: reading the certificates of all authorities takes as long as a whole short turn."""
        if self._url.scheme == "https":
            return httpx.create_ssl_context()
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody; never used, and costs nothing

    def _client(self) -> httpx.AsyncClient:
        headers = {
            "accept": "text/event-stream",
            "accept-encoding": "identity",  # what is compressed is often held back as well
            "content-type": "application/json",
            "user-agent": "hermes",
            **self._headers,
        }
        return httpx.AsyncClient(
            headers=headers,
            verify=self._context,
            timeout=httpx.Timeout(self._timeout, connect=min(self._timeout, _CONNECT), pool=None),
            # No conversation waits for another one's connection.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=_IDLE),
        )

    async def _refused(self, response: httpx.Response) -> ModelError:
        body = bytearray()
        with contextlib.suppress(TimeoutError, httpx.RequestError):
            async with asyncio.timeout(_ERROR_SECONDS):
                await _read(response, body, _ERROR_BYTES)
        if self._key is not None:
            body = body.replace(self._key.encode(), "…".encode())
        return faults.refused(response.status_code, response.headers, bytes(body), self._asked(), time.time())

    def _asked(self) -> str:
        url = self._url  # `netloc` leaves out a name and password in the address
        return f"{url.scheme}://{url.netloc.decode()}{url.path} for model {self.name!r}"

    async def _whole(self, response: httpx.Response, kind: str) -> bytes:
        """The body of a server that does not stream."""
        if kind.startswith("text/html"):
            advice = f"Whoever runs this agent: check [model] base_url; {self._hint}."
            raise faults.fault("The model server's address leads to a web page.", advice, retryable=False)
        body = bytearray()
        if not await _read(response, body, _WHOLE_BYTES):
            raise faults.malformed("an answer that does not end")
        return bytes(body)


def _close_half_open() -> Callable[[str, Mapping[str, Any]], Coroutine[Any, Any, None]]:
    """For the `trace` extension of httpcore: closes a connection whose TLS handshake does not come to its end.

    httpcore does so after an error but not when its task is cancelled: the server would see the
    connection open until the garbage is collected (encode/httpcore#443).
    """
    opened: list[AsyncNetworkStream] = []

    async def trace(event: str, info: Mapping[str, Any]) -> None:
        if event.endswith("connect_tcp.complete"):
            opened.append(info["return_value"])
        elif event.endswith("start_tls.failed"):
            while opened:
                await opened.pop().aclose()

    return trace


def _pieces(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The body as it comes. httpx gives a generator and declares less, which could not be closed."""
    return cast("AsyncGenerator[bytes, None]", response.aiter_bytes())


async def _read(response: httpx.Response, into: bytearray, limit: int) -> bool:
    """Read the body; False where it is longer than `limit`."""
    async with contextlib.aclosing(_pieces(response)) as pieces:
        async for piece in pieces:
            into += piece
            if len(into) > limit:
                return False
    return True


async def _tail(pieces: AsyncIterator[bytes], assembly: Assembly) -> list[Delta]:
    """What comes after the end of the answer: usage, and the end of the body, so that the connection is kept.

    The answer is there already: a server that is slow here, or cuts the connection, spoils nothing.
    """
    deltas: list[Delta] = []
    if assembly.finished:
        with contextlib.suppress(TimeoutError, httpx.RequestError):
            async with asyncio.timeout(_TAIL):
                async for piece in pieces:
                    deltas += assembly.feed(piece)
    return deltas


def _broken(error: httpx.RequestError, began: bool, timeout: float) -> ModelError:
    """What a failed connection means. All of it may be over with the next try."""
    causes = list(_causes(error))
    if isinstance(error, httpx.DecodingError):
        return faults.malformed("an answer whose compression is broken")
    if isinstance(error, httpx.ProxyError):
        message = "The proxy on the way to the model server refuses the connection."
    elif any(isinstance(cause, ssl.SSLError) for cause in causes):
        message = "No secure connection to the model server can be made."
    elif any(isinstance(cause, socket.gaierror) for cause in causes):
        message = "The model server cannot be found under its name."
    elif isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
        message = "The model server cannot be reached."
    elif isinstance(error, httpx.TimeoutException):
        message = f"The model server has sent nothing for {timeout:g} s."
    elif began:
        return faults.cut()
    else:
        message = "The model server closed the connection without an answer."
    return faults.fault(message)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
