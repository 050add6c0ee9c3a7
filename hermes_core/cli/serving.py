"""Runs the house until it is done or a signal ends it.

The first signal stops in order; the second, or ten seconds, ends the process where it stands. That
loses nothing: what was accepted is in the store and goes on at the next start (D6).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hermes_core.config import Config
from hermes_core.errors import StoreError
from hermes_core.runtime import Door, Runtime

__all__ = ["serve"]

LIMIT: Final = 10.0  # seconds from the first signal to the end of the process


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
    try:
        asyncio.run(_serve(config, stop, adapters, options, on_ready, interruptible, doors))
    except StoreError as error:  # people in a chat see no path; who starts the program needs it
        place = f"{error.message} The data folder is {config.runtime.data_dir}."
        raise StoreError(place, error.advice) from error
    except asyncio.CancelledError:
        if not stop.asked:
            raise
        # a signal came before the house stood
    stop.done()
    return 0


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
    loop = asyncio.get_running_loop()
    for name in ("SIGTERM", "SIGHUP", *(["SIGINT"] if interruptible else [])):
        number = getattr(signal, name, None)
        # nohup sets SIGHUP to be ignored, and then it stays so; Windows has no handlers in a loop
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, stop, number)
    house = Runtime(config, adapters=adapters, options=options or {}, on_ready=on_ready, doors=doors)
    async with house as runtime:
        if on_ready is None:  # a chat: its log is in a file, and what is missing should not be a riddle
            for info in runtime.services.plugins.infos.values():
                if info.enabled and info.problem:
                    sys.stderr.write(f"hermes: plugin {info.name}: {info.problem}\n")
        stop.ask = runtime.stop
        await runtime.run()


class _Stop:
    """Takes the signals: asks once, and does not wait for ever."""

    def __init__(self) -> None:
        self.ask: Callable[[], object] = lambda: None
        self._timer: threading.Timer | None = None

    @property
    def asked(self) -> bool:
        """Whether a signal came."""
        return self._timer is not None

    def __call__(self, number: int) -> None:
        """Ask to stop; the second time end the process."""
        if self.asked:
            _leave("stopped at once; what waits goes on at the next start", 128 + number)
        # a thread, because a loop that does not turn is one reason to be late
        self._timer = threading.Timer(LIMIT, _leave, (f"did not stop within {LIMIT:.0f} s, ended", 1))
        self._timer.daemon = True
        self._timer.start()
        self.ask()

    def done(self) -> None:
        """The house is down: the clock is stopped."""
        if self._timer is not None:
            self._timer.cancel()


def _leave(text: str, code: int) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"hermes: {text}\n")
        sys.stderr.flush()
    os._exit(code)
