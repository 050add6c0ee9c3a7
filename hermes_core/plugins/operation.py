"""Operation: who runs the program changes its plugins while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hermes_core.adapter import Adapter
from hermes_core.config import Config
from hermes_core.errors import CommandError, PluginError
from hermes_core.models import Model
from hermes_core.operate import PluginState
from hermes_core.plugins.brought import Brought
from hermes_core.plugins.loaded import Plugins
from hermes_core.plugins.reload import reload

__all__ = ["Operation"]


class Operation:
    """`hermes_core.operate.PluginsView` for the plugins of a run and the adapters that it serves."""

    def __init__(
        self,
        config: Config,
        plugins: Plugins,
        adapters: Mapping[str, Adapter],
        take: Callable[[Model], None],
    ) -> None:
        self._config = config
        self._plugins = plugins
        self._adapters = adapters
        self._take = take

    def all(self) -> Sequence[PluginState]:
        """Every installed plugin, by name."""
        infos = sorted(self._plugins.infos.values(), key=lambda one: one.name)
        return [PluginState(one.name, one.version, one.enabled, bool(one.problem)) for one in infos]

    async def reload(self, name: str) -> str:
        """Load one anew. A connection to a platform is left as it is, and refused; the model in use is opened anew."""
        info = self._plugins.infos.get(name)
        used = [one for one in info.adapters if one in self._adapters] if info is not None else []
        if used:
            raise CommandError(
                f"The plugin {name} brings the adapter {used[0]}, which is in use, so it is not loaded anew.",
                "Start the program again: what waits is kept.",
            )
        opened: list[Model] = []
        try:
            done = await reload(
                self._plugins, self._config, name, lambda brought: self._ready(brought, opened)
            )
        except PluginError as error:
            for model in opened:
                await model.aclose()
            raise CommandError(error.message, error.advice) from error
        return str(done)

    def _ready(self, brought: Brought, opened: list[Model]) -> Callable[[], None]:
        """Open the model in use from the new version, where it is this plugin's."""
        settings, info = self._config.model, self._plugins.infos[brought.name]
        if settings.provider not in info.models:
            return lambda: None
        factory = next((one for one in brought.models if one.provider == settings.provider), None)
        if factory is None:
            raise PluginError(
                brought.name, f"it no longer brings the model {settings.provider}, which is in use."
            )
        opened.append(factory.open(settings))
        return lambda: self._take(opened.pop())
