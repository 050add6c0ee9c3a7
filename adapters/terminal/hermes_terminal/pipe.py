"""Pipe: each line of the input is a message with a turn of its own, in order; replies go to the output.

Used where stdin or stdout is not a terminal. The output gets replies, files (a line with the place of
each) and answers to commands, each with a newline, and nothing else; notices and what went wrong go to
stderr.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Final

import msgspec

from hermes_core.adapter import Features, Gateway, Sent, Shown
from hermes_core.errors import ConfigError, Incomplete, SendError, StoreError, StoreUnwritable
from hermes_core.messages import Address, Message, Outgoing
from hermes_terminal.clean import clean
from hermes_terminal.lines import LineReader, LineWriter, Unwritten
from hermes_terminal.seat import ANY_SIZE, PLATFORM, Seat, files
from hermes_terminal.transcript import REPEAT

__all__ = ["PipeAdapter", "Streams"]

_RETRY: Final = (0.5, 1.0, 2.0, 4.0, 8.0)  # seconds between the tries to hand in one line (D7)
_FLUSH: Final = 0.5  # seconds that the last notice may take


class Streams(msgspec.Struct, frozen=True):
    """Descriptors of the three standard streams; None for one that was closed at the start."""

    stdin: int | None = 0
    stdout: int | None = 1
    stderr: int | None = 2

    @classmethod
    def standard(cls) -> Streams:
        """Those of this process. A closed one is None in `sys`, and its number may be something else by now."""
        return cls(
            0 if sys.stdin is not None else None,
            1 if sys.stdout is not None else None,
            2 if sys.stderr is not None else None,
        )


class PipeAdapter:
    """The adapter without a terminal. `retry` are the pauses between tries while the store takes nothing."""

    platform = PLATFORM
    features = Features(local=True, unattended=True, max_file=ANY_SIZE)

    def __init__(self, seat: Seat, streams: Streams, retry: tuple[float, ...] = _RETRY) -> None:
        self._seat = seat
        self._stdin = streams.stdin
        self._out = LineWriter(streams.stdout)
        self._notices = LineWriter(streams.stderr)
        self._screen = streams.stdout is not None and os.isatty(streams.stdout)
        self._retry = retry
        self._reader: LineReader | None = None
        self._shut = streams.stdout is None
        self._asked = self._failed = 0
        self._fault = ""  # why the output takes nothing
        self._over = asyncio.Event()  # nothing can be written any more

    async def run(self, gateway: Gateway) -> None:
        """Deliver line after line, each when the one before is settled.

        Returns when the last one is, or when nobody reads the output any more. `Incomplete` at the end where a
        turn failed, a line was not taken, or the output takes nothing; what was not written stays in the store.
        """
        if self._shut:
            raise ConfigError(
                "The output is closed, so replies have nowhere to go.", "Send it somewhere: hermes chat >FILE"
            )
        reader = self._reader = self._reader or LineReader(self._stdin)  # a run begun again goes on with it
        gateway.ready()
        await self._settled(gateway)  # what an earlier run left is no part of the first line's turn
        while not self._over.is_set() and (line := await reader.next()) is not None:
            if line.strip():
                self._asked += 1
                await self._deliver(gateway, self._seat.message(line))
                await self._settled(gateway)
        reader.stop()
        if self._fault:
            raise Incomplete(
                f"The output takes nothing: {self._fault}.", "What is missing comes at the next start."
            )
        if self._failed:
            raise Incomplete(
                f"{self._failed} of {self._asked} messages not answered: the reason stands above."
                if self._failed <= self._asked
                else "Not everything was answered: the reason stands above."
            )

    async def _settled(self, gateway: Gateway) -> None:
        """Until the conversation is idle, or nothing can be written any more."""
        waits = {
            asyncio.create_task(gateway.settled(self._seat.address), name="settled"),
            asyncio.create_task(self._over.wait(), name="output over"),
        }
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            for one in waits:
                one.cancel()

    async def send(self, outgoing: Outgoing) -> Sent:
        """Write a reply to stdout, a notice to stderr. Where nobody reads the output, that is final."""
        if outgoing.address != self._seat.address:
            raise self._seat.elsewhere()
        text = f"{REPEAT} {outgoing.text}" if outgoing.repeat else outgoing.text
        text = "\n".join([*([text] if text else []), *files(outgoing.attachments)])
        if not _is_answer(outgoing):
            self._failed += bool(outgoing.turn)
            await self._notice(text)
            return Sent()
        try:
            await self._out.write((clean(text) if self._screen else text) + "\n")
        except Unwritten as error:
            self._over.set()
            if error.closed:
                raise SendError("Nobody reads the output any more.", permanent=True) from error
            self._fault = str(error)
            raise SendError(f"The output takes nothing: {error}.", unknown=error.written > 0) from error
        return Sent()

    def show(self, address: Address, shown: Shown) -> None:
        """Nothing passing is shown: the output is for replies."""

    async def find(self, key: str, address: Address) -> Sent | None:
        """A pipe cannot be asked what went through it."""
        return None

    async def _deliver(self, gateway: Gateway, message: Message) -> None:
        for pause in (*self._retry, None):
            try:
                await gateway.receive(message)
                return
            except StoreUnwritable as error:
                if pause is None:
                    self._failed += 1
                    await self._notice(f"Not taken: {message.text[:60]!r}. {error}")
                    return
                await asyncio.sleep(pause)  # the runtime has said what is the matter, once
            except StoreError as error:
                self._failed += 1
                await self._notice(f"Not taken: {message.text[:60]!r}. {error}")
                return

    async def _notice(self, text: str) -> None:
        try:
            async with asyncio.timeout(_FLUSH):
                await self._notices.write(clean(text) + "\n")
        except (Unwritten, TimeoutError):
            return  # nobody reads the notices


def _is_answer(outgoing: Outgoing) -> bool:
    """Whether this is what somebody asked for: a reply, a file, or the answer to a command."""
    asked = not outgoing.turn and outgoing.answers is not None
    return asked or outgoing.number is not None or bool(outgoing.attachments)
