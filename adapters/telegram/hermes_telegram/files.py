"""Files in both directions, a piece at a time: none is ever whole in memory."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path, PurePath
from typing import Final
from urllib.parse import quote

import httpx
import telegram
from telegram.error import BadRequest, NetworkError, TelegramError

from hermes_core.download import resumed
from hermes_core.errors import HermesError
from hermes_core.messages import Attachment
from hermes_telegram import limits
from hermes_telegram.request import Flood

__all__ = ["Files", "is_photo", "opened"]

_PIECE: Final = 256 * 1024  # bytes that are read at once
_BROKEN: Final = (Flood, NetworkError, httpx.HTTPError, TimeoutError)
_TIMEOUT: Final = 20.0  # seconds without a byte
_UNSEEN: Final = "\x00\r\n/\\"


class Files:
    """The files of one bot. `local`: its server keeps them on a disk that may be this machine's."""

    def __init__(self, bot: telegram.Bot, *, local: bool) -> None:
        self._bot = bot
        self._local = local
        self._http: httpx.AsyncClient | None = None

    async def close(self) -> None:
        """Drop the connections; what is still read ends with an error."""
        if self._http is not None:
            await self._http.aclose()

    def content(self, attachment: Attachment) -> AsyncGenerator[bytes, None]:
        """See `Downloads.fetch`."""
        name = attachment.name
        if not self._local and (attachment.size or 0) > limits.DOWNLOAD:
            raise _too_large(name)

        def pause(error: Exception, usual: float | None) -> float:
            wait = error.seconds if isinstance(error, Flood) else usual
            if usual is None or wait is None or wait > _TIMEOUT:
                raise HermesError(f"Telegram does not give {name} now.", "Try again later.") from None
            return wait

        return resumed(functools.partial(self._begin, attachment), _BROKEN, pause)

    async def _begin(self, attachment: Attachment, known: int) -> AsyncGenerator[tuple[int, bytes], None]:
        async with asyncio.timeout(_TIMEOUT):
            where = await self._where(attachment)
        at = 0
        async with contextlib.aclosing(self._pieces(where, attachment.name)) as pieces:
            async for piece in pieces:
                yield at, piece
                at += len(piece)

    async def _where(self, attachment: Attachment) -> str:
        """Its address at the server, or its path on this machine."""
        try:
            file = await self._bot.get_file(attachment.ref)
        except BadRequest as error:
            if "too big" in error.message.lower():
                raise _too_large(attachment.name) from None
            raise HermesError(
                f"Telegram does not have {attachment.name} any more.", "Ask for it to be sent again."
            ) from None
        except (Flood, NetworkError):
            raise
        except TelegramError:
            raise HermesError(f"Telegram does not let the bot read {attachment.name}.") from None
        path = (file.file_path or "").removeprefix(f"{self._bot.base_file_url}/")  # the library puts it there
        if path.startswith("/") and self._local:
            return path
        return f"{self._bot.base_file_url}/{quote(path)}"

    async def _pieces(self, where: str, name: str) -> AsyncGenerator[bytes, None]:
        if where.startswith("/"):
            try:
                with await asyncio.to_thread(Path(where).open, "rb") as file:
                    while piece := await asyncio.to_thread(file.read, _PIECE):
                        yield piece
            except OSError:
                raise HermesError(
                    f"{name} cannot be read where the Bot API server keeps it.",
                    "With local_server = true its folder has to be readable by this program.",
                ) from None
            return
        if self._http is None or self._http.is_closed:
            self._http = httpx.AsyncClient(timeout=_TIMEOUT)
        async with self._http.stream("GET", where) as answer:
            if answer.status_code == httpx.codes.NOT_FOUND:
                raise HermesError(f"Telegram does not have {name} any more.", "Ask for it to be sent again.")
            if answer.is_error:
                raise NetworkError(f"Telegram answered {answer.status_code}")
            async for piece in answer.aiter_bytes(_PIECE):
                yield piece


def is_photo(file: Attachment) -> bool:
    """Whether Telegram can show it as a picture; it may refuse to all the same."""
    return file.media_type in limits.PHOTOS and 0 < (file.size or _size(file)) <= limits.PHOTO


@contextlib.contextmanager
def opened(file: Attachment) -> Iterator[telegram.InputFile]:
    """What goes out, read while it is sent; `OSError` where it cannot be read."""
    name = "".join(one for one in PurePath(file.name).name if one not in _UNSEEN) or "file"
    with Path(file.ref).open("rb") as handle:
        yield telegram.InputFile(handle, filename=name, read_file_handle=False)


def _size(file: Attachment) -> int:
    try:
        return Path(file.ref).stat().st_size
    except OSError:
        return 0


def _too_large(name: str) -> HermesError:
    return HermesError(
        f"{name} is larger than {limits.DOWNLOAD // 2**20} MB, and Telegram gives a bot no larger files.",
        "Send it in parts, or as a link.",
    )
