"""The frozen values that cross floors: who, where, what came in, what was said, what goes out.

Values that come by the thousand and can be part of no cycle are left to reference counting alone
(`gc=False`). Nothing here does anything; every value can be compared, hashed where it makes sense, and written
as JSON (`encode`, `decode`), which is how the store keeps it.
"""

from __future__ import annotations

import enum
import re
from typing import Any, Final, TypeVar

import msgspec

from hermes_core.errors import HermesError

__all__ = [
    "Address",
    "Attachment",
    "Author",
    "Choice",
    "Entry",
    "EntryState",
    "Item",
    "Message",
    "Outgoing",
    "Reply",
    "Role",
    "Said",
    "SaidKind",
    "Step",
    "ToolCall",
    "ToolResult",
    "TurnEnd",
    "TurnRecord",
    "When",
    "clean",
    "decode",
    "encode",
    "first_words",
    "turn_key",
]

# Characters that stand for themselves in the string form of an address. Everything that is a
# separator, white space, a control character, a quote or a lone surrogate is escaped, so that the
# form is one word in a log line, a file and a shell.
_ESCAPED: Final = re.compile(r"""[%:\s\x00-\x20\x7f-\xa0"'`\\\u2028\u2029\ud800-\udfff]""")
_BASE_36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_ESCAPE: Final = re.compile(r"%([0-9A-F]{2}|u[0-9A-F]{4})")


def _escape(part: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = ord(match[0])
        return f"%{code:02X}" if code < 0x100 else f"%u{code:04X}"

    return _ESCAPED.sub(one, part)


def _unescape(part: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1].lstrip("u"), 16)), part)


class Address(msgspec.Struct, frozen=True, order=True, cache_hash=True, gc=False):
    """Where a conversation takes place: one value whose string form round-trips for any ids.

    `platform:account:channel` or, inside a thread, `platform:account:channel:thread`. `account` is
    the agent's own account there (two bots on one platform are two accounts).
    """

    platform: str
    account: str
    channel: str
    thread: str | None = None

    def __str__(self) -> str:
        parts = [self.platform, self.account, self.channel]
        if self.thread is not None:
            parts.append(self.thread)
        return ":".join(map(_escape, parts))

    @classmethod
    def parse(cls, text: str) -> Address:
        """The address whose string form is `text`; `HermesError` for anything else."""
        parts = [_unescape(part) for part in text.split(":")]
        if len(parts) in (3, 4):
            address = cls(*parts)
            if str(address) == text:
                return address
        raise HermesError(
            f"{text!r} is not an address.",
            "An address is platform:account:channel or platform:account:channel:thread.",
        )


class Role(enum.IntEnum):
    """What a person may do, each including the ones before it (X1)."""

    NOBODY = 0
    USER = 1
    ADMIN = 2
    OWNER = 3


class Author(msgspec.Struct, frozen=True, gc=False):
    """A person or bot on a platform. `id` is stable and decides; `name` is for eyes only."""

    id: str
    name: str = ""
    bot: bool = False


class Attachment(msgspec.Struct, frozen=True, gc=False):
    """A file that came with a message or goes out with one; `size` in bytes where known.

    `ref` of one that came is in its adapter's own form (`Downloads.fetch` reads it); of one that goes out it
    is the absolute path of a file that stays as it is until it is sent.
    """

    name: str
    media_type: str = "application/octet-stream"
    size: int | None = None
    ref: str = ""


class Message(msgspec.Struct, frozen=True, gc=False):
    """What an adapter hands in: one thing that one person wrote.

    `id` is the platform's own, unique within the address: the same id twice is one message (D1).
    `reply_to` is the platform's id of the message that this one answers natively. `group`: several
    people can write here. `partial`: likely a part of a longer paste or album (T1). `sent` is the
    platform's time stamp, seconds since 1970. `addressed` is False for what in a group neither names nor
    answers the agent: a stranger who writes it gets no answer (E12).
    """

    id: str
    address: Address
    author: Author
    text: str
    attachments: tuple[Attachment, ...] = ()
    reply_to: str | None = None
    group: bool = False
    partial: bool = False
    sent: float | None = None
    addressed: bool = True


class When(enum.StrEnum):
    """When an entry takes effect: the one field by which everything that comes in differs."""

    INTERRUPT = "interrupt"  # stop the running turn, then start with this
    STEER = "steer"  # into the running turn, at its next gap
    QUEUE = "queue"  # with all that waits, after the running turn
    FOLLOWUP = "followup"  # a turn of its own, in its place in the order
    AT_REPLY = "at_reply"  # an injection into the first turn after reply n; starts nothing
    EVENT = "event"  # a job's end: with the next model call that may carry it


class EntryState(enum.StrEnum):
    """Where an entry stands. Every entry ends in one of the last four (D2)."""

    WAITING = "waiting"
    USED = "used"  # by a turn
    HANDLED = "handled"  # by a command
    REFUSED = "refused"  # with a message to its sender
    CANCELLED = "cancelled"  # by its sender


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One thing that came in for a conversation, as the store keeps it.

    `seq` is the place in the order of all entries, given by the store (0 before). `at_reply` is the
    absolute reply count of an AT_REPLY entry (A4). `command` marks text that a command handles.
    `reply_to` is the platform's id of the message that it answers natively; `quote` is a text of the
    agent that stands in front (T3). `arrived`: seconds since 1970. `late`: it was too old when it came in, and
    is reported, not answered (D8). `parked`: an event that starts no turn any more, but rides with the next (I10).
    `by` is the name of the command that put it in.
    """

    id: str
    address: Address
    author: Author
    text: str
    when: When
    seq: int = 0
    at_reply: int | None = None
    command: bool = False
    group: bool = False
    partial: bool = False
    attachments: tuple[Attachment, ...] = ()
    quote: str | None = None
    arrived: float = 0.0
    reply_to: str | None = None
    late: bool = False
    parked: bool = False
    by: str = ""

    @property
    def short(self) -> str:
        """The id that people see and type: a letter, and `seq` in base 36."""
        number, digits = self.seq, ""
        while number:
            number, digit = divmod(number, 36)
            digits = _BASE_36[digit] + digits
        letter = {When.AT_REPLY: "a", When.EVENT: "e"}.get(self.when, "q")
        return f"{letter}{digits or '0'}"


class SaidKind(enum.StrEnum):
    """What kind of text stands in the user role (S1, A6: provenance by structure)."""

    MESSAGE = "message"
    STEER = "steer"
    NOTE = "note"
    EVENT = "event"
    INJECTION = "injection"


class Said(msgspec.Struct, frozen=True, tag="said"):
    """Text in the user role: a message, a steer, a note, an event, a plugin's injection.

    `author` is set in groups only; of an injection it is its label.
    """

    kind: SaidKind
    text: str
    author: str = ""
    attachments: tuple[Attachment, ...] = ()


class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A call that the model asked for; `arguments` is the JSON text as it came."""

    id: str
    name: str
    arguments: str


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """What a call gave; `error` marks that it failed, was skipped or was interrupted."""

    call_id: str
    text: str
    error: bool = False


class Step(msgspec.Struct, frozen=True, tag="step"):
    """One model call and all tool calls it asked for: each call has exactly one result.

    A step without calls is the final text. `opaque` is what the provider needs to see again
    unchanged (thinking blocks, signatures); only the model that wrote it reads it.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    opaque: dict[str, Any] | None = None


Item = Said | Step
"""One element of a conversation's history, in order."""


class TurnEnd(enum.StrEnum):
    """How a turn ended."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class TurnRecord(msgspec.Struct, frozen=True):
    """A turn as the store keeps it.

    `number` counts the turns of its conversation from 1. `end` is None while it runs; `reply` is the
    number of a completed one's reply.
    """

    number: int
    items: tuple[Item, ...]
    end: TurnEnd | None = None
    reply: int | None = None


class Reply(msgspec.Struct, frozen=True):
    """The final text of a completed turn; `number` counts 1, 2, 3 … in its conversation."""

    number: int
    text: str


class Choice(msgspec.Struct, frozen=True, gc=False):
    """A button under a message: pressing it is as if the person had typed `send`.

    `label` has at most 40 characters, `send` at most 60 bytes in UTF-8 (Telegram's `callback_data`
    takes 64). The text of the message says what to type, so a platform without buttons loses nothing.
    """

    label: str
    send: str


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """One message that leaves through the outbox.

    `key` names it for ever: a platform that can refuse or look up a key never shows it twice (D5).
    `turn` is the turn whose final text this is, "" for the answer to a command or a notice.
    `answers` is the platform's id of the message that it answers. `repeat` marks a text that may
    have been delivered before. `attachments` go out with the text, or alone where it is empty; only an
    adapter with `Features.max_file` gets any, none larger than that. `choices` are buttons under the
    text, five at most; only an adapter with `Features.buttons` gets any. `within` is the running turn that asks
    this: what that turn has said so far stands above it, whole, and is not completed by its reply.
    """

    key: str
    address: Address
    text: str
    seq: int = 0
    turn: str = ""
    number: int | None = None
    answers: str | None = None
    repeat: bool = False
    attachments: tuple[Attachment, ...] = ()
    choices: tuple[Choice, ...] = ()
    within: str = ""


_T = TypeVar("_T")


def turn_key(address: Address, turn: int | str) -> str:
    """The key of the message that ends this turn; an adapter that shows drafts knows it beforehand."""
    return f"{address}#turn:{turn}"


def clean(text: str) -> str:
    """`text` with halves of surrogate pairs replaced: they come in platforms' JSON and cannot be written down."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def first_words(text: str, length: int = 60) -> str:
    """The beginning of `text` on one line, with a mark where there is more."""
    line = " ".join(text[: 4 * length].split())
    return line if len(line) <= length and len(text) <= 4 * length else f"{line[: length - 1]}…"


def encode(value: Any) -> str:
    """`value` as JSON text: the same value always gives the same text."""
    return msgspec.json.encode(value).decode()


def decode(text: str | bytes, type_: type[_T]) -> _T:
    """The value of `type_` that `encode` wrote; `msgspec.DecodeError` for anything else."""
    return msgspec.json.decode(text, type=type_)
