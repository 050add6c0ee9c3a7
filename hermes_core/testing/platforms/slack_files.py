"""The files of the fake Slack: uploaded, shared, and read by who may."""

from __future__ import annotations

import itertools
import json
import mimetypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hermes_core.testing.platforms.slack_rules import Refusal

__all__ = ["LOGIN", "Files", "Stored"]

LOGIN = "<!DOCTYPE html><html><head><title>Sign in to Example | Slack</title></head></html>"


@dataclass
class Stored:
    """A file: `content` is None until it was uploaded; `shares` are the channels and messages that show it."""

    id: str
    name: str
    length: int
    content: bytes | None = None
    title: str = ""
    shares: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    late: int = 0  # looks at it that do not show the shares yet
    pending: dict[str, Any] = field(default_factory=dict)


class Files:
    """`share(channel, thread, file)` makes the message that shows a file, and gives its time stamp.

    `root` is where they are served. `unreadable`: the app lacks the scope files:read, and gets a "page" to log in,
    or a "redirect" to one. A file is shown `late` looks after it was shared, as on Slack a moment passes; at the
    latest at `settle`. `breaks`: the number of bytes after which each of the next downloads is cut.
    """

    def __init__(self, share: Callable[[Mapping[str, Any], dict[str, Any]], str]) -> None:
        self.root = ""
        self.unreadable = ""
        self.late = 0
        self.breaks: list[int] = []
        self.stored: dict[str, Stored] = {}
        self._share = share
        self._ids = itertools.count(1)
        self.methods = {
            "files.completeUploadExternal": self._complete,
            "files.getUploadURLExternal": self._url,
            "files.info": self._info,
        }

    def add(self, name: str, content: bytes) -> dict[str, Any]:
        """A person uploads a file; gives it as it stands in an event."""
        file = self._new(name, len(content))
        file.content = content
        return self.shown(file)

    def shown(self, file: Stored) -> dict[str, Any]:
        """A file as Slack shows it."""
        url = f"{self.root}/files/{file.id}/download"
        return {
            "id": file.id,
            "name": file.name,
            "title": file.title or file.name,
            "mimetype": mimetypes.guess_type(file.name)[0] or "application/octet-stream",
            "size": len(file.content or b""),
            "mode": "hosted",
            "is_external": False,
            "file_access": "visible",
            "url_private": url,
            "url_private_download": url,
        }

    def read(self, id_: str, token: str, valid: str) -> tuple[int, str, bytes]:
        """What the server gives for a download: status, type, content. Who may not read gets a page to log in."""
        file = self.stored.get(id_)
        if self.unreadable == "redirect":
            return 302, "text/html", b""
        if token != valid or self.unreadable:
            return 200, "text/html", LOGIN.encode()
        if file is None or file.content is None:
            return 404, "text/html", b"<html>not found</html>"
        return 200, str(self.shown(file)["mimetype"]), file.content

    def upload(self, id_: str, content: bytes) -> int:
        """The status of an upload."""
        file = self.stored.get(id_)
        if file is None or len(content) != file.length:
            return 400
        file.content = content
        return 200

    def _new(self, name: str, length: int) -> Stored:
        id_ = f"F{next(self._ids):08d}"
        file = self.stored[id_] = Stored(id_, name, length)
        return file

    def _url(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        name, length = str(arguments.get("filename") or ""), str(arguments.get("length") or "")
        if not name:
            raise Refusal("invalid_arguments")
        if not length.isdecimal() or length == "0":
            raise Refusal("invalid_arguments")
        file = self._new(name, int(length))
        return {"upload_url": f"{self.root}/upload/{file.id}", "file_id": file.id}

    def _complete(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        given = arguments.get("files")
        files = json.loads(given) if isinstance(given, str) else given
        if not isinstance(files, list) or not files:
            raise Refusal("invalid_arguments")
        done = []
        for one in files:
            file = self.stored.get(str(one.get("id")))
            if file is None or file.content is None:
                raise Refusal("file_not_found")
            file.title, file.late, file.pending = (
                str(one.get("title") or file.name),
                self.late,
                dict(arguments),
            )
            if not file.late:
                self._show(file)
            done.append({"id": file.id, "title": file.title})
        return {"files": done}

    def settle(self) -> None:
        """What was shared is shown now."""
        for file in self.stored.values():
            self._show(file)

    def _show(self, file: Stored) -> None:
        arguments, file.pending = file.pending, {}
        if channel := arguments.get("channel_id"):
            ts = self._share(arguments, self.shown(file))
            file.shares.setdefault(str(channel), []).append({"ts": ts})

    def _info(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        file = self.stored.get(str(arguments.get("file") or ""))
        if file is None:
            raise Refusal("file_not_found")
        shown = self.shown(file)
        if file.late:
            file.late -= 1
        else:
            self._show(file)
            public = {key: one for key, one in file.shares.items() if not key.startswith("D")}
            private = {key: one for key, one in file.shares.items() if key.startswith("D")}
            shown["shares"] = {"public": public, "private": private}
        return {"file": shown}
