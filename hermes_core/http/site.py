"""Site: one ASGI application of all routes."""

from __future__ import annotations

import asyncio
import contextlib
import http
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as Incoming
from starlette.responses import Response as Outgoing
from starlette.routing import Route as Path
from starlette.types import Receive, Scope, Send

from hermes_core.errors import StoreError
from hermes_core.http.document import describe
from hermes_core.http.gate import Gate
from hermes_core.route import Problem, Request, Response, Route, json_response

__all__ = ["application"]

log = logging.getLogger("hermes.http")

REFUSED: Final = (
    8 * 1024 * 1024
)  # bytes of a body too large that are still taken in, so that its sender hears why
REFUSING: Final = 5.0  # seconds for that
READING: Final = 30.0  # seconds in which a body must have come
BUSY: Final = "5"  # seconds after which a caller may try again what the disk did not take


def application(routes: Iterable[Route], gate: Gate, hide: Callable[[str], str]) -> Starlette:
    """The application; `hide` takes secrets out of what is said about problems (X2)."""
    document = b""

    async def openapi(request: Request) -> Response:
        return Response(200, document, {"Content-Type": "application/json"})

    described = [
        Route("GET", "/openapi.json", openapi, _OPENAPI, open=True),
        *routes,
    ]
    document = msgspec.json.encode(describe(described, token=gate.has_token))
    places: dict[str, dict[str, Route]] = {}
    for route in described:
        places.setdefault(route.path, {}).setdefault(route.method, route)
    app = Starlette(
        routes=[Path(path, _Place(methods, gate, hide)) for path, methods in places.items()],
        exception_handlers={HTTPException: _nothing_here},
    )
    app.router.redirect_slashes = False
    return app


class _Place:
    """What is at one path."""

    def __init__(self, methods: Mapping[str, Route], gate: Gate, hide: Callable[[str], str]) -> None:
        self._methods = methods
        self._gate = gate
        self._hide = hide

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        incoming = Incoming(scope, receive)
        try:
            answer = _send(await self._answer(incoming))
        except Problem as problem:
            answer = _send(self._tell(problem))
        except StoreError:
            busy = Problem(
                503, "Nothing can be kept at the moment.", "Try again.", headers={"Retry-After": BUSY}
            )
            answer = _send(self._tell(busy))
        except ClientDisconnect:
            return
        except Exception as error:  # the edge to foreign code: a route's fault is one answer, with an id
            id_ = secrets.token_hex(3)
            log.error("%s %s failed (%s)", incoming.method, scope["path"], id_, exc_info=error)
            fault = Problem(500, "This is a fault of the server.", f"Its log has more under {id_}.")
            answer = _send(self._tell(fault))
        await answer(scope, receive, send)

    async def _answer(self, incoming: Incoming) -> Response:
        method = incoming.method
        route = self._methods.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = [*self._methods, *(["HEAD"] if "GET" in self._methods else [])]
            raise Problem(
                405, f"{method[:20]} is not possible here.", headers={"Allow": ", ".join(sorted(allowed))}
            )
        headers = _many(incoming.headers.items())
        caller = ""
        if not route.open:
            caller = self._gate.caller(headers.get("authorization", ()), headers.get("host", ()))
        return await route.answer(
            Request(
                method,
                incoming.url.path,
                {name: str(value) for name, value in incoming.path_params.items()},
                _many(incoming.query_params.multi_items()),
                headers,
                await _read(incoming, route.limit),
                caller,
            )
        )

    def _tell(self, problem: Problem) -> Response:
        return _problem(problem, self._hide)


async def _read(incoming: Incoming, limit: int) -> bytes:
    """The body; 413 for one that is too large, 408 for one that does not come."""
    length = incoming.headers.get("content-length", "")
    told = int(length[:20]) if length.isdecimal() else 0
    read = bytearray()
    pieces = incoming.stream()
    if told <= limit:
        try:
            async with asyncio.timeout(READING):
                async for piece in pieces:
                    read += piece
                    if len(read) > limit:
                        break
                else:
                    return bytes(read)
        except TimeoutError:
            late = f"The body did not come within {READING:.0f} s."
            raise Problem(408, late, headers={"Connection": "close"}) from None
    # Who is cut off while he still writes does not get to read the answer.
    refused = len(read)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REFUSING):
            while refused < REFUSED and (piece := await anext(pieces, b"")):
                refused += len(piece)
    raise Problem(413, f"The body is larger than {limit} bytes.", headers={"Connection": "close"})


def _many(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        found[name] = (*found.get(name, ()), value)
    return found


def _problem(problem: Problem, hide: Callable[[str], str]) -> Response:
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": http.HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": hide(str(problem)).encode("utf-8", "replace").decode(),
        **problem.more,
    }
    return json_response(
        problem.status, body, {**problem.headers, "Content-Type": "application/problem+json"}
    )


def _send(response: Response) -> Outgoing:
    return Outgoing(
        response.body, response.status, {"Cache-Control": "no-store", **response.headers}, media_type=None
    )


async def _nothing_here(incoming: Incoming, error: Exception) -> Outgoing:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _send(_problem(Problem(status, "There is nothing at this path."), str))


_OPENAPI: Final = {
    "operationId": "describe",
    "summary": "This document.",
    "responses": {
        "200": {
            "description": "OpenAPI 3.1.",
            "content": {"application/json": {"schema": {"type": "object"}}},
        }
    },
}
