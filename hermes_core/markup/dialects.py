"""The dialects of Discord, Slack and Telegram, and plain text."""

from __future__ import annotations

import re
from typing import Final

from hermes_core.markup.dialect import Dialect, Style

__all__ = ["DISCORD", "PLAIN", "SLACK", "TELEGRAM"]

_LONGEST_FENCE: Final = 12  # backticks; code with longer runs than this is shown without a fence
_URL: Final = re.compile(r"https?://[^\s<>]+")
_SAFE: Final = re.compile(r"(?:https?://|mailto:|tel:)[^\s<>]+", re.IGNORECASE)
_RUNS: Final = re.compile(r"`+")

PLAIN: Final = Dialect(name="plain")


def _longest(text: str) -> int:
    return max((len(run) for run in _RUNS.findall(text)), default=0)


def _fence(language: str, text: str) -> Style | None:
    longest = _longest(text)
    if longest > _LONGEST_FENCE:
        return None
    marks = "`" * max(3, longest + 1)
    return Style(f"{marks}{language}\n", f"\n{marks}", code=True)


# ---- Discord

# Characters that begin or end markup on Discord wherever they stand; an underscore or asterisk in the
# middle of a word or between spaces does not.
_DISCORD: Final = re.compile(
    r"""\\(?=[^0-9A-Za-z\s])        # would escape what follows
      | `
      | (?<!\s)\*|\*(?!\s|$)        # `2 * 3` is no markup
      | _{2,} | (?<![^\W_])_ | _(?![^\W_])
      | ~{2,} | \|{2,}
      | \](?=\()                    # [label](address)
    """,
    re.VERBOSE,
)
_DISCORD_START: Final = re.compile(r"(?:#{1,3}|-\#|>{1,3}|[-*+])(?=\s|$)|\d+(?=[.)](?:\s|$))")


def _discord_escape(text: str, line_start: bool) -> str:
    pieces: list[str] = []
    at = 0
    for url in _URL.finditer(text):  # a backslash in an address breaks it
        pieces.append(_DISCORD.sub(_backslashed, text[at : url.start()]))
        pieces.append(url[0])
        at = url.end()
    pieces.append(_DISCORD.sub(_backslashed, text[at:]))
    escaped = "".join(pieces)
    if line_start:
        start = _DISCORD_START.match(escaped)
        if start:
            # A number is kept and its dot escaped: a backslash before a digit would be seen.
            at = start.end() if start[0][0].isdigit() else 0
            escaped = f"{escaped[:at]}\\{escaped[at:]}"
    return escaped


def _backslashed(match: re.Match[str]) -> str:
    return "".join(f"\\{one}" for one in match[0])


def _discord_code(text: str) -> Style | None:
    longest = _longest(text)
    if longest > _LONGEST_FENCE or not text.strip():
        return None
    marks = "`" * (longest + 1)
    pad = " " if text[0] == "`" or text[-1] == "`" else ""
    return Style(marks + pad, pad + marks, code=True)


def _discord_link(url: str, label: str) -> Style | None:
    if not _SAFE.fullmatch(url):
        return None
    address = f"<{url}>" if "(" in url or ")" in url else url
    return Style("[", f"]({address})")


DISCORD: Final = Dialect(
    name="discord",
    strong=Style("**", "**"),
    emphasis=Style("*", "*"),
    strike=Style("~~", "~~"),
    code=_discord_code,
    fence=_fence,
    link=_discord_link,
    escape=_discord_escape,
    harmless=frozenset("*_-+|~"),
    quote_prefix="> ",
    bullets=("- ",),
    box_replaces_bullet=False,
    headings=("# ", "## ", "### "),
)


# ---- Slack (mrkdwn)


def _slack_escape(text: str, line_start: bool = False) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _slack_code(text: str) -> Style | None:
    # Slack knows one length of marks only.
    return None if "`" in text or not text.strip() else Style("`", "`", edge="\u200b", code=True)


def _slack_fence(language: str, text: str) -> Style | None:
    return _fence("", text)  # Slack would show the language as the first line


def _slack_link(url: str, label: str) -> Style | None:
    # A safe scheme is a must: <!channel|…> and <@U…|…> would ring.
    if not _SAFE.fullmatch(url):
        return None
    return Style(f"<{_slack_escape(url).replace('|', '%7C')}|", ">")


SLACK: Final = Dialect(
    name="slack",
    strong=Style("*", "*", edge="\u200b"),
    emphasis=Style("_", "_", edge="\u200b"),
    strike=Style("~", "~", edge="\u200b"),
    code=_slack_code,
    fence=_slack_fence,
    link=_slack_link,
    escape=_slack_escape,
    escape_code=_slack_escape,
    quote_prefix="> ",
    flat_labels=True,
)


# ---- Telegram (text and entities)


def _telegram_link(url: str, label: str) -> Style | None:
    # tg://user?id=… is a mention, and would ring.
    return Style(entity="text_link", value=url) if _SAFE.fullmatch(url) else None


TELEGRAM: Final = Dialect(
    name="telegram",
    strong=Style(entity="bold"),
    emphasis=Style(entity="italic"),
    strike=Style(entity="strikethrough"),
    quote=Style(entity="blockquote"),
    code=lambda text: Style(entity="code", code=True) if text.strip() else None,
    fence=lambda language, text: Style(entity="pre", value=language, code=True) if text.strip() else None,
    link=_telegram_link,
    max_entities=100,
)
