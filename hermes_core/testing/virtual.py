"""Virtual time: an event loop whose clock jumps to the next timer when nothing else is to be done.

A test under it waits for nothing: an hour passes in a millisecond, in the exact order of the timers.
Only for tests without sockets, processes and threads; those have their own time.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar, TypeVarTuple

__all__ = ["VirtualLoop", "run"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Selector(selectors.BaseSelector):
    """Never waits: where the loop would, it moves the loop's clock."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError(
                "Nothing is left to be done, and yet something is awaited: the test hangs here."
            )
        self.now += max(timeout, 0.0)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with a virtual clock; `time()` starts at 0 seconds."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Seconds of virtual time."""
        return self._virtual.now

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """What `asyncio.to_thread` is given is done at once, in no time: a thread has its own."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - carried to whoever awaits it
            done.set_exception(error)
        return done


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` in virtual time. RuntimeError where everything waits for something that cannot come."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
