"""Permission: a tool call that waits for a person's yes, as tools, commands and the router know it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

__all__ = ["Approval", "Permission", "shown"]

Approval = Callable[[Mapping[str, Any]], str | None]
"""Of the arguments of a call: what people are shown and asked about; None where nobody need be asked."""


class Permission(msgspec.Struct, frozen=True):
    """What waits for a yes or no: the call of `tool`, as people are shown it, until `expires`.

    `id` is what people type. Times are those of the event loop's clock.
    """

    id: str
    tool: str
    text: str
    expires: float


def shown(arguments: Mapping[str, Any]) -> str:
    """The arguments as people are shown them where a tool says nothing else: JSON, a line for each."""
    text = msgspec.json.encode(msgspec.to_builtins(dict(arguments), enc_hook=str))
    return msgspec.json.format(text, indent=2).decode()
