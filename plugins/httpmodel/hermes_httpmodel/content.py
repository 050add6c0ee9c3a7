"""What every provider's form of a request needs: JSON that can always be written, and ids of calls."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from hermes_core.messages import Item, Step

__all__ = ["call_ids", "distinct", "encode", "is_object"]


def encode(content: Any) -> bytes:
    """`content` as JSON: the same content always gives the same bytes; half a character becomes U+FFFD."""
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:  # broken platforms and tools produce lone surrogates
        return msgspec.json.encode(_mended(content))


def is_object(arguments: str) -> bool:
    """Whether these are the arguments of a call; servers that parse them fail on anything else."""
    try:
        return isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False


def call_ids(items: Iterable[Item]) -> frozenset[str]:
    """The ids of all calls in a history."""
    return frozenset(call.id for item in items if isinstance(item, Step) for call in item.calls)


def distinct(ids: Iterable[str], taken: AbstractSet[str]) -> list[str]:
    """`ids` without an empty one, one that came before, or one that is `taken`: those get another.

    The same ids always give the same.
    """
    seen = set(taken)
    given: list[str] = []
    number = 0
    for id_ in ids:
        one = id_
        while not one or one in seen:
            number += 1
            one = f"call_{number}"
        seen.add(one)
        given.append(one)
    return given


def _mended(value: Any) -> Any:
    """`value` with lone surrogates replaced, so that it can be written as UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list | tuple):
        return [_mended(one) for one in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(one) for key, one in value.items()}
    return value
