"""Done: what is done already at the call, and awaited like what takes its time."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, Generic, TypeVar

from hermes_core.errors import StoreError

__all__ = ["DONE", "Done", "Refused"]

_T = TypeVar("_T")


class Done(Generic[_T]):
    """An awaitable that gives `value` at once, as often as it is awaited."""

    __slots__ = ("value",)

    def __init__(self, value: _T) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, None, _T]:
        yield from ()
        return self.value


DONE: Final[Done[None]] = Done(None)


class Refused(Done[Any]):
    """Raises `StoreError` at once, as often as it is awaited."""

    def __await__(self) -> Generator[Any, None, Any]:
        yield from ()
        raise StoreError(self.value)
