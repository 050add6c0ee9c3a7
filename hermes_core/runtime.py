"""Runtime: assembles the house in one `async with`, runs its adapters, and stops everything in order.

Order of a start: data folder and its lock, plugins, model, adapters, what a former run left, then the
adapters begin to deliver. Order of a stop: adapters deliver no more, running turns are let go (their
processes ended, their place kept in the store), the outbox stops, the model's connections close, the
store commits and gives the folder free.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeAlias

from hermes_core import processes
from hermes_core.adapter import Adapter
from hermes_core.clock import Clock
from hermes_core.config import Config
from hermes_core.control import Control
from hermes_core.errors import ConfigError, Incomplete, SecretUnset, StoreUnwritable, leaves, reason
from hermes_core.files import Files
from hermes_core.jobs.control import Control as JobControl
from hermes_core.jobs.runner import EmbeddedJobs
from hermes_core.jobs.signing import check_secret
from hermes_core.jobs.view import JobsView
from hermes_core.models import Model
from hermes_core.outbox import Outbox
from hermes_core.people import People
from hermes_core.plugins import Operation, Plugins, load
from hermes_core.pulse import Pulse
from hermes_core.route import Site
from hermes_core.router import Access, Router, Services, Tasks
from hermes_core.router.gateway import AdapterGateway
from hermes_core.rules import Rules
from hermes_core.store import Store
from hermes_core.trace import Trace, enter
from hermes_core.watchdog import Watchdog

__all__ = ["Door", "Runtime"]

log = logging.getLogger("hermes.runtime")

FIRST_PAUSE: Final = 1.0  # seconds until an adapter that failed is started again; doubled each time
LONGEST_PAUSE: Final = 60.0
STEADY: Final = 60.0  # seconds after which an adapter that ran counts as healthy again
# Of a stop, in seconds; together with what jobs and router take less than the 10 s that a stop may take.
LEAVING: Final = 2.0  # adapters and doors
MODEL: Final = 0.5  # connections of the model
STORE: Final = 0.8  # what is queued for the disk


Door: TypeAlias = "Callable[[Runtime, Callable[[str], None]], Awaitable[None]]"
"""A further way in beside the adapters: runs until it is cancelled, and says once where it is open."""


class Runtime:
    """One run of the program.

    `adapters` names the platforms to serve (None: every enabled one that the config names). `options`
    has what a start gives to an adapter beside the config. `on_ready` is called once, when every adapter
    is connected or has failed for good, with the names of the connected ones. `store` and `plugins` may
    be handed in by who embeds or tests it. `doors` open when what a former run left is taken up, and
    close first; the fault of one ends the run.
    """

    def __init__(
        self,
        config: Config,
        *,
        adapters: Sequence[str] | None = None,
        options: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
        on_ready: Callable[[str], None] | None = None,
        store: Store | None = None,
        plugins: Plugins | None = None,
        doors: Sequence[Door] = (),
    ) -> None:
        self.config = config
        self._wanted = adapters
        self._options = options
        self._on_ready = on_ready
        self._given_store = store
        self._given_plugins = plugins
        self._doors = tuple(doors)
        self._open: list[str] = []
        self._stopping = asyncio.Event()
        self._stack = AsyncExitStack()
        self._ready: dict[str, bool] = {}
        self._failed: set[str] = set()  # adapters that will not be started again
        self._announced = False
        self.router: Router
        self.jobs: EmbeddedJobs
        self.services: Services
        self.control: Control
        self._models: list[Model] = []  # that are open: the one in use, and old ones that turns still have

    async def __aenter__(self) -> Self:
        try:
            await self._assemble()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _assemble(self) -> None:
        check_secret(self.config)
        folder = self.config.runtime.data_dir
        people, rules = People(folder), Rules(folder)
        people.load()
        rules.load()
        plugins = self._given_plugins or load(self.config)
        model = self._model(plugins)
        adapters = self._adapters(plugins)
        store = self._given_store or await _open(folder)
        self._stack.push_async_callback(_bounded, store.close, STORE, "the store")
        self._models.append(model)
        self._stack.push_async_callback(self._close_models)
        running = folder / "running"
        self._sweep(running)
        tasks = Tasks()
        outbox = Outbox(
            store,
            adapters,
            tasks.spawn,
            lambda address: self.router.drained(address),
            hide=self.config.secrets.hide,
            reached=lambda address: self.services.caught_up(address),
        )
        self.services = Services(
            self.config,
            store,
            plugins,
            model,
            adapters,
            Access(self.config, adapters, people),
            outbox,
            tasks,
            running,
            time.time,
            people=people,
            rules=rules,
        )
        self.router = Router(self.services)
        self.jobs = EmbeddedJobs(self.services, plugins.async_tools, folder / "jobs", self.router.deliver)
        self.services.jobs = lambda address, author, role: JobsView(self.jobs, address, author, role)
        files = Files(
            folder / "files", self.config.files, adapters, store, outbox.put, self.config.secrets.hide
        )
        files.purge()
        self.services.files = files.of
        stops = JobControl(folder / "jobs", self.jobs, tasks.spawn)
        self._stack.push_async_callback(self.router.close)
        self._stack.callback(stops.close)
        self._stack.push_async_callback(self.jobs.close)  # first: what ends now is told at the next start
        self.services.operate = Operation(self.config, plugins, adapters, self._take_model)
        answers = {"plugins": self._troubles, "reload": self._reload}
        self.control = Control(answers, tasks.spawn)
        if self.config.runtime.blocked_after:
            watchdog = Watchdog(
                plugins, self.config.runtime.blocked_after, self.config.runtime.memory_step * 1024 * 1024
            )
            self._stack.callback(watchdog.close)

    def _take_model(self, model: Model) -> None:
        """Another model takes the place of the one in use; that one is closed when no turn has it any more."""
        old, self.services.model = self.services.model, model
        self._models.append(model)
        self.services.tasks.spawn(self._retire(old, self.router.turns()), "the old model")

    async def _retire(self, model: Model, turns: set[asyncio.Task[None]]) -> None:
        if turns:
            await asyncio.wait(turns)
        self._models.remove(model)
        await _bounded(model.aclose, MODEL, "the old model")

    async def _close_models(self) -> None:
        for model in self._models:
            await _bounded(model.aclose, MODEL, "the model")

    async def _troubles(self, arguments: Mapping[str, Any]) -> dict[str, str]:
        """The latest problem of each plugin that had one (P2), for `hermes plugins list`."""
        return {info.name: info.problem for info in self.services.plugins.infos.values() if info.problem}

    async def _reload(self, arguments: Mapping[str, Any]) -> str:
        """Another version of one plugin, for `hermes plugins reload`."""
        return await self.services.operate.reload(str(arguments.get("name", "")))

    def _sweep(self, running: Path) -> None:
        """End the blocking tools that a dead run left behind (E5)."""
        try:
            running.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnwritable(
                "The data folder cannot be written.", "Free some space, or set [runtime] data_dir."
            ) from error
        for swept in processes.sweep(running):
            log.warning("ended a process that a former run left behind: %s", swept)

    def _model(self, plugins: Plugins) -> Model:
        provider = self.config.model.provider
        factory = plugins.models.get(provider)
        if factory is None:
            place = self.config.place("model.provider")
            near = difflib.get_close_matches(provider, plugins.models, 1)
            known = ", ".join(sorted(plugins.models)) or "none"
            problem = plugins.infos[provider].problem if provider in plugins.infos else ""
            advice = f"Did you mean {near[0]!r}?" if near else f"Enabled plugins bring: {known}."
            raise ConfigError(
                f"{place + ': ' if place else ''}There is no model {provider!r}.",
                f"Its plugin has a problem: {problem}" if problem else advice,
            )
        return factory.open(self.config.model)

    def _adapters(self, plugins: Plugins) -> dict[str, Adapter]:
        if self._wanted is None:
            # the terminal is enabled by default, but serves `chat`; here somebody must have asked for it
            asked = {
                platform
                for info in plugins.infos.values()
                if self.config.switched_on(info.name)
                for platform in info.adapters
            }
            wanted = [
                name for name in plugins.adapters if self.config.given(f"adapters.{name}") or name in asked
            ]
        else:
            wanted = list(self._wanted)
        opened: dict[str, Adapter] = {}
        unset = []
        for name in wanted:
            factory = plugins.adapters.get(name)
            if factory is None:
                problem = plugins.infos[name].problem if name in plugins.infos else ""
                raise ConfigError(
                    f"The adapter {name!r} is not there.", problem or "Enable or install its plugin."
                )
            options = {"data_dir": self.config.runtime.data_dir, **self._options.get(name, {})}
            try:
                opened[name] = factory.open(options)
            except SecretUnset as error:
                unset.append(error)
        if unset:
            raise SecretUnset.together(unset)
        if not opened and not self._doors:
            raise ConfigError(
                "The config names no adapter that is enabled, so nobody could reach the agent.",
                "Write the section of one, [adapters.NAME]; or talk to the agent here with: hermes chat",
            )
        return opened

    # -- running

    async def run(self) -> None:
        """Serve until every adapter has returned, or `stop` is called.

        Raises what an adapter raised only where all of them have failed for good.
        """
        await self.jobs.load()
        await self.router.restore()
        await self.jobs.restore()
        plugins, tasks = self.services.plugins, self.services.tasks
        if plugins.asks("hermes_started"):
            tasks.spawn(plugins.each("hermes_started", site=self.site(tasks.spawn)), "hermes_started")
        await self.control.open(self.config.runtime.data_dir)
        adapters = self.services.adapters
        health = self.config.health
        for name in adapters:
            pulse = self.services.pulses[name] = Pulse(name, health.silent_after, health.quiet_after)
            self._stack.callback(pulse.close)
        running = {
            asyncio.create_task(self._serve(name, adapter), name=f"adapter {name}")
            for name, adapter in adapters.items()
        }
        running |= {asyncio.create_task(self._stand_open(door), name="door") for door in self._doors}
        stopping = asyncio.create_task(self._stopping.wait(), name="stop")
        try:
            while running and not stopping.done():
                done, _ = await asyncio.wait({*running, stopping}, return_when=asyncio.FIRST_COMPLETED)
                for task in done & running:
                    running.discard(task)
                    task.result()
        finally:
            self.control.close()
            stopping.cancel()
            for task in running:
                task.cancel()
            if running:
                _, deaf = await asyncio.wait(running, timeout=LEAVING)
                for task in deaf:
                    log.error("%s did not stop in time and is abandoned", task.get_name())

    def site(self, spawn: Callable[[Coroutine[Any, Any, None], str], object]) -> Site:
        """What routes and plugins work with that do something of their own accord."""
        one = self.services
        return Site(self.jobs, one.plugins.async_tools, one.store, spawn, one.wall, one.pause)

    def stop(self) -> None:
        """Let `run` return; what waits is kept for the next start."""
        self._stopping.set()

    async def _serve(self, name: str, adapter: Adapter) -> None:
        """Run one adapter, and start it again with back-off when it fails."""
        enter(Trace(adapter=name))
        pause = FIRST_PAUSE
        pulse = self.services.pulses[name]

        def ready() -> None:
            pulse.ready()
            self._is_ready(name, True)

        clock = Clock(name, lambda: self.services.wall())
        gateway = AdapterGateway(self.router, self.services, ready, pulse, clock)
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            final: ConfigError | Incomplete | None = None
            try:
                await adapter.run(gateway)
            except Exception as error:  # the adapter's edge: it is started again, the others go on (P2)
                ends = [one for one in leaves(error) if isinstance(one, ConfigError | Incomplete)]
                final = ends[0] if ends else None
                if final is None:
                    pulse.down()
                    why = reason(error, self.config.secrets.hide)
                    log.error("adapter %s failed; next start in %.0f s: %s", name, pause, why, exc_info=error)
            else:
                pulse.ended()
                self._is_ready(name, False)
                return
            if final is not None:
                self._gave_up(name, pulse, final)
                return
            if loop.time() - began > STEADY:
                pause = FIRST_PAUSE
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _gave_up(self, name: str, pulse: Pulse, error: ConfigError | Incomplete) -> None:
        """An adapter has failed for good; raises the error where it was the last one."""
        refused = isinstance(error, ConfigError)
        last = self._is_last(name)
        if refused or not last:
            log.error("adapter %s: %s", name, error)
        if refused:
            pulse.ended()
        if last:
            raise error

    def _is_last(self, name: str) -> bool:
        """An adapter has failed for good: whether all have by now, so that nobody can reach the agent."""
        self._failed.add(name)
        last = self._failed == set(self.services.adapters)
        if not last:
            self._is_ready(name, False)
        return last

    async def _stand_open(self, door: Door) -> None:
        def ready(where: str) -> None:
            self._open.append(where)
            self._announce()

        await door(self, ready)

    def _is_ready(self, name: str, ready: bool) -> None:
        if name not in self._ready:
            self._ready[name] = ready
            self._announce()

    def _announce(self) -> None:
        """Once, when every adapter and door has said how it stands."""
        adapters = self.services.adapters
        if self._announced or len(self._ready) < len(adapters) or len(self._open) < len(self._doors):
            return
        self._announced = True
        if self._on_ready is not None:
            self._on_ready(", ".join([*(one for one in adapters if self._ready[one]), *self._open]))


async def _bounded(close: Callable[[], Awaitable[None]], seconds: float, name: str) -> None:
    """Close something, whatever it does: one that fails or hangs is named in the log and left behind."""
    closing = asyncio.ensure_future(_await(close))
    await asyncio.wait({closing}, timeout=seconds)
    if not closing.done():
        closing.cancel()
        log.error("%s did not close within %g s and is left behind", name, seconds)
    elif not closing.cancelled() and (error := closing.exception()) is not None:
        log.error("%s failed to close", name, exc_info=error)


async def _await(close: Callable[[], Awaitable[None]]) -> None:
    await close()


async def _open(folder: Path) -> Store:
    from hermes_core.store.sqlite import SQLiteStore  # who hands in a store of its own does without

    return await SQLiteStore.open(folder)
