"""Chat: a conversation at a terminal.

Theory of operation. Keys are read at any time; a line that is sent goes through one queue to the
gateway, so lines arrive in the order in which they were typed, and reading never waits for the
agent. What comes back goes through `Transcript`, which decides what is printed, and `Screen`, which
prints it above the prompt. Everything but the two gateway calls happens in plain callbacks.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TextIO

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input, create_input

from hermes_core.adapter import (
    Activity,
    Broken,
    Drafted,
    Features,
    Gateway,
    Progress,
    Received,
    Sent,
    Shown,
    Working,
)
from hermes_core.errors import SendError, StoreError
from hermes_core.messages import Address, Outgoing
from hermes_terminal.keys import bindings
from hermes_terminal.look import Look
from hermes_terminal.screen import Screen, Status, SteadyOutput
from hermes_terminal.seat import ANY_SIZE, PLATFORM, Seat, files
from hermes_terminal.transcript import Printed, Transcript
from hermes_terminal.typed import CommandCompleter, TypedHistory

__all__ = ["ChatAdapter"]

_FRAME: Final = 0.08  # seconds between two drawings of the live text, at least
_SHARE: Final = 5  # and at least so many times as long as the drawing itself took
_TICK: Final = 1.0  # seconds between two drawings of the status line while the agent works
_TWICE: Final = 2.0  # seconds within which a second Ctrl+C quits
_LAST: Final = 2.0  # seconds in which what was typed last is still handed in
_PAST: Final = 6  # texts of the past that are shown at the start
_IDLE: Final = Activity("idle")


class ChatAdapter:
    """The adapter for a person at a terminal. `history`: the file of what was typed, or None."""

    platform = PLATFORM
    # Not `once`: another process that runs later knows nothing of what this one showed.
    features = Features(local=True, drafts=True, status=True, receipts=True, max_file=ANY_SIZE)

    def __init__(
        self,
        seat: Seat,
        stdin: TextIO | Input,
        stdout: TextIO,
        *,
        history: Path | None = None,
        markdown: bool = True,
    ) -> None:
        self._seat = seat
        self._source = stdin if isinstance(stdin, Input) else create_input(stdin)
        self._output = SteadyOutput.of(stdout, os.environ.get("TERM"))
        self._history = TypedHistory(history) if history else InMemoryHistory()
        self._look = Look(markdown=markdown, color="NO_COLOR" not in os.environ)
        self._transcript = Transcript()
        self._activity = _IDLE
        self._jobs: dict[str, str] = {}
        self._since = 0.0
        self._open = asyncio.Event()
        self._gone = False
        self._typed: asyncio.Queue[str] = asyncio.Queue()
        self._live = ""
        self._pause = _FRAME
        self._frame: asyncio.TimerHandle | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._interrupted = -_TWICE
        self._screen: Screen | None = None
        self._early: list[str] = []  # what came before there was a screen

    # ---- the adapter

    async def run(self, gateway: Gateway) -> None:
        """Hold the conversation until the person leaves; cancelling it leaves the terminal as it was found."""
        self._gone = False
        past = await gateway.past(self._seat.address)
        async with asyncio.TaskGroup() as group:
            screen = self._screen = self._make_screen(gateway, group)
            delivery = group.create_task(self._deliver(gateway))
            self._set_activity(gateway.activity(self._seat.address))

            def opened() -> None:
                self._print(self._look.welcome(self._seat.address.channel))
                self._print(self._look.past(past[-_PAST:], len(past), self._output.width))
                self._print("".join(self._early))
                self._early.clear()
                self._open.set()
                gateway.ready()

            try:
                await screen.run(opened)
                self._close()
                await self._handed_in()
            finally:
                delivery.cancel()
                self._gone = True
                for timer in (self._frame, self._tick):
                    if timer is not None:
                        timer.cancel()

    async def send(self, outgoing: Outgoing) -> Sent:
        """Show a message; it completes the draft of its turn. Waits until the terminal is open."""
        if outgoing.address != self._seat.address:
            raise self._seat.elsewhere()
        await self._open.wait()
        if self._gone:
            raise SendError("The terminal is closed.")
        self._print_all(self._transcript.sent(outgoing))
        self._print("".join(self._look.file(line) for line in files(outgoing.attachments)))
        if self._gone:
            raise SendError("The terminal is gone.", unknown=True)
        return Sent()

    def show(self, address: Address, shown: Shown) -> None:
        """Show more of a draft, its break, the activity, what becomes of a message, or how far a job is."""
        if address != self._seat.address or self._gone:
            return
        match shown:
            case Drafted():
                self._print_all(self._transcript.drafted(shown))
                self._draw_live_soon()
            case Broken():
                self._print_all(self._transcript.broken(shown))
            case Working():
                if shown.activity.state in ("tool", "asking"):
                    self._print_all(self._transcript.paused())
                self._set_activity(shown.activity)
            case Received():
                self._print(self._look.receipt(shown))
            case Progress():
                self._progress(shown)

    async def find(self, key: str, address: Address) -> Sent | None:
        """A terminal cannot be asked what it shows."""
        return None

    # ---- what is typed

    def _make_screen(self, gateway: Gateway, group: asyncio.TaskGroup) -> Screen:
        buffer = Buffer(
            multiline=True,
            history=self._history,
            completer=CommandCompleter(gateway.commands),
            complete_while_typing=Condition(lambda: buffer.text.startswith("/")),
        )

        def interrupt() -> None:
            group.create_task(self._interrupt(gateway))

        keys = bindings(
            send=lambda: self._send(buffer),
            stop=lambda: self._stop(buffer, gateway, interrupt),
            leave=self._leave,
        )
        return Screen(self._output, self._source, buffer, keys, lambda: self._live, self._status)

    def _send(self, buffer: Buffer) -> None:
        text = buffer.text.strip("\n")
        if not text.strip():
            buffer.reset()
            return
        buffer.reset(append_to_history=True)
        asyncio.get_running_loop().run_in_executor(None, self._look.warm)  # while the agent thinks
        self._print_all(self._transcript.cut())
        self._print(self._look.typed(text))
        self._typed.put_nowait(text)

    def _stop(self, buffer: Buffer, gateway: Gateway, interrupt: Callable[[], None]) -> None:
        now = asyncio.get_running_loop().time()
        twice, self._interrupted = now - self._interrupted < _TWICE, now
        activity = gateway.activity(self._seat.address)
        busy = activity.state != "idle" or activity.queued or self._typed.qsize()
        if twice or not (busy or buffer.text):
            self._leave()
        elif busy:
            interrupt()
        else:
            buffer.reset()
        self._refresh()
        asyncio.get_running_loop().call_later(_TWICE, self._refresh)

    def _leave(self) -> None:
        if self._screen is not None:
            self._screen.quit()

    async def _deliver(self, gateway: Gateway) -> None:
        while True:
            text = await self._typed.get()
            try:
                await gateway.receive(self._seat.message(text))
            except (
                StoreError
            ) as error:  # not kept, so not received (D7); it is in the history for another try
                self._print(self._look.mark(f"Not sent: {error} Press the up key to try again."))
            finally:
                self._typed.task_done()

    async def _interrupt(self, gateway: Gateway) -> None:
        try:
            await gateway.interrupt(self._seat.address)
        except StoreError as error:
            self._print(self._look.mark(str(error)))

    async def _handed_in(self) -> None:
        """What was sent just before leaving is still handed in."""
        try:
            async with asyncio.timeout(_LAST):
                await self._typed.join()
        except TimeoutError:
            return

    # ---- what is shown

    def _print_all(self, printed: Iterable[Printed]) -> None:
        width = self._output.width
        text = "".join(self._look.printed(one, width) for one in printed)
        if text:
            self._live = self._look.live(self._transcript.tail, width)
        self._print(text)

    def _print(self, text: str) -> None:
        if not text:
            return
        if self._screen is None:
            self._early.append(text)
            return
        try:
            self._screen.print(text)
        except OSError:  # the terminal is gone; `run` ends
            self._gone = True
            self._leave()

    def _draw_live_soon(self) -> None:
        if self._frame is None and self._screen is not None:
            self._frame = asyncio.get_running_loop().call_later(self._pause, self._draw_live)

    def _draw_live(self) -> None:
        self._frame = None
        if self._screen is not None:
            begin = time.perf_counter()
            self._live = self._look.live(self._transcript.tail, self._output.width)
            self._pause = max(_FRAME, _SHARE * (time.perf_counter() - begin))
            self._refresh()

    def _close(self) -> None:
        self._gone = True
        left = self._transcript.close("… left here")
        text = "".join(self._look.printed(one, self._output.width) for one in left)
        try:
            self._output.write_raw(text)
            self._output.flush()
        except OSError:
            return

    def _progress(self, progress: Progress) -> None:
        """How far a job is stands in the status line; its end is a line of its own (J13)."""
        self._jobs.pop(progress.job, None)
        if progress.done:
            self._print(self._look.job(progress.text))
        else:
            self._jobs[progress.job] = progress.text  # last: it is the one that is shown
        self._refresh()

    def _set_activity(self, activity: Activity) -> None:
        if (activity.state, activity.tool) != (self._activity.state, self._activity.tool):
            self._since = asyncio.get_running_loop().time()
        self._activity = activity
        self._refresh()
        if activity.state != "idle" and self._tick is None:
            self._tick = asyncio.get_running_loop().call_later(_TICK, self._on_tick)

    def _on_tick(self) -> None:
        self._tick = None
        self._set_activity(self._activity)

    def _refresh(self) -> None:
        if self._screen is not None:
            self._screen.refresh()

    def _status(self) -> Status:
        now = asyncio.get_running_loop().time()
        style, state = self._look.status(self._activity, now - self._since)
        state += self._look.jobs(list(self._jobs.values()))
        again = now - self._interrupted < _TWICE
        return (style, state), "Ctrl+C again leaves" if again else self._look.hint(self._activity)
