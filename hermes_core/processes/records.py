"""Records: the files in which shims say what they run, and what the next run does about them (E5)."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import msgspec

from hermes_core.processes import tree

__all__ = ["Leftover", "end", "path_of", "process", "read", "sweep"]

_SUFFIX = ".process"
_PATIENCE = 1.0  # seconds that one leftover may take to die of SIGKILL


class Leftover(msgspec.Struct, frozen=True):
    """What a dead run left behind: `killed` and `unreachable` are process ids."""

    label: str
    killed: tuple[int, ...] = ()
    unreachable: tuple[int, ...] = ()


def path_of(folder: Path, token: str) -> Path:
    """The record of the process with this token."""
    return folder / f"{token}{_SUFFIX}"


def sweep(folder: Path) -> list[Leftover]:
    """Kill what a dead run left alive and remove its records; gives what was found alive.

    For the start of a run, when nothing of this folder's can be wanted any more: it kills without
    asking first, and blocks until all are gone (for each leftover at most a second). A pid counts only
    together with its start time and the boot it belongs to; a record without a living process, and one
    that cannot be read, is simply removed.
    """
    found: list[Leftover] = []
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        facts = read(path)
        if facts.get("keep"):
            continue  # it is to outlive the run that started it
        leftover = end(facts) if facts.get("boot") == tree.boot() else Leftover("")
        if leftover.killed or leftover.unreachable:
            found.append(leftover)
        path.unlink(missing_ok=True)
    for draft in folder.glob(f"*{_SUFFIX}.new"):
        draft.unlink(missing_ok=True)
    return found


def read(path: Path) -> dict[str, str]:
    """The facts of a record; none where there is no such file."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return {key: value for key, _, value in (line.partition(" ") for line in lines)}


def process(text: str) -> tuple[int, int]:
    """Pid and start time, zeros where the record names none."""
    try:
        pid, start = map(int, text.split())
    except ValueError:
        return 0, 0
    return pid, start


def end(facts: dict[str, str]) -> Leftover:
    """SIGKILL to everything of one record until nothing of it lives."""
    if not tree.VISIBLE:
        return Leftover(facts.get("label", ""))
    shim, since = process(facts.get("shim", ""))
    leader, born = process(facts.get("leader", ""))
    sent: set[tuple[int, int]] = set()
    until = time.monotonic() + _PATIENCE
    while True:
        seen = tree.look()
        root = seen.get(shim)
        # Long after, the number of a dead leader may be the session of something else.
        session = leader if leader in seen and seen[leader].start == born else None
        alive = tree.strays(facts.get("token", ""), session, since)
        if root is not None and root.start == since:
            # The shim last: as long as it lives, it keeps sight of the others.
            alive = tree.below(shim, seen) or [root]
        if not alive or time.monotonic() > until:
            break
        for one in alive:
            sent.add(one.name)
            tree.send(one, signal.SIGKILL)
        time.sleep(0.002)
    unreachable = {one.pid for one in alive}
    killed = {pid for pid, _ in sent} - unreachable - {shim, os.getpid()}
    return Leftover(facts.get("label", ""), tuple(sorted(killed)), tuple(sorted(unreachable)))
