"""What the table speaks of: phases, signals, effects, and the state of a conversation."""

from __future__ import annotations

import enum
from collections import OrderedDict

import msgspec

from hermes_core.messages import Entry, TurnEnd

__all__ = [
    "Amended",
    "Commit",
    "Drop",
    "Effect",
    "Give",
    "Halt",
    "Happening",
    "Lane",
    "Phase",
    "Receipt",
    "Renew",
    "Resume",
    "Signal",
    "Start",
    "State",
    "Wait",
    "dump",
    "load",
]

Lane = OrderedDict[str, Entry]


class Phase(enum.StrEnum):
    """What a conversation is doing."""

    IDLE = "idle"
    GATHERING = "gathering"
    RUNNING = "running"
    STOPPING = "stopping"
    COMMITTING = "committing"


class Signal(enum.StrEnum):
    """What can happen to a conversation. The first six are the arrival of an entry, named by its `When`."""

    INTERRUPT = "interrupt"
    STEER = "steer"
    QUEUE = "queue"
    FOLLOWUP = "followup"
    AT_REPLY = "at_reply"
    EVENT = "event"
    EXPIRED = "expired"  # the quiet window is over
    GAP = "gap"  # the turn stands between two steps
    ANSWERED = "answered"  # the turn has its final text
    ENDED = "ended"  # the turn is over, whichever way
    STOP = "stop"  # /stop
    BREAK = "break"  # /interrupt without text
    RESET = "reset"  # /new
    RESTORED = "restored"  # a new run of the program: what waited arrives again, then EXPIRED


# ---- effects


class Start(msgspec.Struct, frozen=True):
    """Start turn number `turn` with `notes` and `batch`."""

    turn: int
    notes: tuple[Entry, ...]
    batch: tuple[Entry, ...]


class Resume(msgspec.Struct, frozen=True):
    """Go on with the turn that a former run left open (D4)."""

    turn: int


class Halt(msgspec.Struct, frozen=True):
    """End the running turn now, hard (I1 to I5)."""

    turn: int


class Give(msgspec.Struct, frozen=True):
    """Hand these to the running turn; it goes on (S1, S2, T4). Answers GAP and ANSWERED."""

    entries: tuple[Entry, ...]


class Commit(msgspec.Struct, frozen=True):
    """The final text stands; make the end durable (D3). Answers ANSWERED."""


class Wait(msgspec.Struct, frozen=True):
    """Signal EXPIRED after `seconds` from now, in place of an earlier wait."""

    seconds: float


class Renew(msgspec.Struct, frozen=True):
    """Begin an empty history (T7)."""


class Receipt(msgspec.Struct, frozen=True):
    """Tell the sender what became of the entry (T6): queued, steering, interrupting, cancelled."""

    entry: Entry
    kind: str
    position: int = 0


class Drop(msgspec.Struct, frozen=True):
    """These entries are cancelled (D2)."""

    entries: tuple[Entry, ...]


class Amended(msgspec.Struct, frozen=True):
    """This waiting entry now reads so (D9)."""

    entry: Entry


Effect = Start | Resume | Halt | Give | Commit | Wait | Renew | Receipt | Drop | Amended


class State(msgspec.Struct):
    """All that the table knows of one conversation; a plain value, owned by one caller."""

    phase: Phase = Phase.IDLE
    turns: int = 0  # number of the latest turn
    replies: int = 0  # number of the latest reply
    shown: bool = False  # the running turn has shown something or run a tool (T6)
    renew: bool = False  # an empty history is due when the running turn has ended
    people: frozenset[str] = frozenset()  # ids of those whose turn runs (T2)
    front: Lane = msgspec.field(default_factory=OrderedDict)
    line: Lane = msgspec.field(default_factory=OrderedDict)
    steers: Lane = msgspec.field(default_factory=OrderedDict)
    events: Lane = msgspec.field(default_factory=OrderedDict)
    parked: Lane = msgspec.field(default_factory=OrderedDict)  # events that start nothing: after /stop
    notes: Lane = msgspec.field(default_factory=OrderedDict)
    places: dict[int, str] = msgspec.field(
        default_factory=dict
    )  # ids by `seq`, also of some that wait no more
    carried: tuple[Entry, ...] = ()  # notes and events that ride with the running turn


class Happening(msgspec.Struct, frozen=True):
    """A signal with what belongs to it.

    `admin`: its sender may interrupt anyone's turn. `wait`: seconds for which more of it is likely on
    its way (0: none). `end` goes with ENDED; `keep` is False when the turn leaves nothing in history.
    `turn` goes with RESTORED: the number of the turn that was open.
    """

    entry: Entry | None = None
    admin: bool = False
    wait: float = 0.0
    end: TurnEnd | None = None
    keep: bool = True
    turn: int | None = None


def dump(state: State) -> bytes:
    """The state as JSON."""
    return msgspec.json.encode(state)


def load(data: bytes) -> State:
    """The state that `dump` wrote."""
    return msgspec.json.decode(data, type=State, dec_hook=_lane)


def _lane(kind: type, value: dict[str, object]) -> Lane:
    return Lane((id_, msgspec.convert(entry, Entry)) for id_, entry in value.items())
