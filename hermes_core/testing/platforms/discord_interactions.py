"""Interactions with the fake Discord: slash commands and buttons, and how they may be answered."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiohttp import web

from hermes_core.testing.platforms.discord_files import BODY, Upload, check
from hermes_core.testing.platforms.discord_world import LONGEST, Interaction, Refusal, World, answer, invalid

__all__ = ["Interactions"]

MESSAGE: Final = 4  # types of a first answer
DEFERRED: Final = 5
DEFERRED_UPDATE: Final = 6
EPHEMERAL: Final = 64
IN_TIME: Final = 3.0  # seconds in which an interaction must be answered


class Interactions:
    """The routes by which interactions are answered; `Rest` has the others."""

    world: World
    me: dict[str, Any]
    tell: Callable[..., Awaitable[None]]

    def check_content(self, body: Mapping[str, Any], uploads: list[Upload]) -> None:
        """Refuse a text, files and buttons that the platform would refuse."""
        content = body.get("content") or ""
        check(body, uploads)
        if not content.strip() and not uploads:
            raise Refusal(400, 50006)
        if len(content) > LONGEST:
            raise invalid("content", "BASE_TYPE_MAX_LENGTH", "Must be 2000 or fewer in length.")

    def _interaction(self, request: web.Request) -> Interaction:
        one = self.world.interactions.get(request.match_info["token"])
        if one is None:
            raise Refusal(404, 10015)
        if one.answered is None:
            raise Refusal(404, 10015)
        return one

    async def _post_callback(self, request: web.Request) -> web.Response:
        body = request[BODY]
        one = self.world.interactions.get(request.match_info["token"])
        if one is None or (one.answered is None and time.monotonic() - one.created > IN_TIME):
            raise Refusal(404, 10062)
        if one.answered is not None:
            raise Refusal(400, 40060)
        if body["type"] == DEFERRED_UPDATE and one.pressed is None:
            raise invalid("type", "BASE_TYPE_CHOICES", "This type is for components only.")
        one.answered, one.took = body["type"], time.monotonic() - one.created
        if body["type"] == DEFERRED_UPDATE:
            one.original = one.pressed
            return self._acknowledged(request, one, None)
        if body["type"] == MESSAGE and body["data"].get("flags", 0) & EPHEMERAL:
            one.aside = body["data"]["content"]
            return self._acknowledged(request, one, None)
        text = "…" if body["type"] == DEFERRED else body["data"]["content"]
        fields = {"flags": 128} if body["type"] == DEFERRED else {}
        message = self.world.write(one.channel, self.me, text, fields=fields)
        one.original = message["id"]
        return self._acknowledged(request, one, message)

    def _acknowledged(
        self, request: web.Request, one: Interaction, message: dict[str, Any] | None
    ) -> web.Response:
        if request.query.get("with_response") not in ("true", "True", "1"):
            return web.Response(status=204)
        about: dict[str, Any] = {"id": one.id, "type": 2 if one.pressed is None else 3}
        about |= {"response_message_loading": one.answered == DEFERRED, "response_message_ephemeral": False}
        resource: dict[str, Any] = {"type": one.answered}
        if message is not None:
            about["response_message_id"], resource["message"] = message["id"], message
        return answer({"interaction": about, "resource": resource})

    async def _patch_original(self, request: web.Request) -> web.Response:
        one, body = self._interaction(request), request[BODY]
        if one.original is None:
            raise Refusal(404, 10008)
        self.check_content(body, [])
        message = self.world.message(one.channel, one.original)
        message |= {"content": body["content"].strip(), "flags": 0}
        await self.tell("MESSAGE_UPDATE", message)
        return answer(message)

    async def _delete_original(self, request: web.Request) -> web.Response:
        one = self._interaction(request)
        if one.original is None:
            raise Refusal(404, 10008)
        self.world.messages[one.channel].pop(one.original)
        one.original, one.removed = None, True
        return web.Response(status=204)

    async def _post_followup(self, request: web.Request) -> web.Response:
        one, body = self._interaction(request), request[BODY]
        self.check_content(body, [])
        message = self.world.write(one.channel, self.me, body["content"])
        await self.tell("MESSAGE_CREATE", message)
        return answer(message)
