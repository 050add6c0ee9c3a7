"""Thinking blocks of a step: how they are kept in `Step.opaque`, with their place in the answer.

The API takes a thinking block only as it came, with its signature, at its place among the other
blocks of the answer, and from the model that wrote it. A place is how much stood before the block:
characters of text and number of calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

__all__ = ["THINKING", "Thought", "keep", "recall"]

THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_KEY: Final = "anthropic"


class Thought(msgspec.Struct, frozen=True):
    """One thinking block, unchanged, and what stood before it."""

    block: dict[str, Any]
    text: int = 0
    calls: int = 0


class _Kept(msgspec.Struct, frozen=True):
    model: str
    thoughts: tuple[Thought, ...]


def keep(model: str, thoughts: Iterable[Thought]) -> dict[str, Any]:
    """What goes into `Step.opaque`."""
    return {_KEY: {"model": model, "thoughts": [msgspec.to_builtins(thought) for thought in thoughts]}}


def recall(opaque: dict[str, Any] | None, model: str) -> tuple[Thought, ...]:
    """The blocks that `keep` kept for this model; none of another model or provider."""
    try:
        kept = msgspec.convert((opaque or {}).get(_KEY), _Kept)
    except msgspec.ValidationError:
        return ()
    return kept.thoughts if kept.model == model else ()
