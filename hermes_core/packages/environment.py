"""Environment: what is installed, who changes it, and what a change that was cut off left behind.

Its lock and its journal are files in the environment, not in a data folder: two Hermes with their own
data may share one environment.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import importlib.metadata
import importlib.util
import os
import shutil
import signal
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from packaging.utils import canonicalize_name

from hermes_core.errors import PackageError
from hermes_core.packages.conflicts import Have
from hermes_core.packages.pip import Pip

__all__ = ["LONGEST", "Environment", "Pending", "uninterrupted"]


LONGEST: Final = 600.0  # seconds in which pip changes files; it takes a moment
_MARKS: Final = (
    "-~.=%0123456789"  # what pip puts before the rest of a folder's name when it is about to remove it
)


class Pending(msgspec.Struct, frozen=True):
    """A change of files that has begun: an installation, whose wheels are being put in place, or a removal.

    `names` are those of the distributions, `files` what they have now and is taken away, from the environment's
    root; `plugins` are gone with a removal.
    """

    written: str
    package: str
    version: str
    names: tuple[str, ...]
    folder: str = ""
    wheels: tuple[str, ...] = ()
    removes: bool = False
    files: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """In words: "installation of hermes-greet"."""
        return f"{'removal' if self.removes else 'installation'} of {self.package}"

    def is_called(self, name: str) -> bool:
        """Whether `name` is that of the distribution or of one of its plugins."""
        return name in self.plugins or canonicalize_name(name) == canonicalize_name(self.package)

    @property
    def again(self) -> str:
        """The words after `hermes` that finish it."""
        return f"plugins {'remove' if self.removes else 'install'} {self.written}"


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
        """What was begun and nobody works on any more."""
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
        """From here on files are changed; durable when it returns."""
        new = self._journal.with_suffix(".new")
        with new.open("wb") as out:
            out.write(msgspec.json.encode(pending))
            out.flush()
            os.fsync(out.fileno())
        new.replace(self._journal)

    def done(self) -> None:
        """It is done, or will not be."""
        self._journal.unlink(missing_ok=True)
        self._clean()
        importlib.invalidate_caches()

    def finish(self, pip: Pip, held: int, say: Callable[[str], None]) -> Pending | None:
        """Bring what was cut off to its end, and say so; gives it. Only while `changing`."""
        pending = self._pending()
        if pending is None:
            return None
        wheels = [str(self.folder / pending.folder / one) for one in pending.wheels]
        whole = bool(wheels) and all(Path(one).is_file() for one in wheels)
        if pending.removes or whole:
            self._take_away(pending)
        self._clear(pending.names, whole=whole)
        if whole:
            put = ("install", "--no-deps", "--no-index", "--force-reinstall", *wheels)
            pip.run(put, pending.package, (held,))
        self.done()
        version = "" if pending.removes else f" {pending.version}"
        say(f"Finished the {pending.what}{version}, which had been cut off.")
        return pending

    def files(self, distribution: importlib.metadata.Distribution) -> tuple[str, ...]:
        """What it has recorded as its own in this environment, see `Pending.files`."""
        if distribution.read_text("RECORD") is None:  # of an older kind: then it is not known what is its own
            return ()
        root = Path(sys.prefix)
        places = (
            Path(os.path.normpath(str(distribution.locate_file(one)))) for one in distribution.files or ()
        )
        return tuple(str(place.relative_to(root)) for place in places if place.is_relative_to(root))

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

    def whole(self, pending: Pending) -> bool:
        """Whether all that a removal takes away is still there."""
        return all(os.path.lexists(Path(sys.prefix) / one) for one in pending.files)

    def _take_away(self, pending: Pending) -> None:
        """All files from before that are still there, and what pip was about to remove."""
        root, site = Path(sys.prefix), Path(sysconfig.get_path("purelib"))
        folders: set[Path] = set()
        try:
            for one in pending.files:
                place = root / one
                place.unlink(missing_ok=True)
                if place.suffix == ".py":
                    Path(importlib.util.cache_from_source(place)).unlink(missing_ok=True)
                folders.update(each for each in place.parents if site in each.parents)
            for folder in sorted(folders, key=lambda each: -len(each.parts)):
                for moved in folder.parent.glob("~*"):
                    rest = moved.name.lstrip(_MARKS)
                    if rest and len(moved.name) == len(folder.name) and folder.name.endswith(rest):
                        shutil.rmtree(moved)
                for empty in (folder / "__pycache__", folder):
                    with contextlib.suppress(OSError):  # something of somebody else's is in it
                        empty.rmdir()
        except OSError as error:
            raise PackageError(
                f"The {pending.what} was cut off and cannot be finished: {error.strerror or error}."
            ) from error

    def _clear(self, names: tuple[str, ...], *, whole: bool) -> None:
        """What pip leaves of a distribution when it is killed, and what keeps it from installing it again.

        `whole`: all that is known of it, because it is put there anew.
        """
        site = Path(sysconfig.get_path("purelib"))
        for name in names:
            stem = canonicalize_name(name).replace("-", "_")
            for info in site.glob("*.dist-info"):
                its = canonicalize_name(info.name.split("-")[0]) == canonicalize_name(name)
                if its and (whole or not (info / "RECORD").exists()):
                    shutil.rmtree(info, ignore_errors=True)
            for moved in site.glob("~*"):  # pip's name for what it was about to remove
                if moved.name[1:].lower().startswith(stem[1:]):
                    shutil.rmtree(moved, ignore_errors=True)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl+C waits: putting files in place takes a moment, and by halves it is worth nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
