"""Watchdog: says who holds up the event loop, because everybody waits for whoever does (P2, case 45).

Theory of operation. A thread looks now and then where the loop's thread stands. While that waits for
something to happen, nothing more is done: an idle loop is never woken. Where it stands in code, the loop
is asked to give a sign; if none comes within the limit it is blocked, and the frames of its thread say by
whose code. So a blockage is noticed between `limit` and a quarter more after its beginning, and what is
shorter is not. A plugin that computes without a pause in another thread is no blockage.

Code in C may hold the interpreter, and this thread with it. That is noticed afterwards, by the time that
is missing here and was spent computing; a process that was merely not running (stopped, starved) spent
none, and is not reported.

The same thread looks at the memory of the process (`memory`).
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from types import FrameType
from typing import Final, Protocol

from hermes_core.plugins import Culprit, Work, outwards
from hermes_core.watchdog.memory import Memory

__all__ = ["Watchdog"]

log = logging.getLogger("hermes.watchdog")

_WAITING: Final = frozenset(
    {"selectors", "asyncio.base_events", "asyncio.runners", "asyncio.windows_events"}
)  # where the loop itself stands when it has nothing to do


class Suspects(Protocol):
    """What is known of plugins: `hermes_core.plugins.Plugins`."""

    def culprit(self, frame: FrameType) -> Culprit:
        """Whose code runs in this frame."""

    def blame(self, plugin: str, problem: str) -> None:
        """Keep a problem as this plugin's latest."""

    def worked(self) -> Work:
        """What plugins did since this was last asked."""


class Watchdog:
    """Watches the running event loop, which is that of the calling thread, from its making to `close`.

    `limit`: seconds for which it may be blocked. `step`: bytes by which memory may grow; 0: as it likes.
    """

    def __init__(self, plugins: Suspects, limit: float, step: int = 0) -> None:
        self._plugins = plugins
        self._memory = Memory(step) if step else None
        self._limit = limit
        self._period = limit / 4
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._turned = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._stand, name="watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        self._turned.set()
        self._thread.join(timeout=1.0)
        if self._memory is not None and not self._thread.is_alive():
            self._memory.close()

    def _stand(self) -> None:
        try:
            self._watch()
        except Exception as error:  # the edge of the thread: nobody else would say that it is gone
            log.error("the watchdog failed, and looks no more", exc_info=error)

    def _watch(self) -> None:
        looked, spent = time.monotonic(), time.process_time()
        while not self._closed.wait(self._period):
            now = time.monotonic()
            frame = sys._current_frames().get(self._watched)
            if frame is None:
                return
            late = now - looked - self._period
            if late >= self._limit and time.process_time() - spent > self._limit / 2:
                self._held(frame, late)
            waits = _waits(frame)
            if self._memory is not None:
                self._weigh(self._memory, None if waits else frame)
            if not waits:
                del frame
                if not self._look():
                    return
            looked, spent = time.monotonic(), time.process_time()

    def _weigh(self, memory: Memory, frame: FrameType | None) -> None:
        running = self._plugins.culprit(frame) if frame is not None and memory.grows() else None
        named = memory.look(self._plugins.worked(), running)
        for name in named if len(named) == 1 else ():
            self._plugins.blame(name, "the memory of the program grew much during its work")

    def _look(self) -> bool:
        """Have the loop give a sign, and say who keeps it from doing so; False where there is no loop any more."""
        self._turned.clear()
        began, spent = time.monotonic(), time.process_time()
        try:
            self._loop.call_soon_threadsafe(self._turned.set)
        except RuntimeError:
            return False
        while not self._turned.wait(self._limit):
            if self._closed.is_set():
                return False
            now = time.monotonic()
            starved = now - began > 2 * self._limit and time.process_time() - spent < self._limit / 2
            if not starved:
                return self._name(began)
            began, spent = now, time.process_time()  # nobody ran, we neither: begin again
        return not self._closed.is_set()

    def _name(self, began: float) -> bool:
        """It is blocked: by whom, once; and how long, when it is over."""
        frame = sys._current_frames().get(self._watched)
        if frame is None:
            return False
        if _waits(frame):
            return True  # it has begun to turn at this very instant
        culprit = self._plugins.culprit(frame)
        del frame
        self._report(culprit, f"has been blocked for {time.monotonic() - began:.1f} s")
        self._turned.wait()
        if self._closed.is_set():
            return False
        seconds = time.monotonic() - began
        log.warning("the event loop turns again; it was blocked for %.1f s by %s", seconds, culprit)
        self._blame(culprit, seconds)
        return True

    def _held(self, frame: FrameType, seconds: float) -> None:
        """Somebody held the interpreter itself. Where the loop's thread waits, it was another one."""
        if _waits(frame):
            log.error(
                "the whole program stood still for %.1f s: code in C computed in a thread without a pause",
                seconds,
            )
        else:
            culprit = self._plugins.culprit(frame)
            self._report(culprit, f"was blocked for {seconds:.1f} s")
            self._blame(culprit, seconds)

    def _report(self, culprit: Culprit, what: str) -> None:
        log.error("the event loop %s by %s; everybody waits for it", what, culprit)
        for name in culprit.plugins if len(culprit.plugins) == 1 else ():
            self._plugins.blame(name, f"blocks the event loop at {culprit.place}")

    def _blame(self, culprit: Culprit, seconds: float) -> None:
        for name in culprit.plugins if len(culprit.plugins) == 1 else ():
            self._plugins.blame(name, f"blocked the event loop for {seconds:.1f} s at {culprit.place}")


def _waits(frame: FrameType) -> bool:
    """Whether the loop's thread stands in the loop itself, and in nothing that the loop runs."""
    outermost = frame
    for one in outwards(frame):
        outermost = one
    stepping = outermost.f_back is not None  # `outwards` ended at what the loop runs
    return not stepping and frame.f_globals.get("__name__") in _WAITING
