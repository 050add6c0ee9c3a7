"""Text: from what was typed to a name, and from there to words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["parse", "scan", "words"]

_INVOCATION: Final = re.compile(r"/([A-Za-z][A-Za-z0-9_]{0,31})(?:@([^\s/]+))?(?=\s|\Z)")


def parse(text: str, account: str = "") -> tuple[str, str] | None:
    """Name and arguments where `text` has the form of a command, else None.

    The name ends at white space or the end of the text. `/name@bot` is a command only for the
    account named `bot` (in any case); where `account` is empty every suffix is taken.
    """
    if not text.startswith("/"):
        return None
    match = _INVOCATION.match(text)
    if match is None:
        return None
    suffix = match[2]
    if suffix and account and suffix.lower() != account.lower():
        return None
    return match[1].lower(), text[match.end() :].lstrip(" \t") if match.end() < len(text) else ""


def words(text: str) -> list[str]:
    """The words of `text`; quotes keep white space, a backslash inside double quotes escapes."""
    return [word for word, _ in scan(text, 0)]


_OPENING: Final = {'"': '"', "'": "'", "“": "”", "„": "“", "«": "»"}


_QUOTED: Final = {
    '"': re.compile(r'"((?:[^"\\]|\\.)*)"(?=\s|\Z)', re.DOTALL),
    "'": re.compile(r"'([^']*)'(?=\s|\Z)"),
    "“": re.compile(r"“([^”]*)”(?=\s|\Z)"),
    "„": re.compile(r"„([^“]*)“(?=\s|\Z)"),
    "«": re.compile(r"«([^»]*)»(?=\s|\Z)"),
}


_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


_WORD: Final = re.compile(r"\S+")


_SPACE: Final = re.compile(r"\s*")


def scan(text: str, start: int) -> Iterator[tuple[str, int]]:
    """Words with the position after each. A quote that is never closed is an ordinary character."""
    unclosed: set[str] = set()  # a quote whose closing mark was looked for in vain is not looked for again
    position = start
    while True:
        space = _SPACE.match(text, position)
        position = space.end() if space else position
        if position >= len(text):
            return
        mark = text[position]
        if mark in _OPENING and mark not in unclosed:
            quoted = _QUOTED[mark].match(text, position)
            if quoted is not None:
                position = quoted.end()
                yield (_ESCAPED.sub(r"\1", quoted[1]) if mark == '"' else quoted[1]), position
                continue
            if text.find(_OPENING[mark], position + 1) < 0:
                unclosed.add(mark)
        plain = _WORD.match(text, position)
        if plain is None:  # pragma: no cover - what is no white space is a word
            return
        position = plain.end()
        yield plain[0], position
