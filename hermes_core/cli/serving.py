"""Runs the house until it is done or a signal ends it.

The first signal stops in order; the second, or ten seconds, ends the process where it stands. That
loses nothing: what was accepted is in the store and goes on at the next start (D6). A stop in order
ends with code 0 also where foreign code did not let itself be ended: tasks and threads that go on are
named in the log, and the process ends without waiting for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NoReturn

from hermes_core.config import Config
from hermes_core.errors import StoreError
from hermes_core.listed import nobodies
from hermes_core.runtime import Door, Runtime

__all__ = ["lasting", "serve"]

log = logging.getLogger("hermes.runtime")

LIMIT: Final = 9.7  # seconds from the first signal to the end of the process, whatever happens
ROUNDS: Final = 3  # cancellations that a task may swallow when everything is down
ROUND: Final = 0.2  # seconds for each
THREADS: Final = 0.3  # seconds that threads have to end by themselves then
YOUNG: Final = 10_000  # objects that are made until the collector looks at them: some 60 messages at once


def serve(
    config: Config,
    *,
    adapters: Sequence[str] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    on_ready: Callable[[str], None] | None = None,
    interruptible: bool = True,
    doors: Sequence[Door] = (),
) -> int:
    """Run these adapters (None: all that are enabled) until they are done; gives the exit code.

    `interruptible` is False where Ctrl+C belongs to an adapter. `HermesError` where it cannot start.
    """
    stop = _Stop()
    runner = asyncio.Runner()
    in_order = False
    try:
        runner.run(_serve(config, stop, adapters, options, on_ready, interruptible, doors))
        in_order = True
    except StoreError as error:  # people in a chat see no path; who starts the program needs it
        place = f"{error.message} The data folder is {config.runtime.data_dir}."
        raise StoreError(place, error.advice) from error
    except asyncio.CancelledError:
        if not stop.asked:
            raise
        in_order = True  # a signal came before the house stood
    finally:
        left = [*runner.run(_let_go()), *_threads()]
        for name in left:
            log.error("%s did not let itself be ended and is abandoned", name)
        if not left:
            runner.close()
        elif in_order:
            _leave("", 0)  # the interpreter would wait for them
        stop.done(ring=bool(left))
    return 0


async def _let_go() -> list[str]:
    """End every task that is left, in bounded time; gives the names of those that go on."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for _ in range(ROUNDS):
        if not tasks:
            break
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=ROUND)
    loop = asyncio.get_running_loop()
    generators = asyncio.ensure_future(loop.shutdown_asyncgens())
    _, open_ = await asyncio.wait({generators}, timeout=ROUND)
    return [*(task.get_name() for task in tasks), *(["an asynchronous generator"] if open_ else [])]


def _threads() -> list[str]:
    """Names of the threads that go on although they had time, and for which the interpreter would wait."""
    until = time.monotonic() + THREADS
    ours = [one for one in threading.enumerate() if not one.daemon and one is not threading.main_thread()]
    for one in ours:
        one.join(max(0.0, until - time.monotonic()))
    return [f"thread {one.name}" for one in ours if one.is_alive()]


async def _serve(
    config: Config,
    stop: _Stop,
    adapters: Sequence[str] | None,
    options: Mapping[str, Mapping[str, Any]] | None,
    on_ready: Callable[[str], None] | None,
    interruptible: bool,
    doors: Sequence[Door],
) -> None:
    task = asyncio.current_task()
    assert task is not None
    stop.ask = task.cancel
    stop.listen(("SIGTERM", "SIGHUP", *(["SIGINT"] if interruptible else [])))
    # Ours, so that its threads can be let go of without waiting.
    executor = ThreadPoolExecutor(thread_name_prefix="hermes")
    asyncio.get_running_loop().set_default_executor(executor)
    try:
        await _live(config, stop, adapters, options, on_ready, doors)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


async def _live(
    config: Config,
    stop: _Stop,
    adapters: Sequence[str] | None,
    options: Mapping[str, Mapping[str, Any]] | None,
    on_ready: Callable[[str], None] | None,
    doors: Sequence[Door],
) -> None:
    house = Runtime(config, adapters=adapters, options=options or {}, on_ready=on_ready, doors=doors)
    async with house as runtime:
        if on_ready is None:  # a chat: its log is in a file, and what is missing should not be a riddle
            for info in runtime.services.plugins.infos.values():
                if info.problem:
                    problem = config.secrets.hide(info.problem)
                    sys.stderr.write(f"hermes: plugin {info.name}: {problem}\n")
        else:
            plugins = runtime.services.plugins
            for said in nobodies(config.access, plugins.adapters, plugins.infos):
                log.warning("%s", said)
        stop.ask = runtime.stop
        with lasting() if on_ready is not None else contextlib.nullcontext():
            await runtime.run()


@contextlib.contextmanager
def lasting() -> Iterator[None]:
    """What stands now lasts as long as the program, so the garbage collector need not look at it again.

    Libraries, plugins and their commands are tens of thousands of objects; looking at them all again and again
    would stop every message for longer the more commands there are. For a process that does nothing else: the
    settings of the collector are the process's own.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class _Stop:
    """Takes the signals: asks once, and does not wait for ever.

    A thread keeps the time, because a loop that does not turn is one reason to be late. For the same
    reason the handlers are Python's and not the loop's: they run also where a plugin blocks the loop.
    """

    def __init__(self) -> None:
        self.ask: Callable[[], object] = lambda: None
        self.asked = False
        self._rung: queue.SimpleQueue[int | None] = queue.SimpleQueue()  # may be put into by a handler
        self._over = False

    def listen(self, names: Sequence[str]) -> None:
        """Take these signals from now on, where there are such."""
        loop = asyncio.get_running_loop()

        def take(number: int, frame: object) -> None:
            if self._over:
                return
            self._rung.put(number)
            if not self.asked:
                self.asked = True
                loop.call_soon_threadsafe(lambda: self.ask())

        threading.Thread(target=self._watch, name="stop", daemon=True).start()
        for name in names:
            number = getattr(signal, name, None)
            # nohup sets SIGHUP to be ignored, and then it stays so
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, take)

    def _watch(self) -> None:
        """The second signal, or the time, ends the process."""
        if self._rung.get() is None:
            return
        try:
            number = self._rung.get(timeout=LIMIT)
        except queue.Empty:
            _leave(f"did not stop within {LIMIT:.0f} s, ended", 1)
        if number is not None:
            _leave("stopped at once; what waits goes on at the next start", 128 + number)

    def done(self, *, ring: bool) -> None:
        """The house is down. What was asked to stop, or with `ring`, still has to end within the time."""
        self._over = True
        if ring:
            self._rung.put(0)
        elif not self.asked:
            self._rung.put(None)


def _leave(text: str, code: int) -> NoReturn:
    with contextlib.suppress(Exception):  # nothing that is in the way may hold us here
        if text:
            os.write(2, f"hermes: {text}\n".encode())
        else:
            sys.stdout.flush()
            sys.stderr.flush()
            logging.shutdown()
    os._exit(code)
