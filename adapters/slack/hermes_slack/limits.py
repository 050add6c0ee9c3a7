"""Slack's limits, as data, each with its source (docs.slack.dev unless another is named)."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from hermes_core.pacing import Rate, Tempo

__all__ = [
    "API",
    "CHANNEL_RATES",
    "MAX_FILE",
    "MAX_SECTION",
    "MAX_TEXT",
    "METADATA_TYPE",
    "RESERVED_SLASH",
    "SIGNATURE_WINDOW",
    "SLASH_COMMANDS",
    "STATUS_AFTER",
    "STATUS_EVERY",
    "STREAM_LIFE",
    "STREAM_RATE",
    "TEMPO",
    "WORDS",
    "WORKSPACE_RATES",
]

API: Final = "https://slack.com/api/"

# chat.update: `msg_too_long` above 4,000 characters of text, while chat.postMessage takes 40,000. What is
# streamed is edited, so the smaller one holds. Counted after &, < and > are escaped.
MAX_TEXT: Final = 4000

# reference/methods/chat.postMessage: one message per second and channel, short bursts are allowed.
CHANNEL_RATES: Final = (Rate(1.0, burst=10),)

# apis/web-api/rate-limits: "several hundred messages per minute" in a workspace, without a number; edits are
# Tier 3 (50+ a minute and workspace). So Slack itself says when it is too much: its Retry-After parks the
# channel in which that happened.
WORKSPACE_RATES: Final[tuple[Rate, ...]] = ()

# reference/block-kit/blocks/section-block: the text of a section. What has buttons under it is one.
MAX_SECTION: Final = 3000

# slack.com/help, "Add files to Slack": 1 GB for one file.
MAX_FILE: Final = 1_000_000_000

# chat.startStream is Tier 2 (20+ a minute and workspace); what is over that is shown by edits.
STREAM_RATE: Final = Rate(20.0, 60.0, burst=10)
# Not documented: streams end by themselves after some five minutes (python-slack-sdk #1859).
STREAM_LIFE: Final = 240.0

# Ours: a text that is whole within `first_after` seconds is posted whole, in one call.
TEMPO: Final = Tempo(first_chars=MAX_TEXT, first_after=0.15, every=1.2)

# reference/methods/assistant.threads.setStatus: the status lapses after two minutes.
STATUS_EVERY: Final = 90.0
STATUS_AFTER: Final = 0.5  # ours: a turn that is done by then shows none

# authentication/verifying-requests-from-slack: requests older than five minutes are replays.
SIGNATURE_WINDOW: Final = 300.0

# reference/app-manifest: at most 25 slash commands (issue 6 counts on that, too).
SLASH_COMMANDS: Final = 25

WORDS: Final = tomllib.loads(Path(__file__).with_name("slack.toml").read_text("utf-8"))
"""Slack's own words, and ours that people see, by their kind."""

RESERVED_SLASH: Final = frozenset(WORDS["slash"]["reserved"])

METADATA_TYPE: Final = "hermes_message"
