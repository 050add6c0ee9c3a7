"""Models: history in, a stream of text, tool calls, usage and a stop out.

A model plugin turns a `Request` into its provider's form and the provider's stream into `Delta`
values. It keeps no history, runs no tool and does not retry: the turn does.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol

import msgspec

from hermes_core.config import ModelSettings
from hermes_core.file import ConversationFiles, NoFiles
from hermes_core.messages import Item, ToolCall

__all__ = ["Delta", "Model", "ModelFactory", "Opaque", "Request", "Stop", "Text", "ToolSpec", "Usage"]


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as the model sees it; `schema` is a JSON Schema object for its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


class Request(msgspec.Struct, frozen=True):
    """One model call. `items` is valid by construction: see `hermes_core.history`.

    `files` gives the content of what is attached to an item, for a model that takes pictures.
    """

    system: str
    items: tuple[Item, ...]
    tools: tuple[ToolSpec, ...] = ()
    files: ConversationFiles = NoFiles()


class Text(msgspec.Struct, frozen=True):
    """A piece of the answer, as it arrives."""

    text: str


class Usage(msgspec.Struct, frozen=True):
    """What the provider counted for this call, in tokens."""

    input: int = 0
    output: int = 0
    cached: int = 0


class Stop(msgspec.Struct, frozen=True):
    """The call ended as the provider meant it to: `reason` is end, tools, length or refused."""

    reason: str


class Opaque(msgspec.Struct, frozen=True):
    """Data that the provider must see again unchanged in the next call (`Step.opaque`)."""

    data: dict[str, Any]


Delta = Text | ToolCall | Usage | Stop | Opaque
"""One element of a model's stream. A `ToolCall` comes whole, its arguments complete."""


class Model(Protocol):
    """A model that can be called."""

    def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Call the model. The last element is a `Stop`; a stream without one was cut.

        Raises `ModelError` with words for the person who waits. When the task that iterates is
        cancelled, or the generator is closed, the connection is closed at once, in every state, and the
        client it came from is thrown away (I2): nothing is left running and the next call uses a fresh
        one.
        """

    async def aclose(self) -> None:
        """Let all connections go. Safe to call twice."""


class ModelFactory(msgspec.Struct, frozen=True):
    """How a plugin offers a model: the provider's name in `[model]`, and what makes one.

    `open` checks the settings (`ConfigError` names the key) and must not connect.
    """

    provider: str
    open: Callable[[ModelSettings], Model]
