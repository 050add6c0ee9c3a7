"""Notebook: the little that must outlive the process and that the platform does not tell a new one.

Per channel the id of the last message that was seen (D8), and the nonces of our latest messages (D5). A number
that is too old costs one look at a known message, never a message: the store knows what it has. So these are
written a moment later. That there is a channel nobody else knows: it is written at once, as a line at the end of
a file beside the notebook that lasts until the notebook is written.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from hermes_core.writing import kept

__all__ = ["Known", "Notebook"]

log = logging.getLogger("hermes.discord")

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


class Notebook:
    """`path` None: nothing is kept. A file that cannot be read is begun anew, and that is logged."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._met = path.with_name("met.jsonl") if path is not None else None
        self._pages = kept.read(path, _Pages, _Pages())
        self._dirty = False
        for channel, known in kept.lines(self._met, tuple[str, Known]):
            self._pages.channels.setdefault(channel, known)
            self._dirty = True

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
        try:
            kept.append(self._met, (channel, known))
        except OSError as error:
            log.warning("a channel that is new cannot be noted at once: %s", error.strerror)

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

    def write(self) -> None:
        """Write what has changed; a disk that refuses is logged, and asked again with the next change."""
        if self._dirty:
            self._dirty = not kept.write(self._path, self._pages)
            if not self._dirty and self._met is not None:
                self._met.unlink(missing_ok=True)
