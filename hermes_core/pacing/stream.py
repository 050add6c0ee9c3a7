"""A text that is shown while it is written: what to post or edit next, and when (R3, case 35).

Theory of operation. `Stream` is a frozen value; `step` takes an event and the time, and gives the next
value, at most one action, and the time at which to ask again. It knows what the platform shows (`slots`:
one message each, with its id and content) and what it should show (the text so far, cut into messages).
The next action is always to mend the first difference. So an edit that would change nothing is never
made; whatever was lost, refused or slowed down is made up for by the next one; and once the text is
finished, the stream is finished only when the platform shows exactly the whole text, once.

Only one action is under way at a time: after an action, tell what became of it before asking for more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from hermes_core.pacing.budget import Want

__all__ = [
    "Action",
    "Cut",
    "Delete",
    "Delta",
    "Done",
    "Edit",
    "Event",
    "Failed",
    "Finished",
    "Post",
    "Refused",
    "Slot",
    "Stopped",
    "Stream",
    "Tempo",
    "Tick",
]

Cut = Callable[[str, bool], Sequence[Any]]
"""The messages that show a text, as values that can be compared (`markup.Part`), none of them blank.

True: the text is final, and may be formatted; False: it is still written.
"""

_FIRST_PAUSE: Final = 1.0  # seconds after a failure that gave no time; doubled for each further one
_LONGEST_PAUSE: Final = 60.0
_FENCE: Final = re.compile(r"[ \t]*(`{3,}|~{3,})(.*)")


class Tempo(msgspec.Struct, frozen=True):
    """How eagerly a stream is shown.

    The first text is posted after `first_chars` or `first_after` seconds, whichever comes first. Edits
    are `every` seconds apart, and `slower` more for each 1,000 characters: long texts cost more to
    send and are read no faster.
    """

    first_chars: int = 24
    first_after: float = 0.7
    every: float = 1.0
    slower: float = 0.25


class Slot(msgspec.Struct, frozen=True):
    """One message of the stream: its id on the platform (None: it is gone), and what it shows."""

    id: str | None
    content: Any


# ---- what is told to it


class Delta(msgspec.Struct, frozen=True, gc=False):
    """More of the text."""

    text: str


class Finished(msgspec.Struct, frozen=True):
    """The whole text, as it was committed; it stands in place of all deltas."""

    text: str


class Stopped(msgspec.Struct, frozen=True):
    """The text ends here and will not be completed: what is shown is closed with `mark` (I5)."""

    mark: str


class Tick(msgspec.Struct, frozen=True):
    """Time has passed."""


class Done(msgspec.Struct, frozen=True):
    """The action was carried out; `id` is the message's. Also for an edit that "is not modified"."""

    id: str


class Refused(msgspec.Struct, frozen=True):
    """The action was not carried out and can be after `wait` seconds: the budget, or a 429.

    Without a wait it is wanted in another way: what is to be shown is cut anew.
    """

    wait: float


class Failed(msgspec.Struct, frozen=True):
    """The action failed.

    `gone`: the message to edit is not there any more; it is posted anew. `unknown`: it may have been
    carried out; look the post up first if the platform allows it, and tell `Done` if it is there.
    `hopeless`: this conversation takes nothing any more; the stream ends.
    """

    gone: bool = False
    unknown: bool = False
    hopeless: bool = False


Event = Delta | Finished | Stopped | Tick | Done | Refused | Failed


# ---- what it says


class Post(msgspec.Struct, frozen=True):
    """Post `content` as message number `index` of the stream. `repeat`: an earlier try may have worked.

    `of` is how many messages the whole text has; 0 while it is written.
    """

    index: int
    content: Any
    want: Want
    repeat: bool = False
    of: int = 0


class Edit(msgspec.Struct, frozen=True):
    """Replace what message `id` shows."""

    index: int
    id: str
    content: Any
    want: Want


class Delete(msgspec.Struct, frozen=True):
    """Remove message `id`: the final text needs fewer messages than were posted."""

    index: int
    id: str
    want: Want


Action = Post | Edit | Delete


class _Parts(msgspec.Struct, frozen=True):
    """A text as it was cut last, so that what did not change is not parsed once more."""

    cut: Cut
    text: str
    final: bool
    parts: Sequence[Any]


class Stream(msgspec.Struct, frozen=True):
    """One text on its way to one conversation.

        stream = Stream(cut, Tempo())
        stream, action, at = stream.step(Delta("Hello"), now)

    `finished`: the platform shows the whole text once (or `hopeless`: it never will); `ids` are all its
    messages, in order. `slots` may be stored and given to a new stream after a crash: it then mends
    these messages instead of posting others (R3).
    """

    cut: Cut
    tempo: Tempo = Tempo()
    slots: tuple[Slot, ...] = ()
    text: str = ""
    final: bool = False
    closing: bool = False
    began: float | None = None
    due: float = 0.0  # the platform takes nothing before this instant
    edit_at: float = 0.0  # those who watch need nothing before this instant
    running: Action | None = None
    failures: int = 0
    unsure: bool = False  # the last post may have worked
    finished: bool = False
    hopeless: bool = False
    known: _Parts | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all its messages that there are, in order."""
        return tuple(slot.id for slot in self.slots if slot.id is not None)

    def step(self, event: Event, now: float) -> tuple[Stream, Action | None, float | None]:
        """What follows from `event`: the next value, what to do, and when to ask again with `Tick`.

        The time is None while an action is under way, while there is nothing to show, and at the end.
        """
        after = self._told(event, now)
        if after.finished or after.running is not None or not (after.text or after.final):
            return after, None, None
        at = after._when()
        if now < at:
            return after, None, at
        known = after._cut()
        action = after._next(known.parts)
        finished = action is None and after.final
        return msgspec.structs.replace(after, running=action, finished=finished, known=known), action, None

    # ---- what was told

    def _told(self, event: Event, now: float) -> Stream:
        replace = msgspec.structs.replace
        match event:
            case Delta():
                if self.final:  # a straggler: the final text has it
                    return self
                began = now if self.began is None else self.began
                return replace(self, text=self.text + event.text, began=began)
            case Finished():
                return self if self.closing else replace(self, text=event.text, final=True, finished=False)
            case Stopped():
                return self._stopped(event.mark)
            case Done():
                return self._carried_out(event.id, now)
            case Refused():
                known = self.known if event.wait > 0.0 else None
                return replace(self, running=None, due=max(self.due, now + event.wait), known=known)
            case Failed():
                return self._failed(event, now)
            case Tick():
                return self

    def _stopped(self, mark: str) -> Stream:
        if self.final:
            return self
        shown = bool(self.slots) or isinstance(self.running, Post) or self.unsure
        if not shown:  # nobody has seen anything: there is nothing to close
            return msgspec.structs.replace(self, final=True, closing=True, finished=True)
        text = f"{self.text.rstrip()}{_open_fence(self.text)}\n\n{mark}"
        return msgspec.structs.replace(self, text=text, final=True, closing=True)

    def _carried_out(self, id: str, now: float) -> Stream:
        action = self.running
        slots = list(self.slots)
        match action:
            case Post():
                slots[action.index : action.index + 1] = [Slot(id, action.content)]
            case Edit():
                slots[action.index] = Slot(action.id, action.content)
            case Delete():
                del slots[action.index]
            case None:
                return self
        pause = self.tempo.every + self.tempo.slower * len(self.text) / 1000
        return msgspec.structs.replace(
            self,
            slots=tuple(slots),
            running=None,
            edit_at=now + pause,
            failures=0,
            unsure=self.unsure and not isinstance(action, Post),  # an edit says nothing about the post
        )

    def _failed(self, event: Failed, now: float) -> Stream:
        replace = msgspec.structs.replace
        action = self.running
        if event.hopeless:
            return replace(self, running=None, final=True, finished=True, hopeless=True)
        slots = self.slots
        if event.gone and isinstance(action, Delete):
            slots = (*slots[: action.index], *slots[action.index + 1 :])
        elif event.gone and isinstance(action, Edit):
            missing = Slot(None, slots[action.index].content)
            slots = (*slots[: action.index], missing, *slots[action.index + 1 :])
        unsure = self.unsure or (event.unknown and isinstance(action, Post))
        if self.closing and not slots and not unsure:  # nobody saw anything of it
            return replace(self, running=None, finished=True)
        pause = 0.0 if event.gone else min(_FIRST_PAUSE * 2**self.failures, _LONGEST_PAUSE)
        return replace(
            self,
            slots=slots,
            running=None,
            due=max(self.due, now + pause),
            failures=min(self.failures + 1, 10),
            unsure=unsure,
        )

    # ---- what to do

    def _when(self) -> float:
        """The instant before which nothing is done."""
        if self.final:  # the end waits for the platform only
            return self.due
        at = max(self.due, self.edit_at)
        if not self.slots and len(self.text) < self.tempo.first_chars and self.began is not None:
            at = max(at, self.began + self.tempo.first_after)
        return at

    def _cut(self) -> _Parts:
        known = self.known
        if (
            known is not None
            and known.text == self.text
            and (known.cut, known.final) == (self.cut, self.final)
        ):
            return known
        return _Parts(self.cut, self.text, self.final, self.cut(self.text, self.final))

    def _next(self, parts: Sequence[Any]) -> Action | None:
        """What mends the first difference between what is shown (`slots`) and what should be (`parts`)."""
        for index, part in enumerate(parts):
            if index >= len(self.slots) or self.slots[index].id is None:
                if self.final:
                    return Post(index, part, Want.FINAL_SEND, self.unsure, len(parts))
                return Post(index, part, Want.STREAM_EDIT, self.unsure)
            slot = self.slots[index]
            if slot.content != part and slot.id is not None:
                return Edit(index, slot.id, part, Want.FINAL_EDIT if self.final else Want.STREAM_EDIT)
        if self.final:
            for index in range(len(self.slots) - 1, len(parts) - 1, -1):
                surplus = self.slots[index].id
                if surplus is not None:
                    return Delete(index, surplus, Want.FINAL_EDIT)
        return None


def _open_fence(text: str) -> str:
    """What closes the code fence that `text` ends in, if it does; else nothing."""
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if found is None:
            continue
        if not fence:
            fence = found[1]
        elif found[1].startswith(fence) and not found[2].strip():
            fence = ""
    return f"\n{fence}" if fence else ""
