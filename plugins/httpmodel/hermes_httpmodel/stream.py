"""How an answer is put together again from the bytes of a stream, whatever the provider's form."""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from hermes_core.errors import HermesError
from hermes_core.models import Delta
from hermes_core.sse import Decoder, Event
from hermes_httpmodel import faults

__all__ = ["Assembly", "Events", "read"]

_T = TypeVar("_T")


class Assembly(Protocol):
    """Puts one answer together: `feed` it the bytes as they come, or the `whole` of them, then `end`.

    Text comes out at once, all else at the end. Pure: it reads nothing and waits for nothing. Each
    method raises `ModelError` for what cannot be read and for what the server reports.
    """

    @property
    def finished(self) -> bool:
        """Whether the model has ended its answer; usage may follow."""

    def feed(self, piece: bytes) -> list[Delta]:
        """Take bytes in, cut anywhere."""

    def whole(self, body: bytes) -> list[Delta]:
        """Take the answer of a server that does not stream."""

    def end(self) -> list[Delta]:
        """Nothing follows: gives the rest and the `Stop`; an error where the answer was cut."""


class Events:
    """Server-sent events out of bytes; `ModelError` for one that does not end."""

    def __init__(self) -> None:
        self._decoder = Decoder()

    def feed(self, piece: bytes) -> list[Event]:
        """Take bytes in, cut anywhere; gives the events that they completed."""
        try:
            return self._decoder.feed(piece)
        except HermesError as error:
            raise faults.malformed("a chunk that does not end") from error

    def end(self) -> list[Event]:
        """The event that no blank line has ended: many servers forget the last one."""
        return self._decoder.end()


def read(data: str, decoder: msgspec.json.Decoder[_T]) -> _T:
    """`data` as the provider's form of a chunk; `ModelError` says what is wrong with it."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        cause = faults.Detail(f"{error}: {data[:200]!r}")
        raise faults.malformed("a chunk of an unknown form") from cause
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise faults.malformed("a chunk that is no JSON") from faults.Detail(f"{error}: {data[:200]!r}")
