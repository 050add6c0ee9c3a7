"""The model that `[model]` describes: the chat completions API over `hermes_httpmodel`."""

from __future__ import annotations

from typing import Final

from hermes_core.config import ModelSettings
from hermes_core.models import Request
from hermes_httpmodel.content import call_ids
from hermes_httpmodel.model import HttpModel
from hermes_httpmodel.pictures import Pictures
from hermes_httpmodel.server import Provider, Server
from hermes_openai import wire

__all__ = ["OpenAIModel", "open_model"]

_OPENAI: Final = Provider(
    "OpenAI", "https://api.openai.com/v1", "OPENAI_API_KEY", "gpt-5-mini", "http://127.0.0.1:8000/v1"
)


class OpenAIModel(HttpModel):
    """A model behind `{base_url}/chat/completions`; see `HttpModel` for the connection."""

    def __init__(self, server: Server) -> None:
        headers = {} if server.key is None else {"authorization": f"Bearer {server.key}"}
        super().__init__(server, f"{server.base_url}/chat/completions", headers, "it mostly ends in /v1")

    def write(self, request: Request, shown: Pictures) -> bytes:
        """The body of `POST /chat/completions`."""
        return wire.body(request, self.name, shown)

    def read(self, request: Request) -> wire.Assembly:
        """What reads its stream."""
        return wire.Assembly(call_ids(request.items))


def open_model(settings: ModelSettings) -> OpenAIModel:
    """The model that `[model]` describes; `ConfigError` names the key that is wrong. Does not connect."""
    return OpenAIModel(Server.of(settings, _OPENAI))
