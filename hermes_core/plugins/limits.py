"""Limits: how long foreign code is waited for, and which of its exceptions are ours."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

from hermes_core.errors import told

__all__ = ["OverLimitError", "brief", "meant", "resume", "within"]

T = TypeVar("T")


class OverLimitError(TimeoutError):
    """A call took longer than its limit."""


def meant(error: BaseException) -> bool:
    """Whether `error` is for us, and not a fault of the foreign code that it came through.

    That is Ctrl+C, and the cancellation of the present task. Foreign code may raise anything else: a
    cancellation of a task of its own that it awaited, `SystemExit`, what no `except Exception` catches.
    """
    if isinstance(error, asyncio.CancelledError):
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return False
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt)


async def within(coroutine: Coroutine[Any, Any, T], limit: float) -> T:
    """Await `coroutine` in the present task for at most `limit` seconds, then cancel it (TimeoutError).

    A coroutine that never waits costs no timer. One that swallows the cancellation has `limit` seconds
    more for its clean-up and is then abandoned, so the caller goes on whatever it does. A cancellation
    of the calling task is handed on to it and ends the wait when it ends.
    """
    try:
        waits_for = coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    return await resume(coroutine, waits_for, limit)


@types.coroutine
def resume(coroutine: Coroutine[Any, Any, T], waits_for: Any, limit: float) -> Generator[Any, Any, T]:
    """`within` for a coroutine that has been begun, and waits for what its first `send` gave."""
    task = asyncio.current_task()
    assert task is not None
    loop = task.get_loop()
    expired = 0
    timer: asyncio.TimerHandle

    def expire() -> None:
        nonlocal expired, timer
        expired += 1
        timer = loop.call_later(limit, expire)
        task.cancel()

    timer = loop.call_later(limit, expire)
    try:
        while True:
            seen = expired
            try:
                value = yield waits_for
            except asyncio.CancelledError as cancelled:
                ours = expired > seen and task.uncancel() == 0
                if ours and expired > 1:
                    coroutine.close()
                    raise OverLimitError(f"{limit:g} s, and did not let itself be cancelled") from cancelled
                waits_for = coroutine.throw(cancelled)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the coroutine
                waits_for = coroutine.throw(error)
            else:
                waits_for = coroutine.send(value)
    except StopIteration as done:
        if expired:
            raise OverLimitError(f"{limit:g} s") from None
        return done.value  # type: ignore[no-any-return]
    except asyncio.CancelledError:
        if expired:
            raise OverLimitError(f"{limit:g} s") from None
        raise
    finally:
        timer.cancel()


def brief(error: BaseException) -> str:
    """The kind of an error and the first line of its text."""
    text = told(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
