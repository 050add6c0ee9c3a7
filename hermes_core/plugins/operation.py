"""Operation: who runs the program changes its plugins while it goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hermes_core.adapter import Adapter
from hermes_core.config import Config
from hermes_core.errors import CommandError, PluginError
from hermes_core.operate import PluginState
from hermes_core.plugins.loaded import Plugins
from hermes_core.plugins.reload import reload

__all__ = ["Operation"]


class Operation:
    """`hermes_core.operate.PluginsView` for the plugins of a run and the adapters that it serves."""

    def __init__(self, config: Config, plugins: Plugins, adapters: Mapping[str, Adapter]) -> None:
        self._config = config
        self._plugins = plugins
        self._adapters = adapters

    def all(self) -> Sequence[PluginState]:
        """Every installed plugin, by name."""
        infos = sorted(self._plugins.infos.values(), key=lambda one: one.name)
        return [PluginState(one.name, one.version, one.enabled, bool(one.problem)) for one in infos]

    async def reload(self, name: str) -> str:
        """Load one anew; a connection to a platform and the model in use are left as they are, and refused."""
        self._refuse_in_use(name)
        try:
            return str(await reload(self._plugins, self._config, name))
        except PluginError as error:
            raise CommandError(error.message, error.advice) from error

    def _refuse_in_use(self, name: str) -> None:
        info = self._plugins.infos.get(name)
        if info is None:
            return
        used = [f"the adapter {one}" for one in info.adapters if one in self._adapters]
        used += [f"the model {one}" for one in info.models if one == self._config.model.provider]
        if used:
            raise CommandError(
                f"The plugin {name} brings {' and '.join(used)}, which is in use, so it is not loaded anew.",
                "Start the program again: what waits is kept.",
            )
