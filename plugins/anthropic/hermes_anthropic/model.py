"""The model that `[model]` describes: the Messages API over `hermes_httpmodel`."""

from __future__ import annotations

from typing import Any, Final

from hermes_anthropic import wire
from hermes_anthropic.assembly import Assembly
from hermes_core.config import ModelSettings
from hermes_core.models import Request
from hermes_httpmodel.content import call_ids
from hermes_httpmodel.model import HttpModel
from hermes_httpmodel.pictures import Pictures
from hermes_httpmodel.server import Provider, Server

__all__ = ["AnthropicModel", "open_model"]

_ANTHROPIC: Final = Provider(
    "Anthropic",
    "https://api.anthropic.com",
    "ANTHROPIC_API_KEY",
    "claude-sonnet-4-5",
    "http://127.0.0.1:8000",
)
_VERSION: Final = "2023-06-01"


class AnthropicModel(HttpModel):
    """A model behind `{base_url}/v1/messages`; see `HttpModel` for the connection.

    A `base_url` may end in /v1 as well. `thinking` is that part of the request, None for none.
    """

    def __init__(self, server: Server, max_tokens: int, thinking: dict[str, Any] | None = None) -> None:
        headers = {"anthropic-version": _VERSION}
        if server.key is not None:
            headers["x-api-key"] = server.key
        url = f"{server.base_url.removesuffix('/v1')}/v1/messages"
        super().__init__(server, url, headers, "it is the address before /v1/messages")
        self._max_tokens = max_tokens
        self._thinking = thinking

    def write(self, request: Request, shown: Pictures) -> bytes:
        """The body of `POST /v1/messages`."""
        return wire.body(request, self.name, self._max_tokens, self._thinking, shown)

    def read(self, request: Request) -> Assembly:
        """What reads its stream."""
        return Assembly(self.name, call_ids(request.items))


def open_model(
    settings: ModelSettings, max_tokens: int = 8192, thinking_tokens: int = 0, adaptive: bool = False
) -> AnthropicModel:
    """The model that `[model]` describes; `ConfigError` names the key that is wrong. Does not connect."""
    thinking: dict[str, Any] | None = None
    if adaptive:
        thinking = {"type": "adaptive"}
    elif thinking_tokens:
        thinking = {"type": "enabled", "budget_tokens": thinking_tokens}
    return AnthropicModel(Server.of(settings, _ANTHROPIC), max_tokens, thinking)
