"""Notebook: the little that must outlive the process and that the platform does not tell a new one.

Per channel the id of the last message that was seen (D8), the ids of messages whose text was still being
written (R3), and the nonces of our latest messages (D5). A number that is too old costs one look at a known
message, never a message: the store knows what it has. So these are written a moment later. What nobody else
knows is written at once: that there is a channel, as a line at the end of a file beside the notebook that lasts
until the notebook is written; and that a text is being written.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec

__all__ = ["UNSURE", "Known", "Notebook"]

log = logging.getLogger("hermes.discord")

UNSURE: Final = "?"  # begins what stands in place of an id: the text of a message that is just being posted
MOST: Final = 5000  # channels; the one in which nothing happened for longest is dropped
LATEST: Final = 500  # nonces; a reply whose fate is unknown is among the last ones


class Known(msgspec.Struct):
    """A channel in which the agent was spoken to: its conversation, its guild, the last message seen."""

    address: str
    guild: str | None
    last: str


class _Pages(msgspec.Struct):
    channels: dict[str, Known] = {}
    posted: dict[str, str] = {}


Drafts = dict[str, dict[str, list[str]]]
T = TypeVar("T")


class Notebook:
    """`path` None: nothing is kept. A file that cannot be read is begun anew, and that is logged.

    What must be on the disk before a message goes out is in small files of their own, `drafts.json` and `met.jsonl`
    beside it.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._beside = path.with_name("drafts.json") if path is not None else None
        self._met = path.with_name("met.jsonl") if path is not None else None
        self._pages = _read(path, _Pages, _Pages())
        self._drafts = _read(self._beside, Drafts, {})
        self._dirty = False
        for channel, known in _lines(self._met):
            self._pages.channels.setdefault(channel, known)
            self._dirty = True
        self._dirty_drafts = False

    def channels(self) -> list[tuple[str, Known]]:
        """Every known channel, by id."""
        return list(self._pages.channels.items())

    def known(self, channel: str) -> Known | None:
        """What is known of this channel; None where the agent was never spoken to."""
        return self._pages.channels.get(channel)

    def meet(self, channel: str, address: str, guild: str | None, before: str) -> None:
        """The agent is spoken to in this channel; what comes after message `before` is to be taken up.

        A channel that is new is in a file when this returns: nothing else would lead a new process to it.
        """
        if channel in self._pages.channels:
            return
        known = self._pages.channels[channel] = Known(address, guild, before)
        if len(self._pages.channels) > MOST:
            del self._pages.channels[next(iter(self._pages.channels))]
        self._dirty = True
        _append(self._met, (channel, known))

    def seen(self, channel: str, id: str) -> None:
        """Message `id` of a known channel needs no second look."""
        known = self._pages.channels.pop(channel, None)
        if known is not None:
            known.last = max(known.last, id, key=int)
            self._pages.channels[channel] = known
            self._dirty = True

    def forget(self, channel: str) -> None:
        """The channel is not there any more."""
        if self._pages.channels.pop(channel, None) is not None:
            self._dirty = True

    def post(self, nonce: str, id: str) -> None:
        """The platform has told us of a message of ours."""
        self._pages.posted[nonce] = id
        if len(self._pages.posted) > LATEST:
            del self._pages.posted[next(iter(self._pages.posted))]
        self._dirty = True

    def posted(self) -> Mapping[str, str]:
        """The ids of our latest messages by their nonces."""
        return self._pages.posted

    def drafts(self, key: str) -> dict[int, list[str]]:
        """Ids of the messages in which this text was being written, by its part; the last one may be `UNSURE`."""
        return {int(part): list(ids) for part, ids in self._drafts.get(key, {}).items()}

    def unfinished(self) -> list[str]:
        """The keys of texts that were being written."""
        return list(self._drafts)

    def drafting(self, key: str, part: int, ids: list[str]) -> None:
        """These messages show a text that is not finished; written at once."""
        page = self._drafts.setdefault(key, {})
        if page.get(str(part)) != ids:
            page[str(part)] = list(ids)
            self._dirty_drafts = not _write(self._beside, self._drafts)

    def finished(self, key: str) -> None:
        """Nothing of this text is unfinished any more."""
        if self._drafts.pop(key, None) is not None:
            self._dirty_drafts = True

    def write(self) -> None:
        """Write what has changed; a disk that refuses is logged, and asked again with the next change."""
        if self._dirty:
            self._dirty = not _write(self._path, self._pages)
            if not self._dirty and self._met is not None:
                self._met.unlink(missing_ok=True)
        if self._dirty_drafts:
            self._dirty_drafts = not _write(self._beside, self._drafts)


def _read(path: Path | None, kind: type[T], nothing: T) -> T:
    if path is None or not path.exists():
        return nothing
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        log.warning("%s cannot be read and is begun anew: %s", path.name, error)
        return nothing


def _lines(path: Path | None) -> Iterator[tuple[str, Known]]:
    """What the lines of this file say. One that a crash cut off says nothing: its message was not taken yet."""
    if path is None or not path.exists():
        return
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        log.warning("%s cannot be read: %s", path.name, error)
        return
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError):
            yield msgspec.json.decode(line, type=tuple[str, Known])


def _append(path: Path | None, line: object) -> None:
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(b"\n" + msgspec.json.encode(line))  # in front: the line before may be cut off
    except OSError as error:
        log.warning("%s cannot be written: %s", path.name, error)


def _write(path: Path | None, content: object) -> bool:
    if path is None:
        return True
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_bytes(msgspec.json.encode(content))
        fresh.replace(path)
    except OSError as error:
        log.warning("%s cannot be written: %s", path.name, error)
        return False
    return True
