"""The REST side of the fake Discord: refusals, rate-limit buckets, faults, and what each call does."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from hermes_core.testing.platforms.discord_files import BODY, UPLOADS, Cabinet, read
from hermes_core.testing.platforms.discord_gateway import Gateway
from hermes_core.testing.platforms.discord_interactions import Interactions
from hermes_core.testing.platforms.discord_world import (
    DIRECT,
    LONGEST_NONCE,
    Refusal,
    World,
    answer,
    invalid,
    person,
)
from hermes_core.testing.platforms.window import Window

__all__ = ["Fault", "Request", "Rest", "limited"]

DAILY: Final = 200  # new commands
NAME: Final = re.compile(r"^[-_'\w]{1,32}$")
_ROUTES: Final = re.compile(r"/\d{15,}")


@dataclass(eq=False)
class Fault:
    """What happens to the next request that fits: an answer in its place, or a cut before or after it."""

    method: str
    path: str
    status: int = 0
    body: Any = None
    headers: Mapping[str, str] | None = None
    cut: str = ""


@dataclass(frozen=True)
class Request:
    """One request as it came, and the status it got (0: cut)."""

    method: str
    path: str
    body: Any
    status: int
    at: float


class Rest(Interactions):
    """One application with one bot, one guild. `rates` has calls and seconds by method and kind of route."""

    def __init__(self, rates: Mapping[str, tuple[int, float]] | None = None) -> None:
        self.token = "fake-discord-token"  # noqa: S105 - opens nothing
        self.me = person("900000000000000001", "Hermes", bot=True)
        self.application = "900000000000000001"
        self.mention = f"<@{self.me['id']}>"
        self.world = World(self.me, "800000000000000001")
        self.cabinet = Cabinet(self.world)
        self.gateway = Gateway(self.token, self.me, self.application)
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.commands: list[dict[str, Any]] = []
        self.created = 0  # commands, today
        self.typing: list[str] = []
        self.reactions: list[tuple[str, str]] = []
        self.closed_to: dict[str, tuple[int, int]] = {}  # channel: status and code of every post
        self._rates = dict(rates or {"POST messages": (5, 5.0), "PATCH messages": (5, 5.0)})
        self._buckets: dict[str, Window] = {}

    async def tell(self, event: str, message: Mapping[str, Any], nonce: str | None = None) -> None:
        """Deliver an event about a message, once more if it was delivered before."""
        direct = self.world.channels[message["channel_id"]]["type"] == DIRECT
        await self.gateway.dispatch(event, self.world.announced(message, nonce), direct=direct)

    async def delete(self, channel: str, id: str) -> None:
        """Delete as its author."""
        event = self.world.announced(self.world.messages[channel].pop(id))
        data: dict[str, Any] = {key: event[key] for key in ("id", "channel_id", "guild_id") if key in event}
        await self.gateway.dispatch("MESSAGE_DELETE", data, direct="guild_id" not in data)

    # -- as the platform

    @web.middleware
    async def middle(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Every request passes here: faults, the token, the rate limits, the record."""
        if request.path == "/gateway":
            return await self.gateway.handle(request)
        if "/attachments/" in request.path:
            return await handler(request)
        body, uploads = await read(request)
        request[BODY], request[UPLOADS] = body, uploads
        path = request.path.removeprefix("/api/v10")
        fault = self._fault(request.method, path)
        response: web.StreamResponse
        if fault is not None and fault.cut == "before":
            return self._cut(request, path, body)
        if fault is not None and not fault.cut:
            headers = dict(fault.headers or {})
            response = answer(fault.body, fault.status, headers)
        else:
            response = await self._answer(request, path, handler)
        if fault is not None and fault.cut == "after":
            return self._cut(request, path, body)
        self.requests.append(Request(request.method, path, body, response.status, time.monotonic()))
        return response

    async def _answer(
        self,
        request: web.Request,
        path: str,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        try:
            open_ = path.startswith(("/interactions", "/webhooks"))
            if not open_ and request.headers.get("Authorization") != f"Bot {self.token}":
                raise Refusal(401, 0)
            wait, headers = self._take(request.method, path)
            if wait > 0.0:
                body, more = limited(wait)
                return answer(body, 429, {**headers, **more})
            response = await handler(request)
            response.headers.update(headers)
        except Refusal as refusal:
            return refusal.response()
        return response

    def _take(self, method: str, path: str) -> tuple[float, dict[str, str]]:
        kind = path.split("/")[3] if path.count("/") > 2 else path.strip("/")
        rate = self._rates.get(f"{method} {kind}")
        if rate is None or not path.startswith("/channels"):
            return 0.0, {}
        channel = path.split("/")[2]
        bucket = self._buckets.setdefault(f"{method} {kind} {channel}", Window(*rate))
        now = time.monotonic()
        wait = bucket.take(now)
        reset = bucket.calls[0] + bucket.seconds - now
        return wait, {
            "X-RateLimit-Limit": str(bucket.count),
            "X-RateLimit-Remaining": str(bucket.count - len(bucket.calls)),
            "X-RateLimit-Reset": f"{time.time() + reset:.3f}",
            "X-RateLimit-Reset-After": f"{reset:.3f}",
            "X-RateLimit-Bucket": f"{method}-{kind}",
        }

    def _fault(self, method: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.method == method and fault.path in path:
                self.faults.remove(fault)
                return fault
        return None

    def _cut(self, request: web.Request, path: str, body: Any) -> web.Response:
        self.requests.append(Request(request.method, path, body, 0, time.monotonic()))
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    def routes(self) -> list[web.RouteDef]:
        """Every route that there is; the platform has more."""
        api = "/api/v10"
        messages = f"{api}/channels/{{channel}}/messages"
        webhook = f"{api}/webhooks/{{application}}/{{token}}"
        return [
            web.get(f"{api}/users/@me", self._get_me),
            web.get(f"{api}/oauth2/applications/@me", self._get_application),
            web.get(f"{api}/channels/{{channel}}", self._get_channel),
            web.get(messages, self._get_messages),
            web.get(f"{messages}/{{message}}", self._get_message),
            web.post(messages, self._post_message),
            web.patch(f"{messages}/{{message}}", self._patch_message),
            web.delete(f"{messages}/{{message}}", self._delete_message),
            web.put(f"{messages}/{{message}}/reactions/{{emoji}}/@me", self._put_reaction),
            web.post(f"{api}/channels/{{channel}}/typing", self._post_typing),
            web.get(f"{api}/applications/{{application}}/commands", self._get_commands),
            web.put(f"{api}/applications/{{application}}/commands", self._put_commands),
            web.post(f"{api}/interactions/{{id}}/{{token}}/callback", self._post_callback),
            web.post(webhook, self._post_followup),
            web.patch(f"{webhook}/messages/@original", self._patch_original),
            web.delete(f"{webhook}/messages/@original", self._delete_original),
            web.get("/gateway", self._get_me),
            web.get("/attachments/{channel}/{id}/{name}", self.cabinet.serve),
        ]

    async def _get_me(self, request: web.Request) -> web.Response:
        return answer(self.me)

    async def _get_application(self, request: web.Request) -> web.Response:
        more = {"bot_public": True, "bot_require_code_grant": False, "verify_key": "00", "team": None}
        owner = person("1", "Owner")
        about = {"id": self.application, "name": "Hermes", "icon": None, "description": "", "owner": owner}
        return answer({**about, **more, "flags": self.gateway.flags, "summary": ""})

    async def _get_channel(self, request: web.Request) -> web.Response:
        return answer(self.world.found(request.match_info["channel"]))

    async def _get_message(self, request: web.Request) -> web.Response:
        place = request.match_info
        return answer(self.world.message(place["channel"], place["message"]))

    async def _get_messages(self, request: web.Request) -> web.Response:
        channel = request.match_info["channel"]
        self.world.found(channel)
        limit = int(request.query.get("limit", "50"))
        if not 1 <= limit <= 100:
            raise invalid("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 100.")
        ids = sorted(map(int, self.world.messages[channel]))
        if "after" in request.query:
            ids = [one for one in ids if one > int(request.query["after"])][:limit]
        elif "before" in request.query:
            ids = [one for one in ids if one < int(request.query["before"])][-limit:]
        else:
            ids = ids[-limit:]
        found = [self.world.messages[channel][str(one)] for one in reversed(ids)]
        return answer(found)

    async def _post_message(self, request: web.Request) -> web.Response:
        channel, body, uploads = request.match_info["channel"], request[BODY], request[UPLOADS]
        place = self.world.found(channel)
        if channel in self.closed_to:
            raise Refusal(*self.closed_to[channel])
        if place.get("thread_metadata", {}).get("locked"):
            raise Refusal(400, 50083)
        self.check_content(body, uploads)
        nonce = body.get("nonce")
        if nonce is not None and len(str(nonce)) > LONGEST_NONCE:
            raise invalid("nonce", "BASE_TYPE_MAX_LENGTH", "Must be 25 or fewer in length.")
        if nonce is not None and body.get("enforce_nonce") and nonce in self.world.nonces:
            return answer(self.world.message(channel, self.world.nonces[nonce]))
        reply_to = self._referenced(channel, body.get("message_reference"))
        fields = {"components": body.get("components", [])}
        message = self.world.write(
            channel, self.me, body.get("content") or "", reply_to=reply_to, fields=fields
        )
        self.cabinet.attach(message, uploads)
        if nonce is not None:
            self.world.nonces[nonce] = message["id"]
        await self.tell("MESSAGE_CREATE", message, nonce)
        return answer({**message, "nonce": nonce})

    def _referenced(self, channel: str, reference: Mapping[str, Any] | None) -> str | None:
        if reference is None:
            return None
        id_ = str(reference["message_id"])
        if id_ in self.world.messages[channel]:
            return id_
        if reference.get("fail_if_not_exists", True):
            raise invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
        return None

    async def _patch_message(self, request: web.Request) -> web.Response:
        place, body, uploads = request.match_info, request[BODY], request[UPLOADS]
        message = self.world.message(place["channel"], place["message"])
        if message["author"]["id"] != self.me["id"]:
            raise Refusal(403, 50005)
        self.check_content(body, uploads)
        message |= {"content": body["content"].strip(), "edited_timestamp": "2024-01-01T00:00:00+00:00"}
        message["components"] = body.get("components", message["components"])
        if "attachments" in body:
            self.cabinet.attach(message, uploads)
        await self.tell("MESSAGE_UPDATE", message)
        return answer(message)

    async def _delete_message(self, request: web.Request) -> web.Response:
        place = request.match_info
        self.world.message(place["channel"], place["message"])
        await self.delete(place["channel"], place["message"])
        return web.Response(status=204)

    async def _put_reaction(self, request: web.Request) -> web.Response:
        place = request.match_info
        self.world.message(place["channel"], place["message"])
        self.reactions.append((place["message"], place["emoji"]))
        return web.Response(status=204)

    async def _post_typing(self, request: web.Request) -> web.Response:
        self.world.found(request.match_info["channel"])
        self.typing.append(request.match_info["channel"])
        return web.Response(status=204)

    async def _get_commands(self, request: web.Request) -> web.Response:
        return answer(self.commands)

    async def _put_commands(self, request: web.Request) -> web.Response:
        wanted = request[BODY]
        if sum(one.get("type", 1) == 1 for one in wanted) > 100:
            raise Refusal(400, 30032)
        for one in wanted:
            if not NAME.match(one["name"]) or one["name"] != one["name"].lower():
                raise invalid("name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
            if not 1 <= len(one.get("description", "")) <= 100:
                raise invalid("description", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
        known = {one["name"]: one["id"] for one in self.commands}
        self.created += sum(one["name"] not in known for one in wanted)
        if self.created > DAILY:
            raise Refusal(400, 30034)
        basis = {"application_id": self.application, "type": 1, "version": "1", "nsfw": False}
        self.commands = [
            {"id": known.get(one["name"]) or self.world.snowflake(), **basis, **one} for one in wanted
        ]
        return answer(self.commands)


def _wait(seconds: float) -> dict[str, str]:
    return {"Retry-After": str(max(1, round(seconds))), "Via": "1.1 google"}


def limited(seconds: float, *, everywhere: bool = False) -> tuple[dict[str, Any], dict[str, str]]:
    """Body and headers of a 429."""
    body = {"message": "You are being rate limited.", "retry_after": round(seconds, 3), "global": everywhere}
    return body, {**_wait(seconds), "X-RateLimit-Scope": "user"}
