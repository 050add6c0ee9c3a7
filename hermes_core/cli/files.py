"""Files: write a new one whole, with its mode from the first byte on."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from hermes_core.errors import HermesError

__all__ = ["write_new"]


def write_new(path: Path, text: str, mode: int, *, replace: bool) -> None:
    """Put `text` there in one step; without `replace` never over a file that is there, also not one made meanwhile."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if replace:
                beside.replace(path)
            else:
                os.link(beside, path)  # unlike a rename it does not take the place of what is there
        finally:
            with contextlib.suppress(FileNotFoundError):
                beside.unlink()
    except FileExistsError:
        raise HermesError(f"{path} is there already, and is left as it is.") from None
    except OSError as error:
        raise HermesError(
            f"{path} cannot be written: {error.strerror or error}.", "Nothing was changed."
        ) from error
