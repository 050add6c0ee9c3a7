"""Writing: all texts of one adapter, one after the other in each conversation.

Theory of operation. Drafts open texts as they come, and each has one task that shows it. `send` takes over the
text that its message completes, or opens one; then the sender's task shows the end. A text that is followed by
a tool call or by another one of its turn stands as it is, and so does one whose turn has ended without a
reply, after a moment in which the reply may still come. Texts outlive a lost connection: their calls wait for
the next one, and `run` takes up their tasks again. They outlive the process as far as the journal knows them: a
turn that goes on edits the same messages, and the others are closed with a mark (R3).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import msgspec

from hermes_core.adapter import Activity, Broken, Drafted, Progress, Sent, Shown, Working
from hermes_core.errors import SendError, reason
from hermes_core.messages import Address, Outgoing, turn_key
from hermes_core.pacing import Budget, Finished, Slot, Stopped
from hermes_core.writing.journal import Journal
from hermes_core.writing.left import Count, Left
from hermes_core.writing.lines import Lines
from hermes_core.writing.text import Desk, Text, Unsent
from hermes_core.writing.typist import Typist
from hermes_core.writing.values import Calls, Find, Say, Style

__all__ = ["Writing"]

log = logging.getLogger("hermes.writing")

UNCLAIMED: Final = 2.0  # seconds after its turn in which a text is left to its reply
PARKED: Final = 1.0  # seconds; a longer 429 is the outbox's to wait for
ANNOUNCED: Final = 10.0  # seconds for which a question waits for the words before it
CONNECTING: Final = 5.0  # seconds for which a message waits for the connection before it is given back
_HEARD: Final = 500  # conversations whose latest message is known
_TYPES: Final = ("thinking", "tool", "stopping")


class Writing:
    """See the head of this module. `clock` is the one of `budget`; `wall` gives seconds since 1970.

    It is made with the adapter, and works while `run` does; what is shown in between waits for that.
    """

    def __init__(
        self,
        style: Style,
        budget: Budget,
        journal: Journal | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._journal = journal or Journal()
        self._desk = Desk(style, budget, self._journal, clock, wall)
        self._style = style
        self._budget = budget
        self._clock = clock
        self._lines = Lines(self._desk, self.spawn)
        self._typist = Typist(self._desk)
        self._group: asyncio.TaskGroup | None = None
        self._warmed = False
        self._open: dict[Text, None] = {}  # those that are shown while they are written
        self._texts: dict[str, Text] = {}  # by the key of the turn: what its reply completes
        self._newest: dict[Address, Text] = {}
        self._heard: dict[Address, tuple[str, int]] = {}  # the latest, and how many began no turn
        self._asked: dict[Address, str | None] = {}  # while a turn runs: what it answers
        self._left = Left(self._desk, self.spawn)

    # -- the connection

    async def run(
        self,
        calls: Calls,
        settled: Callable[[Address], Awaitable[None]],
        *,
        find: Find | None = None,
        typing: Say | None = None,
    ) -> None:
        """Write over this connection until cancelled. `settled` is the gateway's.

        `find`, where the platform can look a post up: it is asked before anything is posted twice (D5).
        `typing`, where it shows that the agent types.
        """
        try:
            async with asyncio.TaskGroup() as group:
                with self._desk.connected(calls, find):
                    self._group = group
                    self._resume(settled)
                    group.create_task(self._warm())
                    if typing is not None:
                        await self._typist.run(typing)
                    else:
                        await asyncio.Event().wait()
        finally:
            self._group = None

    async def _warm(self) -> None:
        """Load what reads Markdown, which takes a while, before somebody waits for it."""
        if not self._warmed:
            self._warmed = True
            await asyncio.to_thread(self._style.cut, "**warm**", True)

    def _resume(self, settled: Callable[[Address], Awaitable[None]]) -> None:
        for text in list(self._open):
            self.spawn(self._write(text))
            if text.alone:
                self.spawn(self._unclaimed(text))
        for address in self._left.unfinished():
            self.spawn(self._abandoned(address, settled))
        self._lines.resume()

    def spawn(self, work: Coroutine[Any, Any, None]) -> bool:
        """Begin a task that ends with the connection; False where there is none, or it is just ending."""
        if self._group is None or not self._desk.open.is_set():
            work.close()
            return False
        try:
            self._group.create_task(work)
        except RuntimeError:  # the group ends, because another of its tasks has failed
            work.close()
            return False
        return True

    # -- what is shown

    def heard(self, address: Address, id: str) -> None:
        """A message came in there: the next turn answers it natively, where the platform has such a thing."""
        _, count = self._heard.pop(address, ("", 0))
        self._heard[address] = id, count + 1
        if len(self._heard) > _HEARD:
            del self._heard[next(iter(self._heard))]

    def show(self, address: Address, shown: Shown) -> None:
        """Show a draft, its break, the line of a job, and what the agent does; see `Adapter.show`."""
        match shown:
            case Drafted():
                self._drafted(address, shown)
            case Broken():
                self._broken(address, shown)
            case Working():
                self._working(address, shown.activity)
            case Progress():
                self._lines.progress(address, shown)

    def _drafted(self, address: Address, shown: Drafted) -> None:
        self._typist.rest(address)
        key = turn_key(address, shown.turn)
        text = self._newest.get(address)
        if text is None or (text.key, text.number) != (key, shown.part):
            text = self._begin(address, key, shown.part)
        text.add(shown.delta)

    def _begin(self, address: Address, key: str, number: int) -> Text:
        last = self._newest.get(address)
        count, left = self._left.next(address, key)
        answers = None if count.answered else self._asked.get(address)
        if last is not None and last.key == key:
            self._settle(last)
        elif last is not None:
            self._leave(last)
        part = count.part
        text = Text(self._desk, address, key, part, answers=answers, left=left, number=number, before=last)
        self._left.begun(address, Count(key, part, count.answered or answers is not None))
        self._open[text] = None
        self._texts[key] = self._newest[address] = text
        self.spawn(self._write(text))
        return text

    def _broken(self, address: Address, shown: Broken) -> None:
        """The text that is being written ends with a mark (I5); those before it are whole."""
        text = self._texts.pop(turn_key(address, shown.turn), None)
        if text is None:
            self._left.close(address, "")
            return
        text.live.tell(Stopped(self._style.interrupted))
        if text.live.stream.finished:  # nobody has seen anything of it
            self._end(text)

    def _working(self, address: Address, activity: Activity) -> None:
        text = self._newest.get(address)
        if activity.state == "idle":
            self._asked.pop(address, None)
            if text is not None:
                self._leave(text)
        elif address not in self._asked:
            self._asked[address] = self._begins(address, activity.queued)
        if activity.state in ("tool", "asking") and text is not None:
            text.pass_by()
        if activity.state in _TYPES:
            self._typist.working(address)
        else:
            self._typist.rest(address)

    def _begins(self, address: Address, queued: int) -> str | None:
        """The message with which a turn begins. While others wait, nobody can tell which of them it is."""
        id_, count = self._heard.pop(address, (None, 0))
        waiting = min(queued, count - 1)  # it began with one itself, and not all that wait are messages
        if id_ is not None and waiting > 0:
            self._heard[address] = id_, waiting
        return id_ if queued == 0 else None

    async def _abandoned(self, address: Address, settled: Callable[[Address], Awaitable[None]]) -> None:
        """Nobody may ever say anything here: once it is plain that no turn goes on, the drafts are closed."""
        await settled(address)
        self._left.close(address, "")

    async def _write(self, text: Text) -> None:
        """Show a text while it is written, and its end, unless that is the reply's to do."""
        try:
            text.before = self._left.close(text.address, text.key, text.before)
            await text.after()
            await text.live.run()
            if text.settled:
                await text.live.finish(text.live.stream.text)
        except SendError as error:
            log.warning("a text could not be completed: %s", error)
        except Exception as error:  # the edge to what cuts it: one text must not end the connection
            why = reason(error)
            log.error("a text in %s is not shown while it is written: %s", text.address, why, exc_info=error)
            self._open.pop(text, None)
            text.ended.set()  # its reply may still complete it
            return
        if text.live.stream.finished and not text.claimed:
            text.is_whole(reply=False)
            self._end(text)

    def _settle(self, text: Text) -> None:
        """It is whole as it stands, and no reply completes it."""
        if text.claimed or text.live.stream.final:
            return
        text.settled = True
        if self._texts.get(text.key) is text:
            del self._texts[text.key]
        text.live.tell(Finished(text.live.stream.text))

    def _leave(self, text: Text) -> None:
        """Its turn has ended: its reply, if there is one, comes at once."""
        if not text.alone:
            text.alone = True
            self.spawn(self._unclaimed(text))

    async def _unclaimed(self, text: Text) -> None:
        await asyncio.sleep(UNCLAIMED)
        self._settle(text)

    def _end(self, text: Text) -> None:
        text.ended.set()
        self._open.pop(text, None)
        if self._newest.get(text.address) is text:
            del self._newest[text.address]
            if text.before is not None and not text.before.ended.is_set():
                self._newest[text.address] = text.before
        if self._texts.get(text.key) is text:
            del self._texts[text.key]

    # -- whole

    def begun(self, outgoing: Outgoing) -> bool:
        """Whether something of this message was shown while it was written, in this run or in one before."""
        if not outgoing.turn:
            return False
        key = turn_key(outgoing.address, outgoing.turn)
        return key in self._texts or bool(self._left.of(outgoing.address, key))

    def unfinished(self, key: str, address: Address) -> bool:
        """Whether an earlier run showed something of the message with this key, and it is not known to be whole.

        An adapter that can look its messages up says then that it is not there (`Adapter.find`): `send` completes
        it, and posts nothing twice. Else what is left of it would be closed as a text that broke off.
        """
        return any(not one.whole for one in self._left.of(address, key))

    def found(self, key: str) -> Sent | None:
        """The message with this key, where it grew out of a draft and is known to stand there whole."""
        ids = self._journal.reply(key)
        return Sent(ids) if ids else None

    async def send(self, outgoing: Outgoing, slots: tuple[Slot, ...] = ()) -> Sent:
        """Make the platform show this message whole, once; it completes the draft of its turn where there is one.

        `slots` are messages that show something of it already. Waits for the budget and, for a while, for the
        connection. `SendError`: see `Adapter.send`.
        """
        text: Text | None = None
        ended = True
        try:
            await self.connected()
            if outgoing.turn:  # the answer to a command ends no turn
                self._typist.rest(outgoing.address)
            text = self._completes(outgoing) or self._opened(outgoing, slots)
            return Sent(await self._deliver(text, outgoing))
        except Unsent as unsent:
            raise unsent.error from unsent
        except SendError:
            raise
        except BaseException as error:  # it is tried again, and goes on where it was
            ended = False
            if isinstance(error, asyncio.CancelledError) and (text is None or not text.out):
                raise SendError("It was stopped before anything was handed over.", retry_after=0.0) from error
            raise
        finally:
            if ended and text is not None:
                self._end(text)

    async def connected(self) -> None:
        """Wait a while for the connection; `SendError` where none comes."""
        if self._desk.open.is_set():
            return
        try:
            async with asyncio.timeout(CONNECTING):
                await self._desk.open.wait()
        except TimeoutError:
            raise SendError("There is no connection.", retry_after=0.0) from None

    def _parked(self, address: Address) -> None:
        """`SendError` while nothing is taken there: the outbox waits, and knows that nothing is out."""
        wait = self._budget.blocked_until(self._style.destination(address)) - self._clock()
        if wait > PARKED:
            raise SendError("The platform takes no more messages for a while.", retry_after=wait)

    def _completes(self, outgoing: Outgoing) -> Text | None:
        """The text that this message completes, if there is one.

        The last one of its turn, unless a tool has run since, and the message does not begin with it: then what
        the turn said after the tool was not shown while it was written.
        """
        text = self._texts.get(turn_key(outgoing.address, outgoing.turn)) if outgoing.turn else None
        if text is None:
            return None
        if text.passed and not text.claimed and not outgoing.text.startswith(text.live.stream.text.strip()):
            return None
        if not text.out:
            self._parked(outgoing.address)
        text.claimed = True
        return text

    def _opened(self, outgoing: Outgoing, slots: tuple[Slot, ...]) -> Text:
        """A text for a message of which this run has shown nothing yet."""
        address = outgoing.address
        last = self._newest.get(address)
        if outgoing.within and last is not None and last.key == turn_key(address, outgoing.within):
            self._settle(last)
        self._parked(address)
        if not outgoing.turn:
            before = last if outgoing.within else None
            key, answers = outgoing.key, outgoing.answers
            return Text(self._desk, address, key, answers=answers, slots=slots, first=True, before=before)
        key = turn_key(address, outgoing.turn)
        count, left = self._left.next(address, key)
        if last is not None:
            self._settle(last)
        text = Text(
            self._desk,
            address,
            key,
            count.part,
            answers=None if count.answered else outgoing.answers,
            left=left,
            slots=slots,
            first=True,
            before=last,
        )
        text.claimed = True
        self._left.begun(address, msgspec.structs.replace(count, reply=True))
        self._texts[key] = self._newest[address] = text
        return text

    async def _deliver(self, text: Text, outgoing: Outgoing) -> tuple[str, ...]:
        turn = outgoing.turn or outgoing.within
        if turn:
            text.before = self._left.close(text.address, turn_key(text.address, turn), text.before)
        if outgoing.within:
            with contextlib.suppress(TimeoutError):  # who is asked can answer without them
                async with asyncio.timeout(ANNOUNCED):
                    await text.after()
        else:
            await text.after()
        drafted = text.shown
        cut = self._style.of(outgoing, drafted=drafted)
        text.live.stream = msgspec.structs.replace(text.live.stream, cut=cut)
        marked = outgoing.repeat and not drafted  # what may be there already is completed instead
        ids = await text.live.finish(self._style.repeat + outgoing.text if marked else outgoing.text)
        text.is_whole(reply=True)
        return ids
