"""What `hermes` loads: the provider "openai". Nothing of httpx is imported before a model is opened."""

from __future__ import annotations

from collections.abc import Iterable

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


def _open(settings: ModelSettings) -> Model:
    from hermes_openai.model import open_model  # httpx takes longer to import than a start may

    return open_model(settings)
