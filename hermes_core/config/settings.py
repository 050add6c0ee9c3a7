"""The sections of `hermes.toml` as frozen values; `docs/reference/config.md` says what each key means.

A field is a key: its name, its type and its default are the whole definition. A plugin declares its
own settings the same way and may use `Duration` and `secrets` like the sections here.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Final

import msgspec

from hermes_core.config.secrets import Secrets, is_variable
from hermes_core.messages import When

__all__ = [
    "AccessSettings",
    "AfterSettings",
    "CallbackSettings",
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
    "SteerSettings",
    "data_folder",
    "duration",
    "is_variable",
]

PROGRAM: Final = "hermes-switchboard"

_LEVELS: Final = ("debug", "info", "warning", "error")
_DURATION: Final = re.compile(
    r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?", re.IGNORECASE
)
_UNITS: Final = (86400.0, 3600.0, 60.0, 1.0)
_NUMBER: Final = re.compile(r"\d+(?:\.\d*)?|\.\d+")

Duration = Annotated[float, msgspec.Meta(ge=0, extra={"duration": True})]
"""Seconds; people write "30m", "1h30m" or a number of seconds (E9)."""

Busy = Annotated[
    When, msgspec.Meta(extra={"choices": (When.INTERRUPT, When.QUEUE, When.STEER, When.FOLLOWUP)})
]
"""The four values of `When` that can be a busy mode (T2)."""

Whole = Annotated[int, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


def duration(value: object) -> float:
    """Seconds from "1h30m", "90s", "90" or 90 (E9); units d, h, m, s, each at most once, largest first.

    `ValueError` for anything else: also for what is negative, infinite or no number.
    """
    seconds: float | None = None
    if isinstance(value, str):
        text = value.strip()
        units = _DURATION.fullmatch(text)
        if _NUMBER.fullmatch(text):
            seconds = float(text)
        elif text and units is not None:
            seconds = sum(float(count) * unit for count, unit in zip(units.groups("0"), _UNITS, strict=True))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except OverflowError:
            seconds = None
    if seconds is None or seconds < 0 or not math.isfinite(seconds):
        raise ValueError('a duration is written "30m", "1h30m", "90s" or as a number of seconds')
    return seconds


def data_folder() -> Path:
    """The user's data folder of this program, by the habits of the operating system."""
    import platformdirs  # 20 ms, and only a start without data_dir needs it

    return Path(platformdirs.user_data_dir(PROGRAM, appauthor=False))


class RuntimeSettings(msgspec.Struct, frozen=True):
    """`[runtime]`: where the store, the output of jobs and the state of plugins are kept.

    `blocked_after`: seconds after which a blocked event loop is named in the log; 0: nobody looks.
    `memory_step`: MiB by which the program may grow before the log says during whose work; 0: as it likes.
    """

    data_dir: Path = msgspec.field(default_factory=data_folder)
    blocked_after: Duration = 1.0
    memory_step: Whole = 256


class ModelSettings(msgspec.Struct, frozen=True):
    """`[model]`: which model answers. `timeout`: seconds without a byte; `context_chars`: of history.

    `images`: whether pictures are part of what it is asked; "auto" where its plugin knows that it takes them.
    """

    provider: str = "demo"
    name: str = ""
    base_url: str = ""
    api_key_env: str = ""
    timeout: Duration = 120.0
    context_chars: Count = 400_000
    images: Annotated[str, msgspec.Meta(extra={"choices": ("auto", "yes", "no")})] = "auto"
    secrets: Secrets = msgspec.field(default_factory=Secrets)

    def secret(self) -> str | None:
        """The API key; None where `api_key_env` is empty, `ConfigError` where it names nothing."""
        return self.secrets.read("model.api_key_env", self.api_key_env)


class ConversationSettings(msgspec.Struct, frozen=True):
    """`[conversation]`: turn-taking (T1, T2). `quiet`, `catch_up`: seconds (T1, D8); `receipts`: T6."""

    busy: Busy = When.INTERRUPT
    quiet: Duration = 0.0
    receipts: bool = True
    max_steps: Count = 50
    catch_up: Duration = 3600.0


class InterruptSettings(msgspec.Struct, frozen=True):
    """`[interrupt]`: what an interrupted turn keeps (I6), and seconds from SIGTERM to SIGKILL (I3)."""

    keep: Annotated[str, msgspec.Meta(extra={"choices": ("finished", "nothing")})] = "finished"
    kill_after: Annotated[float, msgspec.Meta(ge=0, le=60, extra={"duration": True})] = 1.0


class SteerSettings(msgspec.Struct, frozen=True):
    """`[steer]`: whether tool calls that have not started are skipped when a steer comes (S4)."""

    skip_pending: bool = False


class AfterSettings(msgspec.Struct, frozen=True):
    """`[after]`: the limits of /after (A8, A9)."""

    enabled: bool = True
    max_turns: Whole = 100
    max_chars: Count = 2000
    max_entries: Count = 50


class CallbackSettings(msgspec.Struct, frozen=True):
    """`[jobs.callbacks]`: what signs callbacks (none without it), and whether they may stay inside."""

    secret_env: str = ""
    allow_private: bool = False


class JobsSettings(msgspec.Struct, frozen=True):
    """`[jobs]`: limits of jobs (J6, J10). `deadline`, `keep_results`: seconds; `keep_bytes`: of all results."""

    deadline: Duration = 1800.0
    max_running: Count = 8
    page_chars: Count = 4000
    keep_results: Duration = 30 * 86400.0
    keep_bytes: Count = 1_000_000_000
    callbacks: CallbackSettings = CallbackSettings()


class FilesSettings(msgspec.Struct, frozen=True):
    """`[files]`: the largest file that is read, in bytes, and for how long files are kept, in seconds."""

    max_bytes: Count = 20_000_000
    keep: Duration = 30 * 86400.0


class HttpSettings(msgspec.Struct, frozen=True):
    """`[http]`: the one server; port 0 is a free one. `public_url`: how platforms reach it."""

    host: str = "127.0.0.1"
    port: Port = 8765
    token_env: str = ""
    public_url: str = ""


Level = Annotated[str, msgspec.Meta(extra={"choices": _LEVELS})]


class LogSettings(msgspec.Struct, frozen=True):
    """`[log]`: the form of the log, how much of it, and other levels of single loggers, "NAME=LEVEL"."""

    format: Annotated[str, msgspec.Meta(extra={"choices": ("text", "json")})] = "text"
    level: Level = "warning"
    levels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for one in self.levels:
            name, equals, level = one.partition("=")
            if not (name.strip() and equals and level.strip().lower() in _LEVELS):
                raise ValueError(
                    f'log.levels: write "LOGGER=LEVEL" with one of {", ".join(_LEVELS)}, and not {one!r}'
                )

    def of_loggers(self) -> list[tuple[str, str]]:
        """Logger and level of each of `levels`."""
        return [
            (name.strip(), level.strip().lower())
            for name, _, level in (one.partition("=") for one in self.levels)
        ]


class HealthSettings(msgspec.Struct, frozen=True):
    """`[health]`: seconds without a sign of life, and without a message, after which the log says so; 0: never."""

    silent_after: Duration = 180.0
    quiet_after: Duration = 0.0


class AccessSettings(msgspec.Struct, frozen=True):
    """`[access]`: people as "platform:user id"; in `allow` also "platform:*" and "*" (X1).

    `pairing`: whether strangers get a code. `per_minute`: messages of one person, 0 for any number;
    `bot_turns`: messages of bots in a row (X4). The keys of `DoorSettings` can be set per adapter.
    """

    owners: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    pairing: bool = True
    per_minute: Whole = 1000
    bot_turns: Whole = 5

    def __post_init__(self) -> None:
        for key, people in (("owners", self.owners), ("admins", self.admins)):
            for person in people:
                if not _person(person) or person.endswith(":*"):
                    raise ValueError(
                        f'access.{key}: write one person each, "platform:user id", and not {person!r}'
                    )
        for allowed in self.allow:
            if allowed != "*" and not _person(allowed):
                raise ValueError(
                    f'access.allow: write "platform:user id", "platform:*" or "*", and not {allowed!r}'
                )


class PermissionSettings(msgspec.Struct, frozen=True):
    """`[permissions]`: who answers where a tool call needs a yes, and seconds until it is a no."""

    by: Annotated[str, msgspec.Meta(extra={"choices": ("turn", "admins")})] = "turn"
    expires: Annotated[float, msgspec.Meta(gt=0, extra={"duration": True})] = 300.0


class DoorSettings(msgspec.Struct, frozen=True):
    """What of `[access]` an adapter's table may set for its platform."""

    pairing: bool = True
    per_minute: Whole = 1000
    bot_turns: Whole = 5


def _person(text: str) -> bool:
    platform, colon, person = text.partition(":")
    return bool(platform and colon and person)
