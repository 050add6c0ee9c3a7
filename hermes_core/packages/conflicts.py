"""Conflicts: what a change of the environment would break, found before it is made. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

__all__ = ["CORE", "Change", "Have", "all_there", "broken", "is_downgrade", "needed_by", "own", "unmet"]

CORE: Final = "hermes-switchboard"


class Have(msgspec.Struct, frozen=True):
    """One installed distribution; `requires` as its metadata has it."""

    name: str
    version: str
    requires: tuple[str, ...] = ()


class Change(msgspec.Struct, frozen=True):
    """A distribution that would come, or take the place of version `old`."""

    name: str
    version: str
    old: str | None = None


def own(name: str) -> bool:
    """Whether this is a package of Hermes itself."""
    plain = canonicalize_name(name)
    return plain == CORE or plain.startswith(f"{CORE}-")


def broken(package: str, changes: Iterable[Change], have: Mapping[str, Have], downgrade: bool) -> list[str]:
    """Why `package` cannot come: one sentence for each thing that the changes would break.

    `have` is by canonical name. What was broken before is no reason; a downgrade is one unless `downgrade`.
    """
    made = {canonicalize_name(one.name): one for one in changes}
    reasons: list[str] = []
    for name, one in made.items():
        if one.old is None or one.old == one.version:
            continue
        move = f"{one.name} from {one.old} to {one.version}"
        if own(name) and name != canonicalize_name(package):
            reasons.append(f"{package} would change {move}, and that is a part of Hermes itself.")
            continue
        needs = [
            f"{other.name} {other.version} needs {written}"
            for key, other in have.items()
            if key not in made
            for written in _on(other, name)
            if _allows(written, one.old) and not _allows(written, one.version)
        ]
        if needs:
            reasons.append(f"{package} would change {move}, and {' and '.join(needs)}.")
        elif is_downgrade(one.old, one.version) and not downgrade:
            reasons.append(f"{package} would take {move}, which is a downgrade.")
    return reasons


def unmet(package: str, requires: Iterable[str], have: Mapping[str, Have]) -> list[str]:
    """What `package` needs of Hermes itself that this Hermes is not."""
    reasons: list[str] = []
    for written in requires:
        requirement = _requirement(written)
        if requirement is None or not own(requirement.name):
            continue
        there = have.get(canonicalize_name(requirement.name))
        if there is not None and not requirement.specifier.contains(there.version, prereleases=True):
            reasons.append(
                f"{package} needs {_short(requirement)}, and this Hermes has {there.name} {there.version}."
            )
    return reasons


def needed_by(name: str, have: Mapping[str, Have]) -> list[str]:
    """The installed distributions that need this one."""
    plain = canonicalize_name(name)
    return sorted(
        f"{one.name} {one.version}" for key, one in have.items() if key != plain and _on(one, plain)
    )


def all_there(requires: Iterable[str], have: Mapping[str, Have]) -> bool:
    """Whether everything that is required is installed already; False where only a resolver can tell."""
    for written in requires:
        try:
            requirement = Requirement(written)
        except InvalidRequirement:
            return False
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        there = have.get(canonicalize_name(requirement.name))
        if there is None or requirement.extras or requirement.url:
            return False
        if not requirement.specifier.contains(there.version, prereleases=True):
            return False
    return True


def is_downgrade(old: str, new: str) -> bool:
    """Whether `new` is the earlier version; False for what cannot be compared."""
    try:
        return Version(new) < Version(old)
    except InvalidVersion:
        return False


def _on(other: Have, name: str) -> list[str]:
    """What `other` requires of the distribution `name`, in this environment."""
    found = ((written, _requirement(written)) for written in other.requires)
    return [_short(one) for _, one in found if one is not None and canonicalize_name(one.name) == name]


def _requirement(written: str) -> Requirement | None:
    """None for one that does not count here: for an extra, another system, or not readable."""
    try:
        requirement = Requirement(written)
    except InvalidRequirement:
        return None
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return None
    return requirement


def _short(requirement: Requirement) -> str:
    return f"{requirement.name}{requirement.specifier}"


def _allows(written: str, version: str) -> bool:
    try:
        return Requirement(written).specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return True
