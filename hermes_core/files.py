"""Files: what came in is fetched when it is first needed and kept for a while; what goes out stays until it is sent.

Theory of operation. Nothing is fetched on the path of a message: an attachment is a name and a
reference until a tool or a model wants its content. Then it is read from the platform into a file of the
data folder, whose name is made from the reference: written beside it and renamed, so that a crash leaves
no half file, and read from there ever after. A file that goes out is written and synced before the row of
the outbox that names it is committed (D1, D3). At a start, files older than `[files] keep` are removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import mimetypes
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast

import msgspec

from hermes_core.adapter import Adapter, Downloads, Features
from hermes_core.config import FilesSettings
from hermes_core.errors import HermesError, StoreUnwritable, reason
from hermes_core.file import file_id, sized
from hermes_core.messages import Address, Attachment, Item, Outgoing, Said
from hermes_core.store import Store

__all__ = ["Files", "fitted"]

log = logging.getLogger("hermes.files")

_PLAIN: Final = re.compile(r"[^\w.() +-]")
_LONGEST_NAME: Final = 120


class Files:
    """The files of all conversations, in `folder`."""

    def __init__(
        self,
        folder: Path,
        settings: FilesSettings,
        adapters: Mapping[str, Adapter],
        store: Store,
        put: Callable[[Outgoing], None],
        hide: Callable[[str], str] = str,
    ) -> None:
        self._in = folder / "in"
        self._out = folder / "out"
        self._settings = settings
        self._adapters = adapters
        self._store = store
        self._put = put
        self._hide = hide
        self._fetching: dict[Path, asyncio.Lock] = {}

    def of(self, address: Address, items: Callable[[], tuple[Item, ...]]) -> _Here:
        """Those of one conversation; `items` gives what stands in its context now."""
        return _Here(self, address, items)

    def purge(self) -> None:
        """Remove what is older than `[files] keep`, and what a crash left half."""
        oldest = time.time() - self._settings.keep
        for folder in (self._in, self._out):
            with contextlib.suppress(FileNotFoundError):
                for file in list(folder.iterdir()):
                    try:
                        if file.stat().st_mtime < oldest or file.suffix == ".part":
                            file.unlink()
                    except OSError as error:
                        log.warning("an old file cannot be removed: %s", error)

    async def read(self, address: Address, attachment: Attachment) -> bytes:
        """See `ConversationFiles.read`."""
        name = hashlib.sha256(f"{address.platform}\n{address.account}\n{attachment.ref}".encode()).hexdigest()
        file = self._in / name[:32]
        lock = self._fetching.setdefault(file, asyncio.Lock())
        try:
            async with lock:
                try:
                    return await asyncio.to_thread(file.read_bytes)
                except FileNotFoundError:
                    await self._fetch(address, attachment, file)
                return await asyncio.to_thread(file.read_bytes)
        except OSError as error:
            log.error("a file could not be kept", exc_info=error)
            raise HermesError(f"{attachment.name} could not be kept: there is no room for it.") from error
        finally:
            if not lock.locked():
                self._fetching.pop(file, None)

    async def _fetch(self, address: Address, attachment: Attachment, file: Path) -> None:
        adapter = self._adapters.get(address.platform)
        if adapter is None or not adapter.features.downloads:
            raise HermesError(f"{attachment.name} cannot be read: {address.platform} gives out no files.")
        most = self._settings.max_bytes
        if (attachment.size or 0) > most:
            raise _too_large(attachment, most)
        self._in.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f"{file.name}.{secrets.token_hex(4)}.part")
        size = 0
        try:
            with part.open("wb") as handle:
                pieces = cast("Downloads", adapter).fetch(attachment)
                try:
                    async for piece in pieces:
                        size += len(piece)
                        if size > most:
                            raise _too_large(attachment, most)
                        handle.write(piece)
                finally:
                    close = getattr(pieces, "aclose", None)
                    if close is not None:
                        await close()
            part.replace(file)
        except (HermesError, OSError):
            raise
        except Exception as error:  # the edge to foreign code: an adapter's fault is one failed read
            why = reason(error, self._hide)
            log.error("adapter %s failed to fetch a file: %s", adapter.platform, why, exc_info=error)
            raise HermesError(f"{attachment.name} could not be fetched.", "Try again later.") from error
        finally:
            part.unlink(missing_ok=True)

    async def send(self, address: Address, name: str, content: bytes, text: str) -> None:
        """See `ConversationFiles.send`."""
        adapter = self._adapters.get(address.platform)
        most = adapter.features.max_file if adapter is not None else 0
        name = (
            _PLAIN.sub("_", name.replace("\\", "/").rpartition("/")[2]).strip(". ")[-_LONGEST_NAME:] or "file"
        )
        if not content:
            raise HermesError(f"{name} is empty, and platforms take no empty files.", "Say so in words.")
        if not most:
            raise HermesError(f"{address.platform} takes no files.", "Give the content as text.")
        if len(content) > most:
            raise HermesError(
                f"{name} has {sized(len(content))}; {address.platform} takes at most {sized(most)}.",
                "Make it smaller, or send it in parts.",
            )
        key = f"{address}#file:{secrets.token_hex(8)}"
        file = self._out / f"{secrets.token_hex(8)}-{name}"
        try:
            await asyncio.to_thread(_write, file, content)
        except OSError as error:
            raise StoreUnwritable("The file cannot be kept.", "Free some space.") from error
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        outgoing = Outgoing(
            key, address, text, attachments=(Attachment(name, kind, len(content), str(file)),)
        )
        await self._store.post(outgoing)
        self._put(outgoing)


class _Here:
    """`ConversationFiles` of one address."""

    def __init__(self, files: Files, address: Address, items: Callable[[], tuple[Item, ...]]) -> None:
        self._files = files
        self._address = address
        self._items = items

    def find(self, id: str) -> Attachment | None:
        for item in reversed(self._items()):
            if isinstance(item, Said):
                for one in reversed(item.attachments):
                    if file_id(one) == id:
                        return one
        return None

    async def read(self, attachment: Attachment) -> bytes:
        return await self._files.read(self._address, attachment)

    async def send(self, name: str, content: bytes, text: str = "") -> None:
        await self._files.send(self._address, name, content, text)


def fitted(outgoing: Outgoing, features: Features) -> Outgoing:
    """`outgoing` as a platform with these features can show it: what does not go along is said in the text.

    So it may be called for every message; most come back as they are.
    """
    if not outgoing.attachments and not outgoing.choices:
        return outgoing
    choices = outgoing.choices if features.buttons else ()
    kept, lost = [], []
    for one in outgoing.attachments:
        if not Path(one.ref).is_file():
            lost.append(f"[{one.name} is gone and was not sent.]")
        elif not features.max_file:
            lost.append(f"[{one.name} was not sent: no files can be sent here.]")
        elif (one.size or 0) > features.max_file:
            lost.append(f"[{one.name}, {sized(one.size or 0)}, was not sent: it is too large for here.]")
        else:
            kept.append(one)
    text = "\n\n".join(filter(None, [outgoing.text, *lost]))
    return msgspec.structs.replace(outgoing, text=text, attachments=tuple(kept), choices=choices)


def _too_large(attachment: Attachment, most: int) -> HermesError:
    return HermesError(
        f"{attachment.name} is larger than {sized(most)}, the most that is read.",
        "The operator can change it: [files] max_bytes.",
    )


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("xb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())
