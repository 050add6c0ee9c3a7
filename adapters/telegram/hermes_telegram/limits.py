"""What Telegram takes, as data. Sources stand beside each number; "trial" is one against the live platform."""

from __future__ import annotations

import re
from typing import Final

from hermes_core.pacing import Rate, Tempo

__all__ = [
    "ACCOUNT",
    "ALBUM_OR_PASTE",
    "CAPTION",
    "COMMANDS",
    "COMMAND_DESCRIPTION",
    "COMMAND_NAME",
    "DOWNLOAD",
    "GROUP",
    "GROUP_TEMPO",
    "NEARLY_FULL",
    "PHOTO",
    "PHOTOS",
    "POLL",
    "PRIVATE",
    "REACTIONS",
    "TEMPO",
    "TEXT",
    "TYPING",
    "TYPING_AFTER",
    "UPLOAD",
    "UPLOAD_LOCAL",
    "rates",
]

# core.telegram.org/bots/api#sendmessage: "1-4096 characters after entities parsing"; code points (trial).
TEXT: Final = 4096
# People's clients cut a paste at 4096 and prefer a line end before it; so a part of one is nearly full.
NEARLY_FULL: Final = 3900
ALBUM_OR_PASTE: Final = 5.0  # seconds for which what follows such a part is taken for more of it (T1)
# core.telegram.org/bots/api#botcommand and #setmycommands
COMMANDS: Final = 100
COMMAND_NAME: Final = re.compile(r"[a-z0-9_]{1,32}")
COMMAND_DESCRIPTION: Final = 256
CAPTION: Final = 1024  # core.telegram.org/bots/api#senddocument: "0-1024 characters after entities parsing"
DOWNLOAD: Final = 20 * 1024 * 1024  # bytes; core.telegram.org/bots/api#getfile
# bytes; core.telegram.org/bots/api#sending-files, and #using-a-local-bot-api-server for one's own server
UPLOAD: Final = 50_000_000
UPLOAD_LOCAL: Final = 2_000_000_000
PHOTO: Final = 10_000_000  # bytes; #sendphoto; what is larger goes as a document
PHOTOS: Final = frozenset({"image/jpeg", "image/png", "image/webp"})
TYPING: Final = 4.0  # seconds; the sign lasts 5 (core.telegram.org/bots/api#sendchataction)
TYPING_AFTER: Final = 0.4  # seconds; a reply that is sooner needs no sign, which is a call of its own
POLL: Final = 30  # seconds of one long poll; the platform takes up to 50
# core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this: one message a second in a chat,
# short bursts aside; 20 a minute in a group; 30 a second in all. A burst and what is allowed after it
# must stay below these together, so the steady rates are lower; by a tenth of a second at least, in which a call
# may be late on its way and the next one not.
PRIVATE: Final = (Rate(0.85, burst=3),)
GROUP: Final = (Rate(0.85, burst=3), Rate(14.0, 60.0, burst=6))
ACCOUNT: Final = (Rate(20.0, burst=10),)
# A reply that is whole within the first pause needs no edit.
TEMPO: Final = Tempo(first_chars=2000, first_after=0.6, every=1.2)
GROUP_TEMPO: Final = Tempo(first_chars=4000, first_after=2.0, every=6.0)  # an edit counts as a message
# core.telegram.org/bots/api#reactiontypeemoji names the emojis that a bot may use.
REACTIONS: Final = {"queued": "👀", "steering": "✍", "interrupting": "⚡", "cancelled": ""}


def rates(chat: str) -> tuple[Rate, ...]:
    """The allowances of one chat; groups have negative ids."""
    return GROUP if chat.startswith("-") else PRIVATE
