"""What a text asks for, in the few plain forms that the demo model understands."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

__all__ = ["Asked", "asked", "own_words"]

_RUN: Final = re.compile(r"(?:please\s+)?(run|start)\s+(\S.*)", re.IGNORECASE)
_TIME: Final = re.compile(
    r"what(?:'s|’s| is)?(?: the)? time|time is it|\bclock\b|\btime and\b|\band (?:the )?time\b|^(?:the )?time\W*$",
    re.IGNORECASE,
)
_SLEEP: Final = re.compile(r"\b(?:sleep|wait)(?: for)? (\d{1,6}(?:\.\d{1,3})?)", re.IGNORECASE)
_COUNT: Final = re.compile(r"\bcount (?:up )?to (\d{1,9})", re.IGNORECASE)
_STORY: Final = re.compile(r"\blong (?:story|answer|text)|\bstory\b|\bmarkdown\b", re.IGNORECASE)
_HELP: Final = re.compile(r"^\W*help\b|what can you do|what do you (?:understand|know)", re.IGNORECASE)
_FIRST: Final = re.compile(
    r"what did (?:i|we) (?:say|write|tell you) first|first (?:thing|message)", re.IGNORECASE
)
_BEFORE: Final = re.compile(r"what did (?:i|we) (?:just )?(?:say|write|tell you)|say before", re.IGNORECASE)

_TALK: Final = {"count": _COUNT, "story": _STORY, "help": _HELP, "first": _FIRST, "before": _BEFORE}
_LONGEST: Final = 600.0
_MOST: Final = 1000


class Asked(msgspec.Struct, frozen=True):
    """One request: `kind` is a tool's name, or count, story, help, first or before."""

    kind: str
    value: str = ""
    arguments: dict[str, Any] = {}


def asked(text: str) -> list[Asked]:
    """All that `text` asks for, line by line; nothing where it is just talk."""
    found = [one for line in own_words(text).splitlines() for one in _line(line.strip())]
    return list({(one.kind, one.value): one for one in found}.values())


def own_words(text: str) -> str:
    """`text` without the quoted lines in front: those are the agent's (T3)."""
    lines = text.splitlines()
    quoted = 0
    while quoted < len(lines) and lines[quoted].startswith(">"):
        quoted += 1
    return "\n".join(lines[quoted:]).strip() if quoted else text


def _line(line: str) -> Iterable[Asked]:
    if command := _RUN.fullmatch(line):
        yield Asked(f"{command[1].lower()}_command", command[2], {"command": command[2]})
        return
    if _TIME.search(line):
        yield Asked("demo_clock")
    for seconds in _SLEEP.findall(line):
        yield Asked("demo_sleep", seconds, {"seconds": min(float(seconds), _LONGEST)})
    for kind, pattern in _TALK.items():
        if match := pattern.search(line):
            yield Asked(kind, str(min(int(match[1]), _MOST)) if kind == "count" else "")
            return
