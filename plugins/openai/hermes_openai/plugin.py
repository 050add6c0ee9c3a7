"""What `hermes` loads: the provider "openai". Nothing of httpx is imported before a model is opened."""

from __future__ import annotations

from collections.abc import Iterable

from hermes_core.checks import Question, Setup
from hermes_core.config import ModelSettings
from hermes_core.hookspecs import hookimpl
from hermes_core.models import Model, ModelFactory

__all__ = ["OpenAIPlugin"]


class OpenAIPlugin:
    """Offers the provider "openai"; needs no settings of its own beside `[model]`."""

    @hookimpl
    def hermes_models(self) -> Iterable[ModelFactory]:
        """See the hook."""
        return [ModelFactory("openai", _open)]

    @hookimpl
    def hermes_setup(self) -> Iterable[Setup]:
        """See the hook."""
        questions = (
            Question("name", "The model's name there"),
            Question("base_url", "The server's address; for OpenAI itself leave it empty", optional=True),
            Question(
                "api_key_env",
                "The API key; a server of your own may need none",
                variable="OPENAI_API_KEY",
                optional=True,
            ),
        )
        return [Setup("openai", "OpenAI, or a server that speaks its API", questions, table="model")]


def _open(settings: ModelSettings) -> Model:
    from hermes_openai.model import open_model  # httpx takes longer to import than a start may

    return open_model(settings)
