"""Writing: texts on their way to people: replies, drafts that become replies, and lines of jobs.

Theory of operation. In one conversation one text is written at a time: each waits for the one before it.
All that goes to one chat, in whichever topic, shares one budget. A draft is remembered with its messages,
so that a later run of the program gives the same messages their end, or their mark (R3).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import msgspec

from hermes_core.adapter import Broken, Drafted, Progress
from hermes_core.errors import SendError
from hermes_core.markup import Part
from hermes_core.messages import Address, Outgoing
from hermes_core.pacing import Action, Budget, Delete, Delta, Edit, Live, Post, Slot, Stopped, Stream
from hermes_telegram import limits, render
from hermes_telegram.client import Client
from hermes_telegram.memory import Draft, Memory

__all__ = ["Writing"]

log = logging.getLogger("hermes.telegram")

Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
_BETWEEN_PROGRESS: Final = 3.0  # seconds between two lines of one job
_UNCLAIMED: Final = 2.0  # seconds after its turn in which a text is left to its reply
_PARKED: Final = 1.0  # a longer 429 is the outbox's to wait for


class _Unsent(Exception):
    """The first message of a reply was certainly not taken: the outbox decides when to try again."""

    def __init__(self, error: SendError) -> None:
        super().__init__(str(error))
        self.error = error


class _Text:
    """One text that is shown while it is written; `ended` once it is whole, or closed with its mark."""

    __slots__ = ("before", "ended", "live", "part", "turn")

    def __init__(self, turn: int, part: int, live: Live, before: asyncio.Event | None) -> None:
        self.turn = turn
        self.part = part
        self.live = live
        self.before = before
        self.ended = asyncio.Event()

    async def after(self) -> None:
        """Wait for the text before this one."""
        if self.before is not None:
            await self.before.wait()
            self.before = None


class _Line:
    """The line of one job."""

    __slots__ = ("done", "live", "task", "text")

    def __init__(self, live: Live) -> None:
        self.live = live
        self.text = ""
        self.done = False
        self.task: asyncio.Task[None] | None = None


class Writing:
    """Everything that one bot writes. `spawn` begins a task that ends with the connection."""

    def __init__(
        self,
        client: Client,
        budget: Budget,
        cut: render.Cutter,
        memory: Memory,
        spawn: Spawn,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._budget = budget
        self._cut = cut
        self._memory = memory
        self._left = memory.drafts()  # what an earlier run showed
        self._spawn = spawn
        self._clock = clock
        self._newest: dict[Address, _Text] = {}
        self._replies: dict[Address, dict[int, _Text]] = {}  # by turn: what its reply completes
        self._jobs: dict[tuple[Address, str], _Line] = {}

    async def warm(self) -> None:
        """Load what reads Markdown, which takes a while, before somebody waits for it."""
        await asyncio.to_thread(self._cut, "**warm**", True)

    # ---- drafts

    def drafted(self, address: Address, drafted: Drafted, answers: int | None) -> None:
        """More of a text. `answers`: the message that its first message answers natively."""
        text = self._newest.get(address)
        if text is None or (text.turn, text.part) != (drafted.turn, drafted.part):
            text = self._begin(address, drafted.turn, drafted.part, answers)
        text.live.tell(Delta(drafted.delta))

    def broken(self, address: Address, broken: Broken) -> None:
        """The text that is being written ends with a mark (I5)."""
        text = self._reply(address, broken.turn)
        if text is not None:
            text.live.tell(Stopped(render.INTERRUPTED))

    def paused(self, address: Address) -> None:
        """The conversation is idle: a text that no reply completes stands as it is."""
        text = self._newest.get(address)
        if text is not None:
            self._spawn(self._unclaimed(address, text))

    def _begin(self, address: Address, turn: int, part: int, answers: int | None) -> _Text:
        last = self._newest.get(address)
        if last is not None:
            if last.turn == turn:  # a text before a tool call; the first answers for all of them
                answers = None
                self._spawn(self._finish(address, last))
            else:
                self._spawn(self._unclaimed(address, last))
        left = self._left_of(address, turn)
        live = self._live(address, turn, None if left and left.ids else answers, left)
        text = _Text(turn, part, live, last.ended if last is not None else None)
        self._newest[address] = self._replies.setdefault(address, {})[turn] = text
        self._spawn(self._write(address, text))
        return text

    async def _write(self, address: Address, text: _Text) -> None:
        """Show a text while it is written, and its mark where it breaks off."""
        await text.after()
        await text.live.run()
        if text.live.stream.finished:
            self._forget(address, text)

    async def _unclaimed(self, address: Address, text: _Text) -> None:
        """A text whose turn has ended stands as it is, unless its reply comes, as it mostly does at once."""
        await asyncio.sleep(_UNCLAIMED)
        if self._replies.get(address, {}).get(text.turn) is text:
            await self._finish(address, text)

    async def _finish(self, address: Address, text: _Text) -> None:
        """It is whole as it stands; formatted."""
        try:
            await text.after()
            await text.live.finish(text.live.stream.text)
            self._memory.whole(str(address), text.turn, keep=False)
        except SendError as error:
            log.warning("a text could not be completed: %s", error)
        finally:
            text.ended.set()

    def _forget(self, address: Address, text: _Text) -> None:
        text.ended.set()
        if self._newest.get(address) is text:
            del self._newest[address]

    def _left_of(self, address: Address, turn: int) -> Draft | None:
        """What an earlier run showed of this turn; what it showed of another one gets its mark."""
        draft = self._left.pop(str(address), None)
        if draft is None or draft.turn == turn:
            return draft
        if draft.text:
            self._spawn(self._close(address, draft))
        return None

    async def _close(self, address: Address, draft: Draft) -> None:
        """Nobody will complete this draft of an earlier run: it ends with its mark (R3)."""
        live = self._live(address, draft.turn, None, draft)
        live.tell(Delta(draft.text))
        live.tell(Stopped(render.INTERRUPTED))
        await live.run()

    async def abandoned(self, settled: Callable[[Address], Awaitable[None]]) -> None:
        """Close the drafts of an earlier run whose turns do not go on. `settled` waits until a turn would have."""

        async def one(address: Address) -> None:
            await settled(address)
            self._left_of(address, 0)

        for key in [key for key, draft in self._left.items() if draft.text]:
            self._spawn(one(Address.parse(key)))

    # ---- replies

    async def deliver(self, outgoing: Outgoing, answers: int | None) -> tuple[str, ...]:
        """Show this message whole; gives its ids. It completes the draft of its turn where there is one."""
        address = outgoing.address
        turn = int(outgoing.turn) if outgoing.turn.isdigit() else 0
        text = self._reply(address, turn)
        if text is not None:
            return await self._completed(address, text, outgoing)
        wait = self._budget.blocked_until(address.channel) - self._clock()
        if wait > _PARKED:
            raise SendError("Telegram takes no more messages for a while.", retry_after=wait)
        left = self._left_of(address, turn) if turn else None
        repeat = outgoing.repeat and not (left and (left.ids or left.posting))  # else those get the mark
        live = self._live(address, turn if left else 0, answers, left, first=True)
        live.stream = self._with_all(live.stream, outgoing)
        try:
            return await live.finish(render.REPEAT + outgoing.text if repeat else outgoing.text)
        except _Unsent as unsent:
            raise unsent.error from unsent

    def _reply(self, address: Address, turn: int) -> _Text | None:
        """What the reply of this turn completes; what earlier turns left is given up, their replies are out."""
        texts = self._replies.pop(address, {})
        later = {number: one for number, one in texts.items() if number > turn} if turn else texts
        if later:
            self._replies[address] = later
        return texts.get(turn)

    async def _completed(self, address: Address, text: _Text, outgoing: Outgoing) -> tuple[str, ...]:
        try:
            await text.after()
            text.live.stream = self._with_all(text.live.stream, outgoing)
            ids = await text.live.finish(outgoing.text)
            self._memory.whole(str(address), text.turn, keep=True)
        finally:
            self._forget(address, text)
        return ids

    def _with_all(self, stream: Stream, outgoing: Outgoing) -> Stream:
        """The stream, ending with the files and buttons of its reply."""
        if not (outgoing.attachments or outgoing.choices):
            return stream
        drafted = bool(stream.slots or stream.running or stream.unsure)
        return msgspec.structs.replace(stream, cut=self._cut.whole(outgoing, drafted=drafted))

    def _live(
        self,
        address: Address,
        turn: int,
        answers: int | None,
        left: Draft | None,
        *,
        first: bool = False,
    ) -> Live:
        """A text for this conversation. `turn`: remember it as its draft. `first`: see `_Unsent`."""
        tempo = limits.GROUP_TEMPO if address.channel.startswith("-") else limits.TEMPO
        left = left or Draft(turn, ())
        files = list(left.files)

        def note(ids: tuple[str, ...], *, posting: bool = False) -> None:
            text = "" if live.stream.final else live.stream.text
            self._memory.showing(str(address), Draft(turn, ids, text, tuple(files), posting))

        async def perform(action: Action) -> str:
            if turn and isinstance(action, Post):  # a crash in between must know that a message may be out
                note(live.stream.ids, posting=True)
            try:
                id_ = await self._perform(address, action, answers, files)
            except SendError as error:
                if turn and not error.unknown:
                    note(live.stream.ids)
                known = not (error.unknown or error.permanent)
                if first and known and isinstance(action, Post) and action.index == 0 and not action.repeat:
                    if error.retry_after is not None:
                        self._budget.blocked(address.channel, error.retry_after)
                    raise _Unsent(error) from error
                raise
            if turn:
                ids = live.stream.ids
                note((*ids, id_) if isinstance(action, Post) else ids)
            return id_

        slots = tuple(Slot(id_, None) for id_ in left.ids)
        stream = Stream(self._cut, tempo, slots, unsure=left.posting)
        live = Live(stream, perform, self._budget, address.channel, self._clock)
        return live

    async def _perform(self, address: Address, action: Action, answers: int | None, files: list[str]) -> str:
        """Carry it out; gives the message's id, which goes into `files` where it is one."""
        match action:
            case Post(content=content):
                reply = answers if action.index == 0 else None
                id_ = await self._client.post(address, content, answers=reply, repeat=action.repeat)
                if content.file is not None:
                    files.append(id_)
                return id_
            case Edit(content=content) if content.file is not None:
                if action.id in files:  # an earlier run sent it
                    return action.id
                await self._client.delete(address, action.id)
                raise SendError("A text cannot become a file: it is sent anew.", permanent=True)
            case Edit():
                return await self._client.edit(address, action.id, action.content)
            case Delete():
                return await self._client.delete(address, action.id)

    # ---- jobs

    def progress(self, address: Address, progress: Progress) -> None:
        """The line of a job takes the place of its last one (J13)."""
        key = (address, progress.job)
        line = self._jobs.get(key)
        if line is None:
            stream = Stream(_one_line)
            line = self._jobs[key] = _Line(self._job_live(address, stream))
        line.text, line.done = progress.text, progress.done
        if line.task is None or line.task.done():
            line.task = self._spawn(self._follow(key, line))

    def _job_live(self, address: Address, stream: Stream) -> Live:
        async def perform(action: Action) -> str:
            return await self._perform(address, action, None, [])

        return Live(stream, perform, self._budget, address.channel, self._clock)

    async def _follow(self, key: tuple[Address, str], line: _Line) -> None:
        while True:
            text = line.text
            try:
                await line.live.finish(text)
            except SendError as error:
                log.warning("the line of a job could not be shown: %s", error)
            if line.text == text:
                break
            await asyncio.sleep(_BETWEEN_PROGRESS)
        if line.done:
            self._jobs.pop(key, None)


def _one_line(text: str, final: bool) -> list[render.Content]:
    return [render.Content(Part(text[: limits.TEXT]))] if text.strip() else []
