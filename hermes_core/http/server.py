"""Server: listens, serves the application, and ends within a bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final

from hermes_core.config import Config
from hermes_core.errors import ConfigError, HermesError
from hermes_core.http import health, metrics
from hermes_core.http.gate import Gate
from hermes_core.jobs.signing import check_secret
from hermes_core.route import Route
from hermes_core.router import Tasks
from hermes_core.runtime import Runtime

__all__ = ["check", "serve"]

OWN: Final = ("/health", "/metrics", "/openapi.json")
PATIENCE: Final = 1.0  # seconds that requests under way have when the server ends
IDLE: Final = 30  # seconds after which a connection without a request is closed
HEAD_LIMIT: Final = 64 * 1024  # bytes of a request's head


def check(config: Config) -> Gate:
    """`ConfigError` for what would only be found wrong when the rest of the house stands already."""
    try:
        import starlette  # noqa: F401 - only whether they are there
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "[http] is written, and the server is not installed.", 'Install "hermes-switchboard[http]".'
        ) from error
    check_secret(config)
    return Gate(config)


async def serve(runtime: Runtime, ready: Callable[[str], None]) -> None:
    """Serve until cancelled. `ready` is told once how to reach it; `HermesError` where the port is taken."""
    from hermes_core.http.site import application

    config = runtime.config
    gate = check(config)
    listener = _listen(config.http.host, config.http.port)
    errands = _Errands()
    try:
        routes = [health.route(runtime), metrics.route(runtime), *await _routes(runtime, errands)]
        server = _server(application(routes, gate, config.secrets.hide))
        serving = asyncio.create_task(server.serve([listener]), name="http server")
        try:
            ready(f"web {_url(listener)}")
            await asyncio.wait({serving})
            serving.result()
        finally:
            server.end()
            await asyncio.wait({serving}, timeout=PATIENCE + 0.5)
            serving.cancel()
    finally:
        listener.close()
        await errands.close()


class _Errands:
    """The tasks of routes. What is to begin when the server has ended does not: jobs end later than it does."""

    def __init__(self) -> None:
        self._tasks = Tasks()
        self._ended = False

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        if self._ended:
            coroutine.close()
        else:
            self._tasks.spawn(coroutine, name)

    async def close(self) -> None:
        self._ended = True
        await self._tasks.close(0.2)


async def _routes(runtime: Runtime, errands: _Errands) -> list[Route]:
    plugins = runtime.services.plugins
    site = runtime.site(errands.spawn)
    routes: dict[tuple[str, str], Route] = {}
    for name, given in await plugins.each_by_name("hermes_routes", site=site):
        for route in given or ():
            if (route.method, route.path) in routes or route.path in OWN:
                taken = HermesError(f"{route.method} {route.path} is served already.")
                plugins.report(name, "hermes_routes", taken)
            elif more := runtime.config.unapproved(name, {"routes": [f"{route.method} {route.path}"]}):
                refused = HermesError(f"{more[0]} was not approved.", f"hermes plugins enable {name}")
                plugins.report(name, "hermes_routes", refused)
            else:
                routes[route.method, route.path] = route
    return list(routes.values())


def _server(app: Any) -> Any:
    import uvicorn

    class Server(uvicorn.Server):
        """Signals belong to the command line; and nothing looks ten times a second whether it should end."""

        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            self._ended = asyncio.Event()

        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None, None, None]:
            yield

        async def main_loop(self) -> None:
            await self._ended.wait()

        def end(self) -> None:
            self.should_exit = True
            self._ended.set()

    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,  # made by the loop that we do without; a clock is optional (RFC 9110, 6.6.1)
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=int(PATIENCE),
        h11_max_incomplete_event_size=HEAD_LIMIT,
    )
    return Server(config)


def _listen(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)  # from here on nobody is turned away: "ready" may be said
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        reason = error.strerror or "it cannot be used"
        raise HermesError(
            f"The server cannot listen on {host} port {port}: {reason}.",
            "Set another [http] port (0 takes a free one), or end what uses it.",
        ) from error
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
