"""Writing: every text on its way to Slack, whether it is shown while it is written or comes whole.

Theory of operation. A `Line` is one text: a `Live` stream, and the keys under which its messages can be
found again. Drafts open lines as they come; `send` takes over the line whose text goes on in the
committed one, or opens one. A text of a turn that is followed by another (before a tool call) is
finished as it stands, before the next one is shown. Lines outlive a lost connection: `start` takes up
their tasks again. They outlive the process as far as `Drafts` knows their messages: where the turn goes on,
the same messages are edited; where another turn begins, they are closed with a mark (R3).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from hermes_core.adapter import Broken, Drafted, Sent
from hermes_core.errors import SendError
from hermes_core.messages import Address, Outgoing
from hermes_core.pacing import Action, Budget, Cut, Delete, Delta, Edit, Live, Post, Slot, Stopped, Stream
from hermes_slack.drafts import Draft, Drafts
from hermes_slack.files import Files
from hermes_slack.limits import DRAFT_AFTER, TEMPO
from hermes_slack.render import INTERRUPTED, INTERRUPTED_MRKDWN, Piece, cut
from hermes_slack.streams import Streams
from hermes_slack.tasks import begin

__all__ = ["Writing"]

log = logging.getLogger("hermes.slack")

_BEGUN: Final = 200  # characters by which a message is recognised


@dataclass(eq=False)
class _Line:
    """One text. `key` is written into its messages; `keys` are all under which some may stand."""

    address: Address
    turn: str
    part: int
    key: str
    live: Live = field(init=False)
    keys: set[str] = field(default_factory=set)
    before: _Line | None = None
    draft: str = ""
    whole: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # it is known what the text is, or that it broke

    held: list[str] | None = field(default_factory=list)  # deltas before the text is shown at all

    @property
    def text(self) -> str:
        return self.live.stream.text + "".join(self.held or ())

    def add(self, delta: str) -> None:
        if self.held is None:
            self.live.tell(Delta(delta))
        else:
            self.held.append(delta)

    async def finish(self) -> None:
        """Make it stand there whole, as far as it was written."""
        text, self.held = self.text, None
        if not self.live.stream.finished:
            await self.live.finish(text)

    def show(self) -> None:
        held, self.held = self.held, None
        if held:
            self.live.tell(Delta("".join(held)))


class Writing:
    """`posts` gives the calls of the present connection, waiting for one where there is none."""

    def __init__(self, budget: Budget, drafts: Drafts, wall: Callable[[], float]) -> None:
        self.budget = budget
        self.drafts = drafts
        self._wall = wall
        left = drafts.left()  # of a former run
        self._left = [one for one in left if one.ids]
        self._begun = [one for one in left if one.begun]
        self._dead: list[
            tuple[Address, Draft]
        ] = []  # of those, what is to be closed once there is a connection
        self._lines: dict[tuple[Address, str], list[_Line]] = {}  # of turns that are being written
        self._whole: dict[str, _Line] = {}  # by the key of what is being sent
        self._found: dict[str, tuple[Slot, ...]] = {}  # what `find` saw of texts that are not complete
        self._posts: Streams | None = None
        self._files: Files | None = None
        self._open = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._run = secrets.token_hex(4)

    def start(self, posts: Streams, files: Files, group: asyncio.TaskGroup) -> None:
        """A connection is there: its calls, and who owns the tasks that write."""
        self._posts, self._files, self._group = posts, files, group
        self._open.set()
        while self._begun:
            begin(group, self._recover(self._begun.pop()))
        while self._dead:
            begin(group, self._close(*self._dead.pop()))
        for turn, lines in list(self._lines.items()):
            for line in list(lines):
                begin(group, self._show(turn, line))

    def stop(self) -> None:
        """The connection is gone; what is being written waits for the next one."""
        self._posts = self._files = self._group = None
        self._open.clear()

    # -- while it is written

    def drafted(self, address: Address, shown: Drafted) -> None:
        """More of a text."""
        turn = (address, str(shown.turn))
        lines = self._lines.get(turn)
        if lines is None:
            lines = self._lines[turn] = []
        line = next((one for one in lines if one.part == shown.part), None)
        if line is None:
            key = f"{address}#draft:{self._run}:{shown.turn}:{shown.part}"
            line = self._line(address, turn[1], shown.part, key, self._taken_up(*turn))
            line.draft = key
            for slot in line.live.stream.slots:
                self.drafts.posted(key, str(address), turn[1], str(slot.id))
            if lines:
                line.before = lines[-1]
                line.before.whole.set()
            lines.append(line)
            if self._group is not None:
                begin(self._group, self._show(turn, line))
        line.add(shown.delta)

    def broken(self, address: Address, shown: Broken) -> None:
        """The text that is being written ends here (I5); those before it are whole."""
        lines = self._lines.get((address, str(shown.turn)))
        if lines:
            lines[-1].live.tell(Stopped(INTERRUPTED))
            lines[-1].whole.set()
        else:  # what a former run showed of it
            self._taken_up(address, "")

    async def _show(self, turn: tuple[Address, str], line: _Line) -> None:
        try:
            if line.before is not None:
                await line.before.finish()
                self._drop(turn, line.before)
            if line.held is not None and await _within(DRAFT_AFTER, line.whole):
                return  # it came so fast that whoever knows the whole text shows it, in one call
            line.show()
            await line.live.run()
        except SendError:  # the channel takes nothing any more; who sends the reply is told the same
            return
        finally:
            if line.live.stream.finished:
                self._drop(turn, line)

    def _drop(self, turn: tuple[Address, str], line: _Line) -> None:
        self.drafts.closed(line.draft)
        lines = self._lines.get(turn, [])
        if line in lines:
            lines.remove(line)
        if not lines:
            self._lines.pop(turn, None)

    # -- of a former run

    def marks(self) -> list[Draft]:
        """What a former run left that belongs to no turn; told once."""
        found = [one for one in self._left if not one.turn]
        self._left = [one for one in self._left if one.turn]
        return found

    def _taken_up(self, address: Address, turn: str) -> tuple[Slot, ...]:
        """The messages that a former run showed of this turn; those of other turns here are closed."""
        here = str(address)
        slots: tuple[Slot, ...] = ()
        for draft in [one for one in self._left if one.address == here]:
            self._left.remove(draft)
            if draft.turn == turn and not slots:
                slots = tuple(Slot(id_, None) for id_ in draft.ids)
                self.drafts.closed(draft.key)
            elif self._group is not None:
                begin(self._group, self._close(address, draft))
            else:
                self._dead.append((address, draft))
        return slots

    async def _close(self, address: Address, draft: Draft) -> None:
        posts, _ = await self._connected()
        try:
            await posts.mark(address, draft.ids[-1], INTERRUPTED_MRKDWN)
        except SendError as error:
            log.info("an unfinished text could not be closed: %s", error)
        self.drafts.closed(draft.key)

    async def _recover(self, draft: Draft) -> None:
        """A run died while it posted this: where the message stands there, it is closed."""
        posts, _ = await self._connected()
        address = Address.parse(draft.address)
        posts.expect(draft.key, draft.at, draft.begun, len(draft.ids))
        try:
            for one in (await posts.find(address, (draft.key,))).values():
                if one.ts not in draft.ids:
                    await posts.mark(address, one.ts, INTERRUPTED_MRKDWN)
        except SendError as error:
            log.info("an unfinished text could not be looked up: %s", error)
        if not draft.ids:
            self.drafts.closed(draft.key)

    # -- whole

    async def send(self, outgoing: Outgoing) -> Sent:
        """Make Slack show exactly this text and its files, once; a draft of its turn becomes it."""
        key = outgoing.key
        ids: tuple[str, ...] = ()
        done = False
        try:
            if outgoing.text.strip():
                ids = await self._text(outgoing)
            if outgoing.attachments:
                await self._attached(outgoing)
            done = True
        except SendError as error:
            done = error.permanent
            raise
        finally:
            if done:  # else the text is known to stand there when its files are tried again
                self._whole.pop(key, None)
                self._found.pop(key, None)
        return Sent(ids)

    async def _text(self, outgoing: Outgoing) -> tuple[str, ...]:
        line = self._whole.get(outgoing.key)
        if line is None:
            line = self._whole[outgoing.key] = self._taken_over(outgoing)
        try:
            if line.before is not None:
                await line.before.finish()
            return await line.live.finish(outgoing.text)
        finally:
            if line.live.stream.finished:
                for one in (line.before, line):
                    if one is not None:
                        self._drop((outgoing.address, outgoing.turn), one)

    async def _attached(self, outgoing: Outgoing) -> None:
        posts, files = await self._connected()
        failed = await files.send(outgoing.address, outgoing.key, outgoing.attachments)
        key = f"{outgoing.key}#files"
        if failed and not await posts.find(outgoing.address, (key,)):  # said once, where it is missed
            notice = self._line(outgoing.address, "", 0, key)
            await notice.live.finish("\n".join(failed))

    def _taken_over(self, outgoing: Outgoing) -> _Line:
        """The line of the draft that goes on in this text, or a new one."""
        lines = [
            one for one in self._lines.get((outgoing.address, outgoing.turn), ()) if not one.live.stream.final
        ]
        last = lines[-1] if outgoing.turn and lines else None
        if last is not None and outgoing.text.strip().startswith(last.text.strip()):
            last.keys.add(outgoing.key)
            last.key = outgoing.key
            last.whole.set()
            last.live.stream = msgspec.structs.replace(last.live.stream, cut=_cut(outgoing))
            return last
        slots = self._found.get(outgoing.key, ())
        if outgoing.turn and not lines:
            slots = slots or self._taken_up(outgoing.address, outgoing.turn)
        line = self._line(outgoing.address, outgoing.turn, 0, outgoing.key, slots, _cut(outgoing))
        line.before = last
        return line

    async def find(self, key: str, address: Address) -> Sent | None:
        """Whether the whole text with this key stands there, and its files. What is there of it is kept for `send`."""
        posts, files = await self._connected()
        found = await posts.find(address, (key,))
        of = max((one.of for one in found.values()), default=0)
        count = max((one.files for one in found.values()), default=0)
        if not found:
            return Sent(()) if await files.there(key, address) else None
        whole = of and all(index in found and found[index].of == of for index in range(of))
        if whole and (not count or await files.there(key, address)):
            return Sent(tuple(found[index].ts for index in range(of)))
        self._found[key] = tuple(
            Slot(found[index].ts if index in found else None, None) for index in range(max(found) + 1)
        )
        return None

    # -- one call

    def _line(
        self,
        address: Address,
        turn: str,
        part: int,
        key: str,
        slots: tuple[Slot, ...] = (),
        cut: Cut = cut,
    ) -> _Line:
        line = _Line(address, turn, part, key, {key})

        async def perform(action: Action) -> str:
            if line.draft and isinstance(action, Post):
                begun = action.content.raw or action.content.text
                self.drafts.posting(line.draft, str(address), line.turn, begun[:_BEGUN], self._wall())
            id_ = await self._perform(line, action)
            if line.draft and isinstance(action, Post):
                self.drafts.posted(line.draft, str(line.address), line.turn, id_)
            return id_

        stream = Stream(cut, TEMPO, slots)
        clock = asyncio.get_running_loop().time
        line.live = Live(stream, perform, self.budget, address.channel, clock)
        return line

    async def _perform(self, line: _Line, action: Action) -> str:
        posts, _ = await self._connected()
        match action:
            case Post():
                if action.repeat:  # an earlier try may have worked
                    found = (await posts.find(line.address, line.keys)).get(action.index)
                    if found is not None:
                        if _shows(found.of, action.content):
                            return found.ts
                        return await posts.edit(
                            line.address, found.ts, action.content, line.key, action.index
                        )
                return await posts.post(line.address, action.content, line.key, action.index)
            case Edit():
                return await posts.edit(line.address, action.id, action.content, line.key, action.index)
            case Delete():
                return await posts.delete(line.address, action.id)

    async def _connected(self) -> tuple[Streams, Files]:
        while self._posts is None or self._files is None:
            await self._open.wait()
        return self._posts, self._files


def _cut(outgoing: Outgoing) -> Cut:
    """How this message is cut: its buttons stand under the last part."""
    if not outgoing.choices and not outgoing.attachments:
        return cut
    return functools.partial(cut, choices=outgoing.choices, files=len(outgoing.attachments))


def _shows(of: int, piece: Piece) -> bool:
    """Whether the message that was found shows this piece: drafts grow, finished texts stay as they are."""
    return piece.of > 0 and of == piece.of


async def _within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
