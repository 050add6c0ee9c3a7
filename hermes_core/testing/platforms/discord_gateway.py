"""The gateway of the fake Discord: sessions, their numbered events, resume, and the close codes.

A session outlives its connection: what happens while it has none is kept and sent after a resume, as the
platform does. Payloads are sent as one zlib stream where the client asks for it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import WSMsgType, web

__all__ = ["Connection", "Gateway", "Session"]

DISPATCH: Final = 0
HEARTBEAT: Final = 1
IDENTIFY: Final = 2
RESUME: Final = 6
RECONNECT: Final = 7
INVALID_SESSION: Final = 9
HELLO: Final = 10
HEARTBEAT_ACK: Final = 11

_PRIVILEGED: Final = {1: "GUILD_MEMBERS", 8: "GUILD_PRESENCES", 15: "MESSAGE_CONTENT"}  # bits of the intents
_FLAGS: Final = {
    1: 1 << 15,
    8: 1 << 13,
    15: 1 << 19,
}  # of an application that has them, by bits of the intents
_MESSAGE_CONTENT: Final = 1 << 15
_GUILD_MESSAGES: Final = 1 << 9
_DIRECT_MESSAGES: Final = 1 << 12


@dataclass(eq=False)
class Session:
    """What an IDENTIFY began: its intents and every event it was sent, in order."""

    id: str
    intents: int
    events: list[dict[str, Any]] = field(default_factory=list)
    connection: Connection | None = None


@dataclass(eq=False)
class Connection:
    """One WebSocket; `deaf` answers nothing and sends nothing any more (a zombie)."""

    socket: web.WebSocketResponse
    stream: Any = None
    session: Session | None = None
    deaf: bool = False

    async def send(self, op: int, data: Any = None, **more: Any) -> None:
        """One payload, unless the connection is gone or deaf."""
        if self.deaf or self.socket.closed:
            return
        text = json.dumps({"op": op, "d": data, "s": None, "t": None, **more})
        try:
            if self.stream is None:
                await self.socket.send_str(text)
            else:
                packed = self.stream.compress(text.encode()) + self.stream.flush(zlib.Z_SYNC_FLUSH)
                await self.socket.send_bytes(packed)
        except (ConnectionError, RuntimeError):
            self.deaf = True  # the client went away in between; its session keeps the event


class Gateway:
    """`allowed` is the set of privileged intents that the application was given, as bits; `flags` follow from it.

    `duplicates`: how many events before the resumed one are sent once more with each resume.
    """

    def __init__(self, token: str, me: Mapping[str, Any], application: str) -> None:
        self.url = ""
        self.allowed = _MESSAGE_CONTENT
        self.duplicates = 0
        self.interval = 41.25  # seconds
        self.guilds: dict[str, dict[str, Any]] = {}
        self.identified: list[dict[str, Any]] = []
        self.resumed: list[dict[str, Any]] = []
        self.beats = 0
        self.refuse_connections = 0
        self._token = token
        self._me = me
        self._application = application
        self._sessions: dict[str, Session] = {}
        self._connections: set[Connection] = set()
        self._ids = itertools.count(1)

    # -- as a test

    @property
    def connected(self) -> int:
        """How many connections have a session at this instant."""
        return sum(1 for one in self._connections if one.session is not None and not one.deaf)

    @property
    def flags(self) -> int:
        """What the application's object says of the privileged intents that it was given."""
        return sum(flag for bit, flag in _FLAGS.items() if self.allowed >> bit & 1)

    async def dispatch(self, event: str, data: Mapping[str, Any], *, direct: bool = False) -> None:
        """Let something happen: every session that wants it is told, now or after its resume."""
        for session in self._sessions.values():
            shown = _as_seen(session, event, data, direct, str(self._me["id"]))
            if shown is not None:
                await self._tell(session, event, shown)

    async def hang_up(self, code: int = 4000) -> None:
        """Close every connection with this code; sessions can be resumed."""
        for one in list(self._connections):
            if one.session is not None:
                one.session.connection = None
            await one.socket.close(code=code)

    def cut(self) -> None:
        """Drop every connection without a word."""
        for one in list(self._connections):
            if one.session is not None:
                one.session.connection = None
            one.deaf = True
            transport = getattr(one.socket, "_req", None)
            if transport is not None and transport.transport is not None:
                transport.transport.abort()

    async def ask_to_reconnect(self) -> None:
        """Send RECONNECT to everybody."""
        for one in list(self._connections):
            await one.send(RECONNECT)

    async def invalidate(self, *, resumable: bool = False) -> None:
        """Send INVALID_SESSION to everybody; a session that is not resumable is forgotten."""
        for one in list(self._connections):
            if one.session is not None and not resumable:
                self._sessions.pop(one.session.id, None)
            await one.send(INVALID_SESSION, resumable)

    def forget(self) -> None:
        """No session can be resumed any more; what happens from now on is told to new ones only."""
        self._sessions.clear()

    def fall_silent(self) -> None:
        """Every connection stays open and says nothing any more."""
        for one in self._connections:
            one.deaf = True

    # -- as the platform

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One connection, from HELLO to its end."""
        if self.refuse_connections:
            self.refuse_connections -= 1
            raise web.HTTPServiceUnavailable
        socket = web.WebSocketResponse(autoping=True)
        await socket.prepare(request)
        packed = request.query.get("compress") == "zlib-stream"
        connection = Connection(socket, zlib.compressobj() if packed else None)
        self._connections.add(connection)
        try:
            if request.query.get("v") != "10" or request.query.get("encoding") != "json":
                await socket.close(code=4012, message=b"Invalid API version.")
                return socket
            await connection.send(HELLO, {"heartbeat_interval": int(self.interval * 1000)})
            async for message in socket:
                if message.type is not WSMsgType.TEXT:
                    break
                await self._take(connection, json.loads(message.data))
        finally:
            self._connections.discard(connection)
            if connection.session is not None and connection.session.connection is connection:
                connection.session.connection = None
        return socket

    async def _take(self, connection: Connection, payload: dict[str, Any]) -> None:
        op, data = payload.get("op"), payload.get("d")
        if op == HEARTBEAT:
            self.beats += 1
            await connection.send(HEARTBEAT_ACK)
        elif op == IDENTIFY:
            await self._identify(connection, data or {})
        elif op == RESUME:
            await self._resume(connection, data or {})
        elif connection.session is None:
            await connection.socket.close(code=4003, message=b"Not authenticated.")
        elif op not in (3, 4, 8):
            await connection.socket.close(code=4001, message=b"Unknown opcode.")

    async def _identify(self, connection: Connection, data: dict[str, Any]) -> None:
        self.identified.append(data)
        if connection.session is not None:
            await connection.socket.close(code=4005, message=b"Already authenticated.")
        elif data.get("token") != self._token:
            await connection.socket.close(code=4004, message=b"Authentication failed.")
        elif not isinstance(data.get("intents"), int):
            await connection.socket.close(code=4013, message=b"Invalid intent(s).")
        elif any(data["intents"] >> bit & 1 and not self.allowed >> bit & 1 for bit in _PRIVILEGED):
            await connection.socket.close(code=4014, message=b"Disallowed intent(s).")
        else:
            session = Session(f"session-{next(self._ids)}", data["intents"], connection=connection)
            connection.session = self._sessions[session.id] = session
            await self._welcome(session)

    async def _welcome(self, session: Session) -> None:
        ready = {
            "v": 10,
            "user": self._me,
            "guilds": [{"id": id_, "unavailable": True} for id_ in self.guilds],
            "session_id": session.id,
            "resume_gateway_url": self.url,
            "application": {"id": self._application, "flags": self.flags},
        }
        await self._tell(session, "READY", ready)
        for guild in self.guilds.values():
            await self._tell(session, "GUILD_CREATE", guild)

    async def _resume(self, connection: Connection, data: dict[str, Any]) -> None:
        self.resumed.append(data)
        session = self._sessions.get(data.get("session_id") or "")
        if data.get("token") != self._token:
            await connection.socket.close(code=4004, message=b"Authentication failed.")
            return
        if session is None:
            await connection.send(INVALID_SESSION, False)
            return
        connection.session, session.connection = session, connection
        since = int(data.get("seq") or 0)
        missed = session.events[max(0, since - self.duplicates) :]
        for event in missed:
            await connection.send(DISPATCH, event["d"], s=event["s"], t=event["t"])
        await self._tell(session, "RESUMED", {})

    async def _tell(self, session: Session, event: str, data: Mapping[str, Any]) -> None:
        number = len(session.events) + 1
        session.events.append({"t": event, "s": number, "d": data})
        if session.connection is not None:
            await session.connection.send(DISPATCH, data, s=number, t=event)

    async def close(self) -> None:
        """End every connection."""
        for one in list(self._connections):
            async with asyncio.timeout(1.0):
                await one.socket.close(code=1001)


def _as_seen(
    session: Session, event: str, data: Mapping[str, Any], direct: bool, me: str
) -> Mapping[str, Any] | None:
    """What this session gets of an event by its intents; None: nothing."""
    if not event.startswith("MESSAGE_"):
        return data
    if not session.intents & (_DIRECT_MESSAGES if direct else _GUILD_MESSAGES):
        return None
    if event not in ("MESSAGE_CREATE", "MESSAGE_UPDATE") or direct or session.intents & _MESSAGE_CONTENT:
        return data
    mentioned = any(one["id"] == me for one in data.get("mentions", ()))
    if mentioned or data.get("author", {}).get("id") == me:
        return data
    return {**data, "content": "", "attachments": [], "embeds": [], "components": []}
