"""What `hermes` loads: the provider "demo" and two tools of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec

from hermes_core.config import Config, ModelSettings
from hermes_core.hookspecs import hookimpl
from hermes_core.models import Model, ModelFactory
from hermes_core.tools import Tool
from hermes_demo.model import DemoModel
from hermes_demo.tools import demo_clock, demo_sleep

__all__ = ["DemoPlugin", "DemoSettings"]


class DemoSettings(msgspec.Struct, frozen=True):
    """`[plugins.demo]`. `pace`: seconds between two words."""

    pace: Annotated[float, msgspec.Meta(ge=0, le=10)] = 0.02


class DemoPlugin:
    """Offers the provider "demo", which is the default."""

    Settings = DemoSettings

    def __init__(self, settings: DemoSettings) -> None:
        self._settings = settings
        self._in_use = True

    @hookimpl
    def hermes_models(self) -> Iterable[ModelFactory]:
        """See the hook."""

        def open_demo(settings: ModelSettings) -> Model:
            return DemoModel(self._settings.pace)

        return [ModelFactory("demo", open_demo)]

    @hookimpl
    def hermes_configured(self, config: Config) -> None:
        """See the hook."""
        self._in_use = config.model.provider == "demo"

    @hookimpl
    def hermes_tools(self) -> Iterable[Tool]:
        """See the hook: a real model has no use for a clock that is there to be shown."""
        return [demo_clock, demo_sleep] if self._in_use else []
