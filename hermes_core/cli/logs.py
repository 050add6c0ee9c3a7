"""Where the log goes, and that no secret goes with it (X2)."""

from __future__ import annotations

import copy
import logging
import logging.handlers
from typing import Final

from hermes_core.config import Config, Secrets
from hermes_core.errors import ConfigError

__all__ = ["log_nowhere", "log_to_file", "log_to_stderr"]

FILE: Final = "hermes.log"
LIMIT: Final = 2_000_000  # bytes; one older file of the same size is kept


class _Formatter(logging.Formatter):
    """Lines without secrets, tracebacks included where they are wanted."""

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


def log_nowhere() -> None:
    """Nothing is logged: the command says in its result what went wrong."""
    logging.getLogger().addHandler(logging.NullHandler())


def log_to_stderr(level: str, secrets: Secrets, traces: bool) -> None:
    """Log on stderr from this level on, with tracebacks where `traces` says so."""
    _install(logging.StreamHandler(), level, _Formatter(secrets, traces))


def log_to_file(level: str, config: Config) -> None:
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
    _install(handler, level, _Formatter(config.secrets, traces=True))


class _File(logging.handlers.RotatingFileHandler):
    """A file that, where it cannot be written, on a full disk say, stays as it is (D7)."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is the library's
        """The terminal belongs to the conversation: no traceback of the log itself comes there."""


def _install(handler: logging.Handler, level: str, formatter: _Formatter) -> None:
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.setLevel(level.upper())
    root.addHandler(handler)
    for chatty in ("httpx", "httpcore"):  # they log each request as information
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
