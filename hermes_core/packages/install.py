"""Install: from what a person names to a plugin that is listed, and not enabled (P4)."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from packaging.utils import canonicalize_name

from hermes_core.errors import PackageError
from hermes_core.packages.conflicts import Change, Have, all_there, broken, is_downgrade, own, unmet
from hermes_core.packages.environment import LONGEST, Environment, Pending, uninterrupted
from hermes_core.packages.pip import Pip, TookTooLong
from hermes_core.packages.targets import Target, target
from hermes_core.packages.wheels import Wheel, read_wheel

__all__ = ["Installed", "Options", "install"]


class Options(msgspec.Struct, frozen=True):
    """How to install. `seconds`: for all of it; `downgrade`: an earlier version may take a later one's place.

    `editable`: a folder stays where it is, so that changes in it count at the next start.
    """

    seconds: float = 600.0
    downgrade: bool = False
    editable: bool = False


class Installed(msgspec.Struct, frozen=True):
    """What was installed: the package with its plugins, and all that changed for it; `new` is False for nothing."""

    package: str
    version: str
    plugins: tuple[str, ...]
    changes: tuple[Change, ...]
    new: bool = True


def install(
    written: str,
    options: Options,
    say: Callable[[str], None],
    tell: Callable[[str], None] = lambda line: None,
) -> Installed:
    """Install the plugin that `written` names into the running environment.

    `say` gets one line for each step, `tell` each line of pip. `PackageError` says why not, and then
    nothing was changed. One that was cut off before is finished first.
    """
    wanted = target(written)
    if options.editable and wanted.kind != "folder":
        raise PackageError(
            f"{wanted.written}: only a folder can be installed as editable.", "Leave --editable out."
        )
    environment = Environment()
    with environment.changing() as held:
        pip = Pip(options.seconds, tell)
        environment.finish(pip, held, say)
        return _install(wanted, options, environment, pip, held, say)


def _install(
    wanted: Target,
    options: Options,
    environment: Environment,
    pip: Pip,
    held: int,
    say: Callable[[str], None],
) -> Installed:
    folder = environment.staging()
    have = environment.have()
    wheel = _get(wanted, folder, pip, say)
    before = have.get(canonicalize_name(wheel.name))
    _check(wheel, before, have, options)
    if before is not None and before.version == wheel.version and wanted.kind == "name":
        environment.done()
        return Installed(wheel.name, wheel.version, wheel.plugins, (), new=False)
    report = [] if all_there(wheel.requires, have) else _resolve(wheel, folder, have, pip, say)
    changes = _changes(report, wheel, have)
    reasons = broken(wheel.name, changes, have, options.downgrade)
    if reasons:
        raise PackageError(" ".join(reasons), "Nothing was changed.")
    others = _others(report, wheel.name)
    if others:
        say(f"Getting what it needs: {', '.join(f'{one.name} {one.version}' for one in changes[:-1])} …")
        pip.run(("wheel", "--no-deps", "--wheel-dir", str(folder), *others), wheel.name)
    say(f"Installing {wheel.name} {wheel.version} …")
    put = [wheel.file, *(one for one in folder.glob("*.whl") if one != wheel.file)]
    _put(wanted, wheel, put, options, environment, held)
    return Installed(wheel.name, wheel.version, wheel.plugins, changes)


def _get(wanted: Target, folder: Path, pip: Pip, say: Callable[[str], None]) -> Wheel:
    """The wheel of what is wanted, in `folder`."""
    if wanted.kind == "wheel":
        read_wheel(Path(wanted.spec))
        return read_wheel(Path(shutil.copy(wanted.spec, folder)))
    say(f"Getting {_name(wanted)} …")
    pip.run(("wheel", "--no-deps", "--wheel-dir", str(folder), wanted.spec), _name(wanted))
    return read_wheel(_only(folder, wanted))


def _put(
    wanted: Target,
    wheel: Wheel,
    wheels: Sequence[Path],
    options: Options,
    environment: Environment,
    held: int,
) -> None:
    """Put the wheels in place. What came before took its time; this has its own."""
    pip = Pip(LONGEST, lambda line: None)
    names = tuple(read_wheel(one).name for one in wheels)
    pending = Pending(
        wanted.written,
        wheel.name,
        wheel.version,
        names,
        wheel.file.parent.name,
        tuple(one.name for one in wheels),
        files=_files(names, environment),
    )
    words = ["install", "--no-deps"]
    if options.editable:
        words += [*map(str, wheels[1:]), "--editable", wanted.spec]
    else:
        words += ["--no-index", "--force-reinstall", *map(str, wheels)]
    with uninterrupted():
        environment.begin(pending)
        try:
            pip.run(words, wheel.name, (held,))
        except TookTooLong:
            raise  # the journal stays: the next call finishes it
        except PackageError:
            environment.done()  # a pip that fails puts back what it took away
            raise
        environment.done()


def _files(names: Sequence[str], environment: Environment) -> tuple[str, ...]:
    """What these distributions have now, in other versions."""
    files: list[str] = []
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            files += environment.files(importlib.metadata.distribution(name))
    return tuple(files)


def _name(wanted: Target) -> str:
    """What it is called in lines for people; a URL without what may be a password in it."""
    if wanted.kind == "git":
        return wanted.spec.partition("#")[0].rsplit("/", 1)[-1].partition("@")[0].removesuffix(".git")
    return Path(wanted.spec).name if wanted.kind in ("folder", "wheel") else wanted.spec


def _only(folder: Path, wanted: Target) -> Path:
    found = list(folder.glob("*.whl"))
    if len(found) != 1:
        raise PackageError(
            f"{_name(wanted)}: pip made {len(found)} wheels of it, and not one.", "Nothing was changed."
        )
    return found[0]


def _check(wheel: Wheel, before: Have | None, have: Mapping[str, Have], options: Options) -> None:
    """`PackageError` for what can be said before the resolver is asked."""
    if not wheel.plugins:
        raise PackageError(
            f"{wheel.name} {wheel.version} is no plugin for Hermes: it has no entry point in the group “hermes”.",
            "Nothing was changed. Use pip for packages that are not plugins.",
        )
    reasons = unmet(f"{wheel.name} {wheel.version}", wheel.requires, have)
    if reasons:
        raise PackageError(" ".join(reasons), "Nothing was changed.")
    for point in importlib.metadata.entry_points(group="hermes"):
        other = point.dist.name if point.dist is not None else "?"
        if point.name in wheel.plugins and canonicalize_name(other) != canonicalize_name(wheel.name):
            raise PackageError(
                f"{wheel.name} brings a plugin {point.name!r}, and {other} has one of that name already.",
                f"Nothing was changed. Remove the other one first: hermes plugins remove {point.name}",
            )
    if before is not None and is_downgrade(before.version, wheel.version) and not options.downgrade:
        raise PackageError(
            f"{wheel.name} {before.version} is installed, and {wheel.version} is older.",
            "Nothing was changed. If that is what you want: --allow-downgrade",
        )


def _resolve(
    wheel: Wheel, folder: Path, have: Mapping[str, Have], pip: Pip, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """What pip would install, as its report has it; the packages of Hermes itself are pinned as they are."""
    say(f"Looking at what {wheel.name} {wheel.version} would change …")
    pins, report = folder / "pins.txt", folder / "report.json"
    plain = canonicalize_name(wheel.name)
    pins.write_text(
        "".join(f"{one.name}=={one.version}\n" for key, one in have.items() if own(key) and key != plain)
    )
    pip.run(
        ("install", "--dry-run", "--report", str(report), "--constraint", str(pins), str(wheel.file)),
        f"{wheel.name} {wheel.version}",
    )
    found: list[dict[str, Any]] = json.loads(report.read_text())["install"]
    return found


def _changes(
    report: Sequence[Mapping[str, Any]], wheel: Wheel, have: Mapping[str, Have]
) -> tuple[Change, ...]:
    """All that would change, the plugin itself last."""
    plain = canonicalize_name(wheel.name)
    names = [(one["metadata"]["name"], one["metadata"]["version"]) for one in report]
    others = [pair for pair in names if canonicalize_name(pair[0]) != plain]
    return tuple(
        Change(name, version, there.version if (there := have.get(canonicalize_name(name))) else None)
        for name, version in (*others, (wheel.name, wheel.version))
    )


def _others(report: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    """What has to be fetched besides: each exactly as the resolver chose it, with its hash."""
    found = []
    for one in report:
        its, info = one["metadata"]["name"], one["download_info"]
        if canonicalize_name(its) == canonicalize_name(name):
            continue
        if "vcs_info" in info:
            vcs = info["vcs_info"]
            found.append(f"{its} @ {vcs['vcs']}+{info['url']}@{vcs['commit_id']}")
        else:
            digest = info.get("archive_info", {}).get("hash", "")
            found.append(f"{its} @ {info['url']}" + (f"#{digest}" if digest else ""))
    return found
