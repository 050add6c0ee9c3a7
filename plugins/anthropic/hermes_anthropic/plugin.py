"""What `hermes` loads: the provider "anthropic". Nothing of httpx is imported before a model is opened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

from hermes_core.checks import Question, Setup
from hermes_core.config import ModelSettings
from hermes_core.hookspecs import hookimpl
from hermes_core.models import Model, ModelFactory

__all__ = ["AnthropicPlugin", "AnthropicSettings"]

_LEAST: Final = 1024  # the API takes no smaller budget


class AnthropicSettings(msgspec.Struct, frozen=True):
    """`[plugins.anthropic]`, in tokens; the README says what each key means."""

    max_tokens: Annotated[int, msgspec.Meta(ge=1)] = 8192
    thinking_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    adaptive_thinking: bool = False

    def __post_init__(self) -> None:
        if self.thinking_tokens and not _LEAST <= self.thinking_tokens < self.max_tokens:
            raise ValueError(
                f"plugins.anthropic.thinking_tokens is 0, or at least {_LEAST} and less than max_tokens"
            )
        if self.thinking_tokens and self.adaptive_thinking:
            raise ValueError(
                "plugins.anthropic: write thinking_tokens (older models) or adaptive_thinking, not both"
            )


class AnthropicPlugin:
    """Offers the provider "anthropic"."""

    Settings = AnthropicSettings

    def __init__(self, settings: AnthropicSettings) -> None:
        self._settings = settings

    @hookimpl
    def hermes_models(self) -> Iterable[ModelFactory]:
        """See the hook."""
        return [ModelFactory("anthropic", self._open)]

    @hookimpl
    def hermes_setup(self) -> Iterable[Setup]:
        """See the hook."""
        questions = (
            Question("name", "The model's name there"),
            Question("api_key_env", "The API key", variable="ANTHROPIC_API_KEY"),
        )
        return [Setup("anthropic", "Anthropic", questions, table="model")]

    def _open(self, settings: ModelSettings) -> Model:
        from hermes_anthropic.model import open_model  # httpx takes longer to import than a start may

        own = self._settings
        return open_model(settings, own.max_tokens, own.thinking_tokens, own.adaptive_thinking)
