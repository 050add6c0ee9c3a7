"""Files of the fake Discord: uploads, the links under which they are fetched, and the end of these links."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from hermes_core.testing.platforms.discord_world import Refusal, World, invalid

__all__ = ["BODY", "LARGEST_REQUEST", "UPLOADS", "Cabinet", "Upload", "check", "read"]

LARGEST: Final = 10 * 1024 * 1024  # bytes of a file
LARGEST_REQUEST: Final = 25 * 1024 * 1024
MOST: Final = 10  # files of a message
MOST_BUTTONS: Final = 5
_TYPES: Final = {"png": "image/png", "txt": "text/plain; charset=utf-8"}
_UNSPELLED: Final = re.compile(r"[^A-Za-z0-9._-]")  # in the names of files

Upload = tuple[str, bytes]

BODY: Final[web.RequestKey[Any]] = web.RequestKey("body", object)  # of a request, as JSON
UPLOADS: Final[web.RequestKey[list[Upload]]] = web.RequestKey("uploads", list)  # and its files


@dataclass(eq=False)
class Cabinet:
    """Every file that was ever uploaded. `where` is the root of its links, which `expire` ends.

    `breaks`: the number of bytes after which each of the next downloads is cut.
    """

    world: World
    where: str = ""
    breaks: list[int] = field(default_factory=list)
    signature: int = 1
    fetched: list[tuple[str, int]] = field(default_factory=list)  # path and status of every download
    _content: dict[str, Upload] = field(default_factory=dict)

    def attach(self, message: dict[str, Any], uploads: Mapping[str, bytes] | list[Upload]) -> None:
        """Let the message have exactly these files."""
        pairs = list(uploads.items()) if isinstance(uploads, Mapping) else uploads
        message["attachments"] = [self._kept(message["channel_id"], name, data) for name, data in pairs]

    def _kept(self, channel: str, name: str, data: bytes) -> dict[str, Any]:
        id_ = self.world.snowflake()
        self._content[id_] = (name, data)
        kind = _TYPES.get(name.rpartition(".")[2])
        spelled = _UNSPELLED.sub("_", name)
        file = {"id": id_, "filename": spelled, "size": len(data), "content_type": kind}
        if spelled != name:
            file["title"] = name.rpartition(".")[0]
        return self._signed(channel, file)

    def _signed(self, channel: str, file: dict[str, Any]) -> dict[str, Any]:
        url = f"{self.where}/attachments/{channel}/{file['id']}/{file['filename']}?ex={self.signature}"
        return {**file, "url": url, "proxy_url": url}

    def expire(self) -> None:
        """Every link that was given out is dead; who asks for a message gets new ones."""
        self.signature += 1
        for channel, messages in self.world.messages.items():
            for message in messages.values():
                message["attachments"] = [self._signed(channel, one) for one in message["attachments"]]

    def content(self, message: Mapping[str, Any]) -> list[Upload]:
        """The files of a message."""
        return [self._content[one["id"]] for one in message["attachments"]]

    # -- as the platform

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """A download: 404 with a dead link, as the CDN says it; ranges are understood."""
        place = request.match_info
        known = any(
            one["id"] == place["id"]
            for message in self.world.messages.get(place["channel"], {}).values()
            for one in message["attachments"]
        )
        if not known or request.query.get("ex") != str(self.signature):
            self.fetched.append((request.path, 404))
            return web.Response(status=404, text="This content is no longer available.")
        begin = int(request.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        data = self._content[place["id"]][1][begin:]
        status = 206 if "Range" in request.headers else 200
        self.fetched.append((request.path, status))
        response = web.StreamResponse(status=status, headers={"Content-Length": str(len(data))})
        await response.prepare(request)
        if self.breaks:
            await response.write(data[: self.breaks.pop(0)])
            if request.transport is not None:
                request.transport.close()
            return response
        await response.write(data)
        return response


async def read(request: web.Request) -> tuple[Any, list[Upload]]:
    """The body of a request as JSON, and its files."""
    if not request.content_type.startswith("multipart/"):
        text = await request.text()
        return (json.loads(text) if text else None), []
    form = await request.post()
    body = json.loads(str(form["payload_json"]))
    uploads: list[Upload] = []
    for number, described in enumerate(body.get("attachments", ())):
        file = form.get(f"files[{described.get('id', number)}]")
        if isinstance(file, web.FileField):
            uploads.append((described.get("filename") or file.filename, file.file.read()))
    return body, uploads


def check(body: Mapping[str, Any], uploads: list[Upload]) -> None:
    """Refuse files and buttons that the platform would refuse."""
    if len(uploads) > MOST:
        raise invalid("attachments", "BASE_TYPE_MAX_LENGTH", "Must be 10 or fewer in length.")
    if (
        any(len(data) > LARGEST for _, data in uploads)
        or sum(len(one[1]) for one in uploads) > LARGEST_REQUEST
    ):
        raise Refusal(413, 40005)
    ids: list[str] = []
    for row in body.get("components", ()):
        if row["type"] != 1 or not 1 <= len(row["components"]) <= MOST_BUTTONS:
            raise invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
        for one in row["components"]:
            if not 1 <= len(one.get("custom_id", "")) <= 100:
                raise invalid("custom_id", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
            if not 1 <= len(one.get("label", "")) <= 80:
                raise invalid("label", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 80 in length.")
            ids.append(one["custom_id"])
    if len(set(ids)) < len(ids):
        duplicated = "Component custom id cannot be duplicated"
        raise invalid("custom_id", "COMPONENT_CUSTOM_ID_DUPLICATED", duplicated)
