"""Config: TOML, environment and command line into frozen settings, each value with its origin.

Precedence, highest first: command line, environment `HERMES__SECTION__KEY`, file, default. Unknown
keys, wrong types and secrets that stand in the config itself are errors that name the key, where it
stands and the nearest right word. `[adapters.NAME]` and `[plugins.NAME]` are open: what their keys
mean is known when the package is loaded, and checked then by `Config.section`.

Whether a package is on is also kept by `hermes plugins`, in a file of its own (`Config.approvals`). It
stands between what people wrote and the defaults.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from hermes_core import approvals
from hermes_core.config.address import address
from hermes_core.config.check import build, check_value, keys, masked, not_a_table, unknown
from hermes_core.config.settings import (
    AccessSettings,
    AfterSettings,
    CallbackSettings,
    ConversationSettings,
    DoorSettings,
    Duration,
    FilesSettings,
    HealthSettings,
    HttpSettings,
    InterruptSettings,
    JobsSettings,
    LogSettings,
    ModelSettings,
    PermissionSettings,
    RuntimeSettings,
    Secrets,
    SteerSettings,
    duration,
)
from hermes_core.config.sources import OPEN, Key, Sources, find_file, read_file

__all__ = [
    "DEFAULT_PACKAGES",
    "PACKAGE_KEYS",
    "PLATFORM_KEYS",
    "SECTIONS",
    "AccessSettings",
    "AfterSettings",
    "CallbackSettings",
    "Config",
    "ConversationSettings",
    "DoorSettings",
    "Duration",
    "FilesSettings",
    "HealthSettings",
    "HttpSettings",
    "InterruptSettings",
    "JobsSettings",
    "LogSettings",
    "ModelSettings",
    "PermissionSettings",
    "RuntimeSettings",
    "Secrets",
    "Setting",
    "SteerSettings",
    "address",
    "duration",
    "masked",
]

_S = TypeVar("_S", bound=msgspec.Struct)

DEFAULT_PACKAGES: Final[Mapping[str, bool]] = MappingProxyType(
    {
        "adapters.terminal": True,
        "plugins.access": True,
        "plugins.anthropic": True,
        "plugins.basics": True,
        "plugins.memory": True,
        "plugins.files": True,
        "plugins.followup": True,
        "plugins.after": True,
        "plugins.busy": True,
        "plugins.demo": True,
        "plugins.jobs": True,
        "plugins.openai": True,
        "plugins.steer": True,
        "plugins.shell": False,  # it runs commands: only a plain `enabled = true` turns it on
    }
)
"""What is enabled where the config says nothing. Another package that is installed is off (P4)."""

PACKAGE_KEYS: Final[Mapping[str, type]] = MappingProxyType({"enabled": bool, "required": bool})
"""What the core itself reads in each `[adapters.NAME]` and `[plugins.NAME]`."""

PLATFORM_KEYS: Final[Mapping[str, Any]] = MappingProxyType(
    {key: field.type for one in (ConversationSettings, DoorSettings) for key, field in keys(one).items()}
)
"""What the core reads besides in each `[adapters.NAME]`: it goes before the general setting on that platform."""

SECTIONS: Final[Mapping[str, type[msgspec.Struct]]] = MappingProxyType(
    {
        "runtime": RuntimeSettings,
        "model": ModelSettings,
        "conversation": ConversationSettings,
        "interrupt": InterruptSettings,
        "steer": SteerSettings,
        "after": AfterSettings,
        "files": FilesSettings,
        "jobs": JobsSettings,
        "http": HttpSettings,
        "log": LogSettings,
        "health": HealthSettings,
        "access": AccessSettings,
        "permissions": PermissionSettings,
    }
)
"""The closed sections, in the order in which they are shown."""


class Setting(NamedTuple):
    """One effective value: its dotted key and where it came from."""

    key: str
    value: Any
    origin: str


class Config(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """All settings of one start. `Config()` is what a start without any config gets."""

    runtime: RuntimeSettings = msgspec.field(default_factory=RuntimeSettings)
    model: ModelSettings = msgspec.field(default_factory=ModelSettings)
    talk: ConversationSettings = ConversationSettings()
    interrupt: InterruptSettings = InterruptSettings()
    steer: SteerSettings = SteerSettings()
    after: AfterSettings = AfterSettings()
    files: FilesSettings = FilesSettings()
    jobs: JobsSettings = JobsSettings()
    http: HttpSettings = HttpSettings()
    log: LogSettings = LogSettings()
    health: HealthSettings = HealthSettings()
    access: AccessSettings = AccessSettings()
    permissions: PermissionSettings = PermissionSettings()
    file: Path | None = None
    approvals: approvals.Approvals = approvals.Approvals()
    sources: Sources = msgspec.field(default_factory=Sources)
    secrets: Secrets = msgspec.field(default_factory=Secrets)

    @classmethod
    def load(
        cls,
        path: Path | str | None = None,
        environ: Mapping[str, str] = os.environ,
        overrides: Mapping[str, str] = MappingProxyType({}),
    ) -> Config:
        """The config of this start: the file that is found, the environment and `overrides`.

        `overrides` has dotted keys ("model.provider") and values as text. `ConfigError` for the first
        thing that is wrong; an unset secret is found when it is read. What was approved for its data
        folder is read too.
        """
        file = find_file(path, environ)
        sources = Sources()
        if file is not None:
            sources.add_table(read_file(file), f"file {file}", file.parent)
        config = cls._from(sources, environ, overrides, file)
        return msgspec.structs.replace(config, approvals=approvals.read(config.runtime.data_dir))

    @classmethod
    def of(
        cls,
        tables: Mapping[str, Any],
        environ: Mapping[str, str] = MappingProxyType({}),
        overrides: Mapping[str, str] = MappingProxyType({}),
    ) -> Config:
        """The config that a file with these tables would give; reads no file."""
        sources = Sources()
        sources.add_table(tables, "file (in memory)")
        return cls._from(sources, environ, overrides, None)

    @classmethod
    def _from(
        cls, sources: Sources, environ: Mapping[str, str], overrides: Mapping[str, str], file: Path | None
    ) -> Config:
        sources.add_environment(environ)
        sources.add_overrides(overrides)
        sources.refuse_secrets()
        for name in sources.children(()):
            if name not in SECTIONS and name not in OPEN:
                raise unknown((name,), sources, [*SECTIONS, *OPEN])
        origins = {".".join(key): given.place for key, given in sources.values.items()}
        secrets = Secrets(environ, origins)
        secrets.know(sources.variables())
        built: dict[str, Any] = {
            name: build(settings, (name,), sources, secrets=secrets) for name, settings in SECTIONS.items()
        }
        _check_packages(sources)
        built["talk"] = built.pop("conversation")
        return cls(**built, file=file, sources=sources, secrets=secrets)

    def conversation(self, platform: str = "") -> ConversationSettings:
        """How conversations on this platform go: `[conversation]` and over it `[adapters.PLATFORM]`."""
        return msgspec.structs.replace(self.talk, **self._own(platform, ConversationSettings))

    def door(self, platform: str = "") -> DoorSettings:
        """Who comes in on this platform, and how: `[access]` and over it `[adapters.PLATFORM]`."""
        general = DoorSettings(**{key: getattr(self.access, key) for key in keys(DoorSettings)})
        return msgspec.structs.replace(general, **self._own(platform, DoorSettings))

    def _own(self, platform: str, settings: type[msgspec.Struct]) -> dict[str, Any]:
        return {
            key: given.value
            for key in keys(settings)
            if (given := self.sources.values.get(("adapters", platform, key))) is not None
        }

    def enabled(self, name: str) -> bool:
        """Whether the package of this name is to be loaded.

        A written `enabled` decides, and False beats True; then `hermes plugins enable` and `disable`; then
        the defaults; then whether the config names it at all. So a token in the environment never beats
        `enabled = false`.
        """
        written = self._written(name)
        if written:
            return all(written)
        switched = self.approvals.plugins.get(name)
        if switched is not None:
            return switched.enabled
        default = next((on for key, on in DEFAULT_PACKAGES.items() if key.split(".")[1] == name), None)
        return default if default is not None else name in self.named()

    def unapproved(self, name: str, registers: Mapping[str, Iterable[str]]) -> list[str]:
        """What this package registers beyond what was approved when it was enabled (P4), in words.

        Nothing where a written `enabled` or a default turned it on: then nobody was asked. What was approved
        since the start counts: then the program that runs may load the plugin anew.
        """
        if self._written(name) or not self.approvals.beyond(name, registers):
            return []
        return approvals.read(self.runtime.data_dir).beyond(name, registers)

    def switched_on(self, name: str) -> bool:
        """Whether this package is on because of `hermes plugins enable`."""
        kept = self.approvals.plugins.get(name)
        return kept is not None and kept.enabled and self.enabled(name)

    def _written(self, name: str) -> list[bool]:
        return [
            given.value
            for table in OPEN
            if (given := self.sources.values.get((table, name, "enabled"))) is not None
        ]

    def required(self, name: str) -> bool:
        """Whether the start fails where this package does (P2); False unless `required = true` is written."""
        return any(
            given.value
            for table in OPEN
            if (given := self.sources.values.get((table, name, "required"))) is not None
        )

    def named(self) -> tuple[str, ...]:
        """The packages that somebody wrote a key or a table for, whether installed or not."""
        return tuple(dict.fromkeys(name for table in OPEN for name in self.sources.children((table,))))

    def given(self, key: str) -> bool:
        """Whether somebody wrote this dotted key, or something below it."""
        return self.sources.first(tuple(key.split("."))) is not None

    def place(self, key: str) -> str:
        """Where this dotted key is written, as it stands at the head of an error; "" where nowhere."""
        first = self.sources.first(tuple(key.split(".")))
        return "" if first is None else first.place

    def section(self, table: str, name: str, settings: type[_S]) -> _S:
        """`[adapters.NAME]` or `[plugins.NAME]` as a plugin's own settings type.

        `enabled` and `required`, and in an adapter's table every key of `PLATFORM_KEYS`, are not the
        plugin's.
        A field of type `Secrets` gets what reads this start's environment.
        """
        ignore = {*PACKAGE_KEYS, *(PLATFORM_KEYS if table == "adapters" else ())}
        return build(settings, (table, name), self.sources, ignore=ignore, secrets=self.secrets)

    def secret(self, key: str, variable: str) -> str | None:
        """The secret in the environment variable that the dotted `key` names; see `Secrets.read`."""
        return self.secrets.read(key, variable)

    def origins(self) -> list[Setting]:
        """Every effective value with its dotted key and its origin; secrets never are values (X2)."""
        listed: list[Setting] = []
        for name, section in zip(SECTIONS, self._sections(), strict=True):
            listed.extend(self._flat((name,), section))
        packages = {tuple(key.split(".")): on for key, on in DEFAULT_PACKAGES.items()}
        named = {*packages, *((table, name) for table in OPEN for name in self.sources.children((table,)))}
        known = {name for _, name in named}
        named |= {("plugins", name) for name in self.approvals.plugins if name not in known}
        for table, name in sorted(named):
            written = self.sources.values.get((table, name, "enabled"))
            origin = "default"
            if written is None and name in self.approvals.plugins:
                origin = f"file {self.runtime.data_dir / approvals.FILE}"
            elif written is None and (table, name) not in packages:  # it is on because it is named
                written = self.sources.first((table, name))
            origin = origin if written is None else written.origin
            listed.append(Setting(f"{table}.{name}.enabled", self.enabled(name), origin))
            listed.extend(
                Setting(".".join(key), given.value, given.origin)
                for key, given in self.sources.under((table, name))
                if key != (table, name, "enabled")
            )
        return listed

    def _sections(self) -> tuple[msgspec.Struct, ...]:
        return (
            self.runtime,
            self.model,
            self.talk,
            self.interrupt,
            self.steer,
            self.after,
            self.files,
            self.jobs,
            self.http,
            self.log,
            self.health,
            self.access,
            self.permissions,
        )

    def _flat(self, path: Key, section: msgspec.Struct) -> Iterator[Setting]:
        for name, field in keys(type(section)).items():
            value = getattr(section, field.name)
            here = (*path, name)
            if isinstance(value, msgspec.Struct):
                yield from self._flat(here, value)
            else:
                given = self.sources.values.get(here)
                yield Setting(".".join(here), value, given.origin if given else "default")


def _check_packages(sources: Sources) -> None:
    """Check and turn into values what the core itself reads in the open tables."""
    for table in OPEN:
        for path in ((table,), *((table, name) for name in sources.children((table,)))):
            if (lone := sources.values.get(path)) is not None:
                raise not_a_table(path, lone)
        for name in sources.children((table,)):
            own = {**PACKAGE_KEYS, **(PLATFORM_KEYS if table == "adapters" else {})}
            for key, kind in own.items():
                here = (table, name, key)
                first = sources.first(here)
                if first is not None:
                    value = first if here in sources.values else first._replace(value=sources.nested(here))
                    sources.values[here] = first._replace(value=check_value(here, value, kind), text=False)
