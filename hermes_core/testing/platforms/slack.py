"""FakeSlack: Slack's Web API and Socket Mode on loopback, as strict as Slack, and misbehaving on demand.

    async with FakeSlack() as slack:
        adapter = …                                  # with slack.base_url, slack.bot_token, slack.app_token
        await slack.connected(1)
        slack.world.say("D1", "UANN", "hello")       # as a person; the events go out by themselves
        slack.refuse("chat.postMessage", "ratelimited", retry_after=1)
        slack.cut("chat.postMessage", "after")       # taken, and the connection is gone before the answer
        slack.limits = Limits()                      # from now on as often as Slack takes a call

Nothing happens by a timer: what was not acknowledged comes again with `redeliver`. What happens while no
connection is open waits for it, as Slack's retries do. `calls` and `envelopes` keep everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import WSMsgType, web

from hermes_core.testing.platforms.slack_files import LOGIN
from hermes_core.testing.platforms.slack_limits import Limits, Meter
from hermes_core.testing.platforms.slack_push import pushed, signed
from hermes_core.testing.platforms.slack_rules import BOT, Refusal, buttons_of, press_payload, slash_payload
from hermes_core.testing.platforms.slack_world import World

__all__ = ["Call", "Envelope", "FakeSlack"]

RETRIES: Final = 3
CONNECTIONS: Final = 10


@dataclass
class Call:
    """One call to the Web API and its answer (None: the connection was cut)."""

    method: str
    arguments: dict[str, Any]
    at: float
    answer: dict[str, Any] | None = None


@dataclass
class Envelope:
    """One delivery over Socket Mode; `acked` is the loop's time of its acknowledgement."""

    body: dict[str, Any]
    sent: float
    acked: float | None = None
    acks: int = 0


@dataclass
class _Fault:
    error: str = ""
    status: int = 200
    retry_after: float | None = None
    cut: str = ""
    hold: asyncio.Event | None = None


@dataclass(eq=False)
class _Connection:
    socket: web.WebSocketResponse
    number: int
    mine: set[str] = field(default_factory=set)


class FakeSlack:
    """One workspace with one app. Its time is the loop's."""

    # Of the shape of Slack's, and of no use anywhere.
    bot_token = "xoxb-fake-agent"  # noqa: S105
    app_token = "xapp-fake-agent"  # noqa: S105
    signing_secret = "fake-signing-secret"  # noqa: S105

    def __init__(self) -> None:
        self.world = World(self._happened)
        self.calls: list[Call] = []
        self.envelopes: list[Envelope] = []
        self.events: list[dict[str, Any]] = []  # every event_callback, in its order
        self.deliver = True  # False: events wait for `redeliver`, as for a server that is late
        self.ephemeral: list[tuple[str, str]] = []  # answers that one person alone sees
        self.push = ""  # an address: everything is delivered there, signed, in place of Socket Mode
        self.deaf = False  # True: connections stay open, and neither answer a ping nor say anything
        self.others = 0  # connections of other programs with the same app token
        self.limits: Limits | None = None  # how often it takes a call; None: as often as it is asked
        self._meter = Meter()
        self._faults: dict[str, list[_Fault]] = {}
        self._tickets: set[str] = set()
        self._connections: list[_Connection] = []
        self._waiting: list[dict[str, Any]] = []
        self._turn = itertools.count()
        self._ids = itertools.count(1)
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._runner: web.AppRunner | None = None
        self.base_url = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/api/{method}", self._api)
        app.router.add_get("/link/", self._link)
        app.router.add_get("/files/{id}/download", self._download)
        app.router.add_get("/login", self._login)
        app.router.add_post("/commands/{user}", self._responded)
        app.router.add_post("/upload/{id}", self._upload)
        self._runner = web.AppRunner(app, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, "127.0.0.1", 0, backlog=1024
        )  # a burst of clients is no fault of theirs
        await site.start()
        port = self._runner.addresses[0][1]
        self._root = f"127.0.0.1:{port}"
        self.base_url = f"http://{self._root}/api/"
        self.world.files.root = f"http://{self._root}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in list(self._connections):
            await self._hang_up(one)
        for task in self._tasks:
            task.cancel()
        assert self._runner is not None
        await self._runner.cleanup()

    # -- what a test wants to know

    async def until(self, condition: Any, seconds: float = 10.0) -> None:
        """Wait until `condition()` holds; looked at whenever something happened here."""
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(condition)

    async def connected(self, count: int) -> None:
        """Wait until so many connections are open."""
        await self.until(lambda: len(self._connections) == count)

    def called(self, method: str) -> list[Call]:
        """The calls of one method."""
        return [call for call in self.calls if call.method == method]

    def texts(self, channel: str, thread: str | None = None) -> list[str]:
        """What the agent's messages show there now, in their order."""
        return [
            str(one["text"])
            for _, one in sorted(self.world.channel(channel).messages.items())
            if one.get("bot_id") and one.get("thread_ts") == thread
        ]

    def unacked(self) -> list[Envelope]:
        """Deliveries that were never acknowledged."""
        return [one for one in self.envelopes if one.acked is None]

    # -- how it misbehaves

    def refuse(
        self,
        method: str,
        error: str = "",
        *,
        status: int = 200,
        retry_after: float | None = None,
        times: int = 1,
    ) -> None:
        """Refuse the next calls of a method. `ratelimited` is a 429; a `status` without an error is no JSON."""
        status = 429 if error == "ratelimited" else status
        self._faults.setdefault(method, []).extend(_Fault(error, status, retry_after) for _ in range(times))

    def cut(self, method: str, when: str) -> None:
        """Cut the connection of the next call: "before" it is carried out, or "after"."""
        self._faults.setdefault(method, []).append(_Fault(cut=when))

    def hold(self, method: str) -> asyncio.Event:
        """Carry out the next call, and answer when the event is set."""
        event = asyncio.Event()
        self._faults.setdefault(method, []).append(_Fault(hold=event))
        return event

    async def redeliver(self, envelope: Envelope | None = None, reason: str = "timeout") -> int:
        """Deliver what was not acknowledged once more (or this one, acknowledged or not); gives how many."""
        again = [envelope] if envelope else self.unacked()
        count = 0
        for one in again:
            attempt = int(one.body.get("retry_attempt", 0)) + 1
            if attempt > RETRIES:
                continue
            one.acked = one.acked or -1.0
            body = {**one.body, "retry_attempt": attempt, "retry_reason": reason}
            await self._send({**body, "envelope_id": self._id("envelope")})
            count += 1
        return count

    def lose(self) -> None:
        """Give up what waits for a connection: Slack's retries are over, and only its history has it."""
        self._waiting.clear()

    async def refresh(self) -> None:
        """Tell every connection to make place: the client opens a new one."""
        for one in list(self._connections):
            await one.socket.send_str(json.dumps({"type": "disconnect", "reason": "refresh_requested"}))

    async def drop(self) -> None:
        """Cut every connection without a good-bye."""
        for one in list(self._connections):
            await self._hang_up(one)

    # -- what people do beside writing

    async def slash(self, channel: str, user: str, command: str, text: str = "") -> str:
        """Type a slash command; gives its trigger."""
        respond = f"http://{self._root}/commands/{user}"
        payload = slash_payload(channel, user, command, text, self._id("trigger"), respond)
        await self._send(self._envelope("slash_commands", payload))
        return str(payload["trigger_id"])

    async def press(self, channel: str, user: str, ts: str, label: str) -> dict[str, Any]:
        """Press a button under a message; gives what Slack says of it. `KeyError` where there is none."""
        message = self.world.channel(channel).messages[ts]
        payload = press_payload(
            channel, user, message, buttons_of(message)[label], self.world.ts(), self._id("trigger")
        )
        await self._send(self._envelope("interactive", payload))
        return payload

    # -- signed HTTP

    def signed(self, body: bytes, at: float | None = None, kind: str = "application/json") -> dict[str, str]:
        """The headers of a signed request."""
        return signed(self.signing_secret, body, at, kind)

    # -- inside

    def _id(self, kind: str) -> str:
        return f"{kind}-{next(self._ids)}"

    def _happened(self, inner: dict[str, Any]) -> None:
        payload = {
            "type": "event_callback",
            "team_id": BOT["team_id"],
            "api_app_id": BOT["app_id"],
            "event": inner,
            "event_id": self._id("Ev"),
            "event_time": int(time.time()),
        }
        self.events.append(payload)
        self._waiting.append(self._envelope("events_api", payload))
        if self.deliver:
            self._later(self._flush())

    def _envelope(self, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": kind,
            "envelope_id": self._id("envelope"),
            "payload": payload,
            "accepts_response_payload": kind == "slash_commands",
        }

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _flush(self) -> None:
        while self._waiting and (self._connections or self.push) and self.deliver:
            await self._send(self._waiting.pop(0))

    async def flush(self) -> None:
        """Deliver all that waits; for a test that held it back with `deliver`."""
        self.deliver = True
        await self._flush()

    async def _send(self, body: dict[str, Any]) -> None:
        """Over one of the connections, in turn, as Slack spreads them; it waits where none is open."""
        if self.push:
            one = Envelope(body, asyncio.get_running_loop().time())
            self.envelopes.append(one)
            if await pushed(self.push, self.signing_secret, body):
                one.acks, one.acked = 1, asyncio.get_running_loop().time()
            await self._tell()
            return
        alive = [one for one in self._connections if not one.socket.closed]
        if not alive:
            if (
                body["type"] == "events_api"
            ):  # a command or button that nobody hears fails before people's eyes
                again = {"retry_attempt": 1, "retry_reason": "connection_failed"}
                self._waiting.append({**body, **again})
            return
        connection = alive[next(self._turn) % len(alive)]
        connection.mine.add(body["envelope_id"])
        self.envelopes.append(Envelope(body, asyncio.get_running_loop().time()))
        with contextlib.suppress(ConnectionError):
            await connection.socket.send_str(json.dumps(body))
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _hang_up(self, one: _Connection) -> None:
        if one in self._connections:
            self._connections.remove(one)
        transport = one.socket._req.transport if one.socket._req is not None else None
        if transport is not None:
            transport.abort()
        await self._tell()

    async def _link(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=408, text="the link is used up")
        self._tickets.discard(ticket)
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        connection = _Connection(socket, next(self._ids))
        if len(self._connections) >= CONNECTIONS:
            await socket.send_str(json.dumps({"type": "disconnect", "reason": "too_many_websockets"}))
            await socket.close()
            return socket
        hello = {
            "type": "hello",
            "num_connections": len(self._connections) + 1 + self.others,
            "connection_info": {"app_id": BOT["app_id"]},
            "debug_info": {"host": "fake", "approximate_connection_time": 18060},
        }
        await socket.send_str(json.dumps(hello))
        self._connections.append(connection)
        await self._tell()
        self._later(self._flush())
        try:
            async for message in socket:
                if message.type is WSMsgType.PING and not self.deaf:
                    await socket.pong(message.data)
                elif message.type is WSMsgType.TEXT:
                    await self._acked(connection, json.loads(message.data))
        finally:
            if connection in self._connections:
                self._connections.remove(connection)
            await self._tell()
        return socket

    async def _acked(self, connection: _Connection, body: Mapping[str, Any]) -> None:
        id_ = body.get("envelope_id")
        for one in reversed(self.envelopes):
            # Slack takes an acknowledgement only where it delivered the envelope.
            if one.body["envelope_id"] == id_ and id_ in connection.mine:
                one.acks += 1
                one.acked = asyncio.get_running_loop().time() if one.acked is None else one.acked
                break
        await self._tell()

    # -- the Web API

    async def _api(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        arguments = await _arguments(request)
        call = Call(method, arguments, asyncio.get_running_loop().time())
        self.calls.append(call)
        faults = self._faults.get(method)
        fault = faults.pop(0) if faults else _Fault()
        if fault.cut == "before":
            return await self._vanish(request)
        wait = self._meter.take(self.limits, method, arguments, call.at) if self.limits is not None else 0
        if wait:
            fault = _Fault("ratelimited", 429, wait)
        if fault.error or fault.status != 200:
            return await self._refused(call, fault)
        try:
            answer = {"ok": True, **self._carry_out(request, method, arguments)}
        except Refusal as refusal:
            answer = {"ok": False, "error": refusal.error, **refusal.more}
        await self._tell()
        if fault.cut == "after":
            return await self._vanish(request)
        if fault.hold is not None:
            await fault.hold.wait()
        call.answer = answer
        await self._tell()
        return web.json_response(answer)

    def _carry_out(self, request: web.Request, method: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ") or arguments.get("token", "")
        if not given:
            raise Refusal("not_authed")
        if given not in (self.bot_token, self.app_token):
            raise Refusal("invalid_auth")
        if (given == self.app_token) != (method == "apps.connections.open"):
            raise Refusal("not_allowed_token_type")
        if method == "apps.connections.open":
            ticket = self._id("ticket")
            self._tickets.add(ticket)
            return {"url": f"ws://{self._root}/link/?ticket={ticket}"}
        return self.world.call(method, arguments)

    async def _download(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        status, kind, content = self.world.files.read(request.match_info["id"], token, self.bot_token)
        where = {"Location": f"http://{self._root}/login"} if status == 302 else {}
        if status != 200 or not self.world.files.breaks:
            return web.Response(status=status, content_type=kind, body=content, headers=where)
        broken = web.StreamResponse(headers={"Content-Type": kind, "Content-Length": str(len(content))})
        await broken.prepare(request)
        await broken.write(content[: self.world.files.breaks.pop(0)])
        if request.transport is not None:
            request.transport.close()
        return broken

    async def _responded(self, request: web.Request) -> web.StreamResponse:
        self.ephemeral.append((request.match_info["user"], str((await request.json())["text"])))
        await self._tell()
        return web.Response(text="ok")

    async def _login(self, request: web.Request) -> web.StreamResponse:
        return web.Response(content_type="text/html", text=LOGIN)

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        content = await request.read()
        call = Call("upload", {"length": len(content)}, asyncio.get_running_loop().time())
        self.calls.append(call)
        faults = self._faults.get("upload")
        fault = faults.pop(0) if faults else _Fault()
        if fault.status != 200:
            return await self._refused(call, fault)
        status = self.world.files.upload(request.match_info["id"], content)
        return web.Response(status=status, text=f"OK - {len(content)}")

    async def _refused(self, call: Call, fault: _Fault) -> web.Response:
        headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
        await self._tell()
        if not fault.error:
            return web.Response(status=fault.status, text="<html>upstream</html>", content_type="text/html")
        call.answer = {"ok": False, "error": fault.error}
        return web.json_response(call.answer, status=fault.status, headers=headers)

    async def _vanish(self, request: web.Request) -> web.Response:
        await self._tell()
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=500)


async def _arguments(request: web.Request) -> dict[str, Any]:
    arguments: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        body = await request.read()
        if body:
            arguments.update(json.loads(body))
    elif request.can_read_body:
        arguments.update(await request.post())
    return arguments
