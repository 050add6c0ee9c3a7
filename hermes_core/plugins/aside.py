"""Aside: plain functions of plugins run in threads of their own, so that they hold up nobody.

Each call has a thread, and no pool is shared: what hangs in one plugin takes no thread from another. A
thread cannot be ended; one whose caller has given up goes on by itself, and does not keep the program.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final

from hermes_core.errors import CommandError

__all__ = ["Aside"]

AT_ONCE: Final = 16  # calls of one plugin that may be running; more are refused


class Aside:
    """Runs plain functions beside the event loop, and counts for each plugin what has not ended."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()

    async def call(self, plugin: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """What `function` gives; it runs on after a cancellation. `CommandError` where too many have not ended."""
        if self._running[plugin] >= AT_ONCE:
            raise CommandError(
                f"The plugin {plugin} is busy: {AT_ONCE} of its calls have not ended.", "Try again later."
            )
        self._running[plugin] += 1
        loop = asyncio.get_running_loop()

        def work() -> tuple[Any, BaseException | None]:
            # An exception is handed on by itself: a future does not take every kind of one.
            try:
                return function(*arguments), None
            except BaseException as error:  # noqa: BLE001 - carried to the caller, which tells them apart
                return None, error

        running = loop.run_in_executor(_Threads(plugin), contextvars.copy_context().run, work)
        try:
            value, error = await asyncio.shield(running)
        finally:
            if running.done():
                self._ended(plugin)
            else:
                running.add_done_callback(lambda _: self._ended(plugin))
        if error is not None:
            raise error
        return value

    def running(self, plugin: str) -> int:
        """How many calls of this plugin have not ended."""
        return self._running[plugin]

    def _ended(self, plugin: str) -> None:
        self._running[plugin] -= 1
        if not self._running[plugin]:
            del self._running[plugin]


class _Threads(Executor):
    """A daemon thread for each call: an exit of the program waits for none."""

    def __init__(self, plugin: str) -> None:
        self._name = f"plugin {plugin}"

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Begin `function` in a new thread."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()

        def run() -> None:
            value = function(*arguments, **named)
            try:
                future.set_result(value)
            except RuntimeError:
                return  # the event loop is closed: nobody wants it any more

        threading.Thread(target=run, name=self._name, daemon=True).start()
        return future
