"""Writing: one text on its way to a channel, from its first words to its last edit.

Theory of operation. Each text of a turn (`part`) is a `Live`: what is shown is mended towards what should
be shown, one call at a time. The next part begins when the one before shows its whole text. A message is
posted with a nonce that depends on the text's key and the message's place only, so that a post whose
outcome is unknown is made again with the same one, and a new process makes it with the same one too (D5).

Replies leave the outbox in order, but what is shown while it is written does not go through the outbox. So
a turn's texts follow those of the turn before: nothing of it is posted before the other is complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from hermes_core.adapter import Sent
from hermes_core.errors import SendError
from hermes_core.messages import Attachment, Outgoing
from hermes_core.pacing import Action, Budget, Delete, Delta, Edit, Live, Post, Slot, Stopped, Stream, Want
from hermes_discord.limits import TEMPO
from hermes_discord.line import Line, unknown_message, unwanted
from hermes_discord.notebook import UNSURE, Notebook
from hermes_discord.render import CLOSED, REPEAT, Piece, cut, dressed, nonce, told_apart

__all__ = ["Desk", "Writing"]

log = logging.getLogger("hermes.discord")

GRACE: Final = 3.0  # seconds in which a finished text comes out of the outbox, where it has one


class Desk:
    """What every text needs: the connection of this moment, the channel's budget, the notebook, the clock."""

    def __init__(self, notebook: Notebook, budget: Budget, clock: Callable[[], float]) -> None:
        self.notebook = notebook
        self.budget = budget
        self.clock = clock
        self.line: Line | None = None


class Writing:
    """The texts of one turn, or one message. `answers`: the message that the first of them answers."""

    def __init__(
        self,
        desk: Desk,
        line: Line,
        channel: int,
        key: str,
        answers: int | None = None,
        behind: Writing | None = None,
    ) -> None:
        self.ending = asyncio.Event()  # its end is known, and being shown
        self.done = asyncio.Event()  # nothing of it will be posted any more
        self._behind = behind
        drafts = desk.notebook.drafts(key)
        self._before = max(drafts, default=0)  # parts that a dead run posted; it was at the last of them
        left = drafts.get(self._before, [])
        self._left = [one for one in left if not one.startswith(UNSURE)]
        self._unsure = next((one.removeprefix(UNSURE) for one in left if one.startswith(UNSURE)), "")
        self.key = key
        self._desk = desk
        self._line = line
        self._channel = channel
        self._answers = answers
        self._lives: list[Live] = []
        self._nonces: dict[tuple[int, int], str] = {}
        self._ids: dict[int, list[str]] = {}
        self._renewed = 0
        self._shape: tuple[str, list[str]] | None = None
        self._outgoing: Outgoing | None = None  # what the last text becomes
        self._left_out: dict[Attachment, str] = {}  # files that Discord does not take, with the reason

    # -- while it is written

    def tell(self, part: int, delta: str) -> int | None:
        """More of part number `part`; gives its place if somebody must now `show` it."""
        fresh = part >= len(self._lives)
        while part >= len(self._lives):
            self._begin(len(self._lives))
        self._lives[part].tell(Delta(delta))
        return part if fresh else None

    async def show(self, part: int) -> None:
        """Show part number `part` while it is written, once all that stands before it is complete."""
        await self._follow(GRACE)
        if part > 0:
            await self._complete(part - 1)
        await self._lives[part].run()

    async def close(self) -> None:
        """The turn will not be completed: what is shown of its last text is closed with a mark (I5)."""
        self.ending.set()
        try:
            if self._lives:
                self._lives[-1].tell(Stopped(CLOSED))
                await self._lives[-1].run()
            self._desk.notebook.finished(self.key)
        finally:
            self.done.set()

    async def settle(self) -> None:
        """The turn said no more: what was shown is completed as it stands."""
        self.ending.set()
        try:
            for part in range(len(self._lives)):
                await self._complete(part)
            self._desk.notebook.finished(self.key)
        finally:
            self.done.set()

    def abandon(self) -> None:
        """Nobody can show its end now; the notebook still has it, and its mark comes with the next turn."""
        self.ending.set()
        self.done.set()

    async def _follow(self, grace: float) -> None:
        """Wait for the turn before; one whose end is not sent within `grace` seconds has none, and is settled."""
        behind = self._behind
        if behind is None:
            return
        try:
            async with asyncio.timeout(grace):
                await behind.ending.wait()
        except TimeoutError:
            await behind.settle()
        await behind.done.wait()
        self._behind = None

    async def _complete(self, part: int) -> None:
        live = self._lives[part]
        if live.stream.text.strip() and not live.stream.final:
            await live.finish(live.stream.text)

    # -- the end

    async def finish(self, outgoing: Outgoing, slots: tuple[Slot, ...] = ()) -> Sent:
        """Make the channel show the whole message; `slots` are messages that show something of it already.

        Waits as long as the platform wants. `SendError` (permanent) where nothing is taken here.
        """
        self.ending.set()
        try:
            await self._follow(0.0)  # the outbox has sent what the turn before had to say
            return Sent(await self._finish(outgoing, slots))
        finally:
            self.done.set()

    async def _finish(self, outgoing: Outgoing, slots: tuple[Slot, ...]) -> tuple[str, ...]:
        text = f"{REPEAT}{outgoing.text}" if outgoing.repeat else outgoing.text
        if not self._lives:
            self._begin(0, slots)
        last = len(self._lives) - 1
        for part in range(last):
            await self._complete(part)
        self._outgoing = outgoing
        total = len(self._pieces(last, text, True))
        for index in range(total):  # a text that was never shown in the making says how long it is
            self._mark(last, index, total)
        ids = await self._lives[last].finish(text)
        notebook = self._desk.notebook
        if last > 0 or notebook.drafts(self.key):  # it stands under other nonces than its key would give
            for index, one in enumerate(ids):
                notebook.post(nonce(self.key, 0, index, len(ids)), one)
        notebook.finished(self.key)
        return ids

    def _pieces(self, part: int, text: str, final: bool) -> list[Piece]:
        """The messages that show a text; the last text of all carries files and buttons."""
        outgoing = self._outgoing
        if outgoing is None or not final or part < len(self._lives) - 1:
            return [Piece(one) for one in self._cut(text, final)]
        for file, why in self._left_out.items():
            text = f"{text}\n\n*{file.name} could not be attached: {why}.*"
        files = [one for one in outgoing.attachments if one not in self._left_out]
        return dressed(self._cut(text, final), files, outgoing.choices)

    def _cut(self, text: str, final: bool) -> list[str]:
        """`cut`, which is asked for the same text several times."""
        if self._shape is None or self._shape[0] != text:
            self._shape = (text, cut(text, final))
        return self._shape[1]

    # -- calls

    def _begin(self, part: int, slots: tuple[Slot, ...] = ()) -> None:
        desk = self._desk

        async def perform(action: Action) -> str:
            return await self._perform(part, action)

        def pieces(text: str, final: bool) -> list[Piece]:
            return self._pieces(part, text, final)

        if part == 0 and self._left:  # the same messages get their end (R3)
            slots = tuple(Slot(one, None) for one in self._left)
            self._ids[0] = list(self._left)
        stream = Stream(pieces, tempo=TEMPO, slots=slots)
        self._lives.append(Live(stream, perform, desk.budget, str(self._channel), desk.clock))

    async def _perform(self, part: int, action: Action) -> str:
        line = self._desk.line or self._line  # the connection may have been made anew meanwhile
        if isinstance(action, Delete):
            return await line.remove(self._channel, action.id)
        try:
            if isinstance(action, Post):
                return await self._post(line, part, action)
            return await self._edit(line, part, action)
        except OSError as error:
            raise self._without(action.content, "it cannot be read", error) from error
        except SendError as error:
            why = unwanted(error) if action.content.files else ""
            if not why:
                raise
            raise self._without(action.content, why, error) from error

    def _without(self, piece: Piece, why: str, error: Exception) -> SendError:
        """Leave the files of this message out, so that its text arrives; what says to do it again so."""
        log.warning("%d files of %s are not sent: %s", len(piece.files), self.key, error)
        self._left_out.update(dict.fromkeys(piece.files, why))
        return SendError("The files are left out.", retry_after=0.0)

    async def _edit(self, line: Line, part: int, action: Edit) -> str:
        try:
            return await line.edit(self._channel, action.id, action.content)
        except SendError as error:
            if error.permanent and not unwanted(error):  # it is gone, and its nonce would only find that
                self._renew((part, action.index))
            raise

    def _mark(self, part: int, index: int, total: int = 0) -> str:
        """The nonce of this place, the same each time it is asked for."""
        mark = self._nonces.get((part, index))
        if mark is None:
            mark = self._nonces[part, index] = nonce(self.key, self._before + part, index, total)
        return mark

    def _renew(self, place: tuple[int, int]) -> None:
        """Another nonce for this place: what was posted with the last one is gone."""
        self._renewed += 1
        self._nonces[place] = nonce(f"{self.key}|{self._renewed}", self._before + place[0], place[1])

    async def _post(self, line: Line, part: int, action: Post) -> str:
        mark = self._mark(part, action.index)
        drafted = action.want is Want.STREAM_EDIT  # the messages of a final text are found by their nonces
        ids = self._ids.setdefault(part, [])
        posted = await self._find(line, mark, action) if action.repeat or self._unsure else None
        self._unsure = ""
        if posted is not None:
            await self._mend(line, (part, action.index), posted, action.content)
        else:
            if drafted:  # a crash in the midst of the call must leave a trace of it (R3)
                sent = f"{UNSURE}{action.content.text}"
                self._desk.notebook.drafting(self.key, self._before + part, [*ids[: action.index], sent])
            answers = self._answers if (part, action.index) == (0, 0) else None
            try:
                posted = await line.post(self._channel, action.content, mark, answers)
            except SendError as error:
                if unknown_message(error):  # the nonce finds a message that was deleted since
                    self._renew((part, action.index))
                    raise SendError(error.message, retry_after=0.0) from error
                raise
        ids[action.index :] = [posted]
        if drafted:
            self._desk.notebook.drafting(self.key, self._before + part, ids)
        return posted

    async def _mend(self, line: Line, place: tuple[int, int], posted: str, piece: Piece) -> None:
        """A message that was found may show less of the text than is known by now."""
        try:
            await line.edit(self._channel, posted, piece)
        except SendError as error:
            if not error.permanent:
                raise
            self._renew(place)
            raise SendError(error.message, retry_after=0.0) from error

    async def _find(self, line: Line, mark: str, action: Post) -> str | None:
        """A post whose outcome is unknown: the nonce works for minutes only, the history for longer."""
        if mark in self._desk.notebook.posted():  # the gateway was faster
            return self._desk.notebook.posted()[mark]
        text = action.content.text.strip()
        known = {one for ids in self._ids.values() for one in ids}
        for message in reversed(await line.mine(self._channel, self._answers)):
            shows = message.content.strip()
            same = shows == (self._unsure.strip() or (text if told_apart(text) else ""))
            if str(message.id) not in known and same and shows:
                return str(message.id)
        return None
