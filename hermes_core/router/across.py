"""Across: a conversation as a plain handler sees it, which runs in a thread beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec

from hermes_core.commands import Snapshot
from hermes_core.messages import Entry, Role
from hermes_core.permission import Permission
from hermes_core.router.view import View

__all__ = ["Across"]

T = TypeVar("T")


class Across:
    """The view of one command: what gives an answer at once is asked in the thread of the event loop.

    A snapshot is whole, and what waits is a copy: it does not change while it is read. What is awaited is
    for handlers that are coroutines.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._loop = asyncio.get_running_loop()
        self._home = threading.get_ident()

    def snapshot(self) -> Snapshot:
        """The state at this instant."""
        return self._asked(self._copied)

    def find(self, short: str) -> Entry | None:
        """The message that waits under this short id."""
        return self._asked(lambda: self._view.find(short))

    def tools(self) -> dict[str, Role]:
        """The tools as they are here."""
        return self._asked(self._view.tools)

    def permissions(self) -> list[Permission]:
        """The tool calls that wait here for a yes."""
        return self._asked(self._view.permissions)

    def permit(self, id: str, allow: bool, always: bool = False) -> Permission:
        """Answer one of them; what waits is woken in its own thread."""
        return self._asked(lambda: self._view.permit(id, allow, always))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def _copied(self) -> Snapshot:
        now = self._view.snapshot()
        return msgspec.structs.replace(now, waiting=tuple(now.waiting))

    def _asked(self, question: Callable[[], T]) -> T:
        if threading.get_ident() == self._home:
            return question()
        answer: Future[T] = Future()

        def ask() -> None:
            try:
                answer.set_result(question())
            except BaseException as error:  # noqa: BLE001 - it is for who asked
                answer.set_exception(error)

        self._loop.call_soon_threadsafe(ask)
        return answer.result()
