"""What Discord allows, as data, each with its source."""

from __future__ import annotations

from typing import Final

from hermes_core.adapter import Features
from hermes_core.pacing import Rate, Tempo

__all__ = [
    "CHANNEL_RATES",
    "COMMANDS",
    "DESCRIPTION",
    "FEATURES",
    "FILES",
    "HISTORY_PAGE",
    "IN_TIME",
    "LARGEST_FILE",
    "LARGEST_REQUEST",
    "LIKELY_PARTIAL",
    "LONGEST_PAUSE",
    "LONGEST_TEXT",
    "NONCE",
    "NONCE_LAPSES",
    "PATIENCE",
    "PLATFORM",
    "REQUESTS",
    "TEMPO",
    "TYPING",
]

PLATFORM: Final = "discord"

LONGEST_TEXT: Final = 2000
"""Characters of a message (developer documentation, Create Message). Counted here in UTF-16 units, which
is what the clients count, and never less than any other way to count."""

LIKELY_PARTIAL: Final = 1900
"""A message at least this long is likely a part of a paste that was split by hand to fit (T1)."""

NONCE: Final = 25
"""Characters of a nonce (Create Message). With `enforce_nonce` it is unique for "the past few minutes"."""

NONCE_LAPSES: Final = 120.0
"""Seconds after which nobody relies on that any more: how many "the past few minutes" are is not said."""

LARGEST_FILE: Final = 10 * 1024 * 1024
"""Bytes of a file of a bot where the server is not boosted (Uploading Files; it was 8 and 25 MiB before)."""

LARGEST_REQUEST: Final = 24 * 1024 * 1024
"""Bytes of all files of a message; the platform takes 25 MiB with everything around them (Create Message)."""

FILES: Final = 10
"""Files of a message (the clients; more are refused with 50035)."""

COMMANDS: Final = 100
"""Global slash commands of an application; one more and the whole list is refused (error 30032)."""

DESCRIPTION: Final = 100
"""Characters of the description of a command or option (Application Commands)."""

IN_TIME: Final = 2.0
"""Seconds until an interaction is answered at the latest; the platform gives 3 (Interactions)."""

TYPING: Final = 8.0
"""Seconds between two typing signs; each lasts for 10 (Trigger Typing Indicator)."""

HISTORY_PAGE: Final = 100
"""Messages of one page of the history (Get Channel Messages)."""

CHANNEL_RATES: Final = (Rate(1.0, burst=5),)
"""Observed: posts and edits share no bucket, and each has 5 in 5 s a channel; here they share one."""

REQUESTS: Final = 50.0
"""Requests of a bot in a second (Rate Limits, Global Rate Limit); large bots are granted more."""

LONGEST_PAUSE: Final = 30.0
"""Seconds for which the library may wait by itself when rate limited; it accepts no less."""

PATIENCE: Final = 60.0
"""Seconds after which a request counts as lost; longer than `LONGEST_PAUSE`, in which it may be held."""

TEMPO: Final = Tempo(every=1.2)
"""How a text is shown while it is written; edits a second apart are a safe floor."""

FEATURES: Final = Features(
    max_text=LONGEST_TEXT,
    drafts=True,
    status=True,
    receipts=True,
    lookup=True,
    edits=True,
    deletes=True,
    threads=True,
    native_replies=True,
    downloads=True,
    max_file=LARGEST_FILE,
    buttons=True,
    registers=True,
    catches_up=True,
)
"""What the adapter can do; without `slash` it registers nothing, without a data folder it catches up nothing."""
