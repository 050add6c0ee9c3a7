"""Files: those that go out with a message, and the content of those that came with one.

Theory of operation. A file is uploaded under an id of its own, and then shared into the conversation; only the
second step shows anything. So the id is kept before it: whoever does not know whether a file was shared asks
Slack about the id, also after a crash, and uploads once more only what is certainly not there (D5).
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

import aiohttp
from yarl import URL

from hermes_core.download import resumed
from hermes_core.errors import HermesError, SendError
from hermes_core.messages import Address, Attachment
from hermes_core.recent import Recent
from hermes_core.writing import Place, kept
from hermes_slack.client import Client, in_thread
from hermes_slack.faults import word_of

__all__ = ["Files", "Unwanted"]

log = logging.getLogger("hermes.slack")

_TEXTS: Final = 200  # whose uploads are remembered
_LOOKS: Final = 5  # at a file that may just be on its way into the conversation
_LOOK: Final = 0.4  # seconds between two
_BROKEN: Final = (aiohttp.ClientError, TimeoutError)
_PIECE: Final = 65_536
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=60.0)
_SLACK: Final = (".slack.com", ".slack-gov.com", ".slack-files.com", ".slack-edge.com")


class Unwanted(HermesError):
    """A file cannot be shared; the text says why, in the file's place."""


class Files:
    """The files of one connection. Its token goes to Slack's own servers and to `base_url`, and nowhere else (X2).

    `path` keeps the ids of what was uploaded.
    """

    def __init__(self, client: Client, path: Path | None) -> None:
        self._client = client
        self._path = path
        # by the key of a message: the ids of what was uploaded in place of its messages, "" for all others
        self._uploads = Recent[str, list[str]](_TEXTS)
        self._uploads.update(kept.read(path, dict[str, list[str]], {}))

    # -- out

    async def share(self, place: Place, of: int, file: Attachment) -> str:
        """Share a file as one of `of` messages; gives its id. `Unwanted` if Slack will never take it."""
        ids = self._uploads[place.key] = self._uploads.get(place.key, [])
        ids += [""] * (of - len(ids))
        try:
            ids[place.index] = await self._upload(file)
            kept.write(self._path, self._uploads)
            await self._show(ids[place.index], file, place.address)
        except OSError as error:
            raise Unwanted(f"{file.name} cannot be read: {error.strerror}.") from error
        except SendError as error:
            if error.permanent or error.unknown or error.retry_after is not None or not word_of(error):
                raise
            ids[place.index] = ""
            raise Unwanted(f"Slack does not take {file.name}: {word_of(error)}.") from error
        return ids[place.index]

    async def shared(self, key: str, address: Address) -> list[str | None]:
        """The files that stand there among the messages with this key, each in its place."""
        ids = self._uploads.get(key, ())
        return [id_ if id_ and await self._stands(id_, address) else None for id_ in ids]

    async def _upload(self, attachment: Attachment) -> str:
        path = Path(attachment.ref)
        size = (await asyncio.to_thread(path.stat)).st_size
        answer = await self._client.read(
            "files.getUploadURLExternal", filename=attachment.name, length=str(size)
        )
        content = await asyncio.to_thread(path.open, "rb")
        try:
            async with self._client.http.post(
                str(answer["upload_url"]), data=content, timeout=_TIMEOUT
            ) as response:
                if response.status != 200:
                    raise SendError(f"Slack did not take the upload (status {response.status}).")
        except (aiohttp.ClientError, TimeoutError) as error:
            raise SendError("The connection to Slack broke during an upload.") from error
        finally:
            content.close()
        return str(answer["file_id"])

    async def _show(self, id_: str, attachment: Attachment, address: Address) -> None:
        place = in_thread(address)
        place["channel_id"] = place.pop("channel")
        files = [{"id": id_, "title": attachment.name}]
        await self._client.call("files.completeUploadExternal", files=files, **place)
        await self._stands(id_, address)  # it is shown a moment later: what follows must stand behind it

    async def _stands(self, id_: str, address: Address) -> bool:
        for look in range(_LOOKS):
            if look:
                await asyncio.sleep(_LOOK)
            try:
                answer = await self._client.read("files.info", file=id_)
            except SendError as error:
                if word_of(error) in ("file_not_found", "file_deleted", "missing_scope"):
                    return False
                raise
            shares = (answer.get("file") or {}).get("shares") or {}  # public and private ones
            if any(address.channel in one for one in shares.values()):
                return True
        return False

    # -- in

    def fetch(self, attachment: Attachment) -> AsyncGenerator[bytes, None]:
        """See `Downloads.fetch`."""

        def pause(error: Exception, usual: float | None) -> float:
            if usual is None:
                status = isinstance(error, aiohttp.ClientResponseError) and f"status {error.status}"
                why = f"{attachment.name} could not be read from Slack ({status or type(error).__name__})."
                raise HermesError(why, "Try it again later.") from error
            return usual

        return resumed(functools.partial(self._pieces, attachment), _BROKEN, pause)

    async def _pieces(self, attachment: Attachment, known: int) -> AsyncGenerator[tuple[int, bytes], None]:
        async with self._client.http.get(
            await self._url(attachment),
            headers={"Authorization": f"Bearer {self._client.token}"},
            allow_redirects=False,  # Slack sends whom it does not know to a page where people log in
            timeout=_TIMEOUT,
        ) as response:
            if response.status >= 429:
                response.raise_for_status()
            _check(attachment, response)
            at = 0
            async for piece in response.content.iter_chunked(_PIECE):
                yield at, piece
                at += len(piece)

    async def _url(self, attachment: Attachment) -> URL:
        ref = attachment.ref
        if not ref.startswith(("https://", "http://")):  # of another workspace: Slack gives the id only
            try:
                answer = await self._client.read("files.info", file=ref)
            except SendError as error:
                raise HermesError(
                    f"Slack does not give {attachment.name} ({word_of(error) or error.message}).",
                    "It may be deleted, or the app may lack the scope files:read.",
                ) from error
            file = answer.get("file") or {}
            ref = str(file.get("url_private_download") or file.get("url_private") or "")
        url = URL(ref)
        own = url.is_absolute() and url.origin() == URL(self._client.base_url).origin()
        if not own and not (url.scheme == "https" and f".{url.host}".endswith(_SLACK)):
            raise HermesError(
                f"{attachment.name} is not kept by Slack but elsewhere.", "Upload the file itself instead."
            )
        return url


def _check(attachment: Attachment, response: aiohttp.ClientResponse) -> None:
    """`HermesError` for everything but the file; a page to log in comes with the status 200, too."""
    other = attachment.media_type != "text/html" or response.content_length not in (None, attachment.size)
    page = response.content_type == "text/html" and other
    if response.status == 200 and not page:
        return
    if page or response.status in (301, 302, 303, 307, 308, 401, 403):
        raise HermesError(
            f"Slack does not let this app read {attachment.name}.",
            "Add the scope files:read to the app, and install it to the workspace again.",
        )
    raise HermesError(f"{attachment.name} is not on Slack any more (status {response.status}).")
