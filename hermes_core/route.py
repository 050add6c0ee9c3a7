"""Route: what a plugin serves over HTTP, as values that know no server.

A plugin gives its routes in the hook `hermes_routes`; `hermes_core.http` checks the caller, reads the
body within its limit, and turns what is raised into `application/problem+json` (RFC 9457).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from hermes_core.errors import HermesError
from hermes_core.job import Jobs
from hermes_core.store import Store
from hermes_core.tools import AsyncTool

__all__ = ["BODY_LIMIT", "Problem", "Request", "Response", "Route", "Site", "json_response"]

BODY_LIMIT: Final = 1024 * 1024  # bytes


class Request(msgspec.Struct, frozen=True):
    """One request whose caller was checked and whose body was read.

    `parameters` are those of the path. `query` and `headers` (names in lower case) have every value in
    its order. `caller` names who asks: "token", "local" for a loopback server without one, "" on an open
    route.
    """

    method: str
    path: str
    parameters: Mapping[str, str]
    query: Mapping[str, tuple[str, ...]]
    headers: Mapping[str, tuple[str, ...]]
    body: bytes
    caller: str


class Response(msgspec.Struct, frozen=True):
    """What is answered. The length is added, and `Cache-Control: no-store` where nothing else is said."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})


class Problem(HermesError):
    """An error answer: raised by a route, sent as `application/problem+json`.

    `message` and `advice` become its detail, `more` its extension members. No path of this machine, no
    secret and no traceback belongs into it.
    """

    def __init__(
        self,
        status: int,
        message: str,
        advice: str = "",
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
        **more: Any,
    ) -> None:
        super().__init__(message, advice)
        self.status = status
        self.headers = headers
        self.more = more


class Route(msgspec.Struct, frozen=True):
    """`method` at `path` ("/jobs/{id}": a parameter is one part of the path) is answered by `answer`.

    An `open` route is called without the token: it checks its callers itself, and in time. A body over
    `limit` bytes is refused. `operation` is the OpenAPI operation; without it the document is silent.
    """

    method: str
    path: str
    answer: Callable[[Request], Awaitable[Response]]
    operation: Mapping[str, Any] = MappingProxyType({})
    open: bool = False
    limit: int = BODY_LIMIT


class Site(msgspec.Struct, frozen=True):
    """What routes and plugins work with that do something of their own accord.

    `spawn` begins a task that is cancelled when the server ends, or the program; afterwards nothing begins.
    `wall` gives seconds since 1970, `pause` waits for so many seconds.
    """

    jobs: Jobs
    tools: Mapping[str, AsyncTool]
    store: Store
    spawn: Callable[[Coroutine[Any, Any, None], str], object]
    wall: Callable[[], float]
    pause: Callable[[float], Awaitable[None]]


def json_response(status: int, value: Any, headers: Mapping[str, str] = MappingProxyType({})) -> Response:
    """`value` as JSON."""
    return Response(status, msgspec.json.encode(value), {"Content-Type": "application/json", **headers})
