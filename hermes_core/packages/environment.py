"""Environment: what is installed, who changes it, and what a change that was cut off left behind.

Its lock and its journal are files in the environment, not in a data folder: two Hermes with their own
data may share one environment.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import importlib.metadata
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
from packaging.utils import canonicalize_name

from hermes_core.errors import PackageError
from hermes_core.packages.conflicts import Have
from hermes_core.packages.pip import Pip

__all__ = ["Environment", "Pending"]


class Pending(msgspec.Struct, frozen=True):
    """An installation whose wheels are being put in place; `names` are those of the distributions."""

    written: str
    package: str
    version: str
    names: tuple[str, ...]
    folder: str
    wheels: tuple[str, ...]


class Environment:
    """The environment in which this program runs."""

    def __init__(self) -> None:
        self.folder = Path(sys.prefix) / ".hermes-install"
        self._journal = self.folder / "journal.json"
        self._lock = self.folder / "lock"

    @contextlib.contextmanager
    def changing(self) -> Iterator[int]:
        """Be the only one who changes it; gives a descriptor that holds the lock as long as it is open.

        `PackageError` where somebody else does, or where it cannot be changed.
        """
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise PackageError(
                f"The environment {sys.prefix} cannot be changed: {error.strerror or error}.",
                "Install Hermes into one of your own: python3 -m venv FOLDER",
            ) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise PackageError(
                    "Another installation is going on in this environment.", "Wait until it is done."
                ) from None
            yield descriptor
        finally:
            os.close(descriptor)

    def cut_off(self) -> Pending | None:
        """The installation that was begun and that nobody works on any more."""
        if not self._journal.exists():
            return None
        try:
            with self.changing():
                return self._pending()
        except PackageError:
            return None

    def staging(self) -> Path:
        """An empty folder for wheels. Those of former runs are gone; what still writes there writes into nothing."""
        self._clean()
        return Path(tempfile.mkdtemp(prefix="wheels-", dir=self.folder))

    def begin(self, pending: Pending) -> None:
        """From here on wheels are put in place; durable when it returns."""
        new = self._journal.with_suffix(".new")
        with new.open("wb") as out:
            out.write(msgspec.json.encode(pending))
            out.flush()
            os.fsync(out.fileno())
        new.replace(self._journal)

    def done(self) -> None:
        """They are in place, or will not be."""
        self._journal.unlink(missing_ok=True)
        self._clean()
        importlib.invalidate_caches()

    def finish(self, pip: Pip, held: int) -> Pending | None:
        """Bring an installation that was cut off to its end; gives it. Only while `changing`."""
        pending = self._pending()
        if pending is None:
            return None
        self._clear(pending.names)
        wheels = [str(self.folder / pending.folder / one) for one in pending.wheels]
        if all(Path(one).is_file() for one in wheels):
            put = ("install", "--no-deps", "--no-index", "--force-reinstall", *wheels)
            pip.run(put, pending.package, (held,))
        self.done()
        return pending

    def have(self) -> dict[str, Have]:
        """Every installed distribution, by its canonical name."""
        importlib.invalidate_caches()
        found: dict[str, Have] = {}
        for one in importlib.metadata.distributions():
            name = one.metadata["Name"]
            if name:  # a distribution that was removed by halves has none
                found.setdefault(canonicalize_name(name), Have(name, one.version, tuple(one.requires or ())))
        return found

    def _clean(self) -> None:
        for folder in self.folder.glob("wheels-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def _pending(self) -> Pending | None:
        try:
            return msgspec.json.decode(self._journal.read_bytes(), type=Pending)
        except (OSError, msgspec.MsgspecError):
            return None

    def _clear(self, names: tuple[str, ...]) -> None:
        """What pip leaves of a distribution when it is killed, and what keeps it from installing it again."""
        site = Path(sysconfig.get_path("purelib"))
        for name in names:
            stem = canonicalize_name(name).replace("-", "_")
            for info in site.glob("*.dist-info"):
                if (
                    canonicalize_name(info.name.split("-")[0]) == canonicalize_name(name)
                    and not (info / "RECORD").exists()
                ):
                    shutil.rmtree(info, ignore_errors=True)
            for moved in site.glob("~*"):  # pip's name for what it was about to remove
                if moved.name[1:].lower().startswith(stem[1:]):
                    shutil.rmtree(moved, ignore_errors=True)
