"""Where the log goes, in which form, and that no secret goes with it (X2)."""

from __future__ import annotations

import argparse
import copy
import datetime
import json
import logging
import logging.handlers
import traceback
from typing import Any, Final

from msgspec.structs import replace

from hermes_core import trace
from hermes_core.config import Config, LogSettings, Secrets
from hermes_core.errors import ConfigError

__all__ = ["chosen", "formatter", "log_nowhere", "log_to_file", "log_to_stderr"]

FILE: Final = "hermes.log"
LIMIT: Final = 2_000_000  # bytes; one older file of the same size is kept
_USUAL: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})
_BARE: Final = ("conversation", "adapter")  # what says by itself what it is
_LESS: Final = ("adapter",)  # what a conversation says as well
_CHATTY: Final = ("httpx", "httpcore")  # they log each request as information


def chosen(config: Config, options: argparse.Namespace) -> LogSettings:
    """`[log]`, with what the command line says over it."""
    settings = config.log
    if options.log_level is not None:
        settings = replace(settings, level=options.log_level)
    return replace(settings, format="json") if options.log_json else settings


class _Text(logging.Formatter):
    """Lines for people, without secrets; tracebacks where they are wanted."""

    def __init__(self, secrets: Secrets, traces: bool) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._secrets = secrets
        self._traces = traces

    def format(self, record: logging.LogRecord) -> str:
        """The record as text, every secret that was read so far replaced."""
        if not self._traces:
            record = copy.copy(record)  # another handler may want what is left out here
            record.exc_info = record.exc_text = record.stack_info = None
        return self._secrets.hide(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is the library's
        """The line, and behind it what the present task belongs to, as far as the line does not say so."""
        line = super().formatMessage(record)
        known = trace.here().fields()
        less = _LESS if "conversation" in known else ()
        said = (
            f"{one}" if name in _BARE else f"{name} {one}" for name, one in known.items() if name not in less
        )
        rest = [one for one in said if one not in record.message]
        return f"{line} ({', '.join(rest)})" if rest else line


class _Json(logging.Formatter):
    """One JSON object a line, without secrets; with the traceback, which is one field of it."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._hide = secrets.hide

    def format(self, record: logging.LogRecord) -> str:
        """The record, with `conversation`, `turn`, `entry`, `job` and `adapter` as far as they are known."""
        at = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        told: dict[str, Any] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **trace.here().fields(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            told["error"] = type(error).__name__
            told["traceback"] = "".join(traceback.format_exception(error))
        if record.stack_info:
            told["stack"] = record.stack_info
        if own := {name: one for name, one in vars(record).items() if name not in _USUAL}:
            told["extra"] = own
        return json.dumps(self._hidden(told), ensure_ascii=False)

    def _hidden(self, value: Any) -> Any:
        """Before it is written as JSON: there a quotation mark in a secret would have a backslash in front."""
        if isinstance(value, dict):
            return {self._hide(str(name)): self._hidden(one) for name, one in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._hidden(one) for one in value]
        return value if isinstance(value, int | float | None) else self._hide(str(value))


def formatter(settings: LogSettings, secrets: Secrets, traces: bool) -> logging.Formatter:
    """What makes lines of records, in the form that the settings want."""
    return _Json(secrets) if settings.format == "json" else _Text(secrets, traces)


def log_nowhere() -> None:
    """Nothing is logged: the command says in its result what went wrong."""
    logging.getLogger().addHandler(logging.NullHandler())


def log_to_stderr(settings: LogSettings, secrets: Secrets, traces: bool) -> None:
    """Log on stderr; a text has tracebacks where `traces` says so, JSON always."""
    _install(logging.StreamHandler(), settings, secrets, traces)


def log_to_file(settings: LogSettings, config: Config) -> None:
    """Log into the data folder, which is made where it is not there, for this user only."""
    folder = config.runtime.data_dir
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"runtime.data_dir: the folder {folder} cannot be made: {error.strerror or error}.",
            "Name another one with --set runtime.data_dir=FOLDER.",
        ) from error
    # delay: a start without anything to report leaves no file
    handler = _File(folder / FILE, maxBytes=LIMIT, backupCount=1, encoding="utf-8", delay=True)
    _install(handler, settings, config.secrets, traces=True)


class _File(logging.handlers.RotatingFileHandler):
    """A file that, where it cannot be written, on a full disk say, stays as it is (D7)."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is the library's
        """The terminal belongs to the conversation: no traceback of the log itself comes there."""


def _install(handler: logging.Handler, settings: LogSettings, secrets: Secrets, traces: bool) -> None:
    handler.setFormatter(formatter(settings, secrets, traces))
    root = logging.getLogger()
    root.setLevel(settings.level.upper())
    root.addHandler(handler)
    for chatty in _CHATTY:
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    for name, level in settings.of_loggers():
        logging.getLogger(name).setLevel(level.upper())
