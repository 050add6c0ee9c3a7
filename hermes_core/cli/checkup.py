"""Checkup: checks run side by side, each within its limit; whatever one does, the others are told of."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from hermes_core.checks import Check, Finding, Level
from hermes_core.errors import HermesError, SecretUnset
from hermes_core.plugins import within

__all__ = ["Owned", "Result", "checkup", "in_thread", "patience"]

T = TypeVar("T")

GRACE: Final = 3.0  # seconds beyond the longest limit until a check that blocks everything ends the program


class Owned(msgspec.Struct, frozen=True):
    """A check and whose it is: a plugin's name, "" for the core's own."""

    plugin: str
    check: Check


class Result(msgspec.Struct, frozen=True):
    """What one check found; `plugin` is null in JSON for the core's own.

    `unset`: all that is missing is a secret in the environment.
    """

    name: str
    plugin: str | None
    level: Level
    text: str
    advice: str = ""
    unset: bool = False


async def checkup(checks: Sequence[Owned]) -> list[Result]:
    """The results in the order of the checks; takes as long as the slowest one, within its limit."""
    return list(await asyncio.gather(*(_one(owned) for owned in checks)))


async def _one(owned: Owned) -> Result:
    check = owned.check
    unset = False
    try:
        found = await within(_run(check.run), check.limit)
    except TimeoutError:
        found = Finding(
            f"no answer within {check.limit:g} s", "Try again; is the network there?", Level.BROKEN
        )
    except HermesError as error:
        unset = isinstance(error, SecretUnset)
        found = Finding(error.message, error.advice, Level.BROKEN)
    except Exception as error:  # noqa: BLE001 - the edge to foreign code: a check's fault is a finding about its plugin
        what = " ".join(str(error).split())[:200]
        whose = f"the plugin {owned.plugin}" if owned.plugin else "this program"
        found = Finding(
            f"the check itself failed: {type(error).__name__}: {what}",
            f"This is a fault of {whose}.",
            Level.BROKEN,
        )
    return Result(check.name, owned.plugin or None, found.level, found.text, found.advice, unset)


async def _run(run: Callable[[], Awaitable[Finding]]) -> Finding:
    found: object = await run()
    if not isinstance(found, Finding):
        raise TypeError(f"a check gives a Finding, not {type(found).__name__}")
    return found


async def in_thread(look: Callable[[], T]) -> T:
    """What `look` gives, which may hang for ever: on a disk that does not answer, say. Nobody waits for its end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(finish: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants to know any more
            loop.call_soon_threadsafe(lambda: None if done.done() else finish())

    def work() -> None:
        try:
            found = look()
        except Exception as error:  # noqa: BLE001 - handed on to who asked
            failed = error
            tell(lambda: done.set_exception(failed))
        else:
            tell(lambda: done.set_result(found))

    threading.Thread(target=work, name="check", daemon=True).start()
    return await done


@contextlib.contextmanager
def patience(checks: Iterable[Owned]) -> Iterator[None]:
    """End the program where a check blocks it beyond every limit: a thread that sleeps cannot be cancelled."""
    limit = max((owned.check.limit for owned in checks), default=0.0) * 2 + GRACE

    def leave() -> None:
        sys.stderr.write(
            f"hermes: a check of a plugin blocks everything for {limit:.0f} s; gave up.\n"
            "Find the plugin with: hermes doctor --offline, and by disabling one after the other.\n"
        )
        sys.stderr.flush()
        os._exit(1)

    timer = threading.Timer(limit, leave)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
