"""What lives below a process, and signals that reach exactly that.

Shared by the runtime and by the shim, which is started without site-packages and imports this file
alone: so nothing here but light parts of the standard library. A process is named by its pid *and*
its start time, because pids are used again. Zombies are not alive: they hold nothing and need only
their parent to look at them.

Where there is no `/proc` (`VISIBLE` is False) nothing can be found and callers fall back on the
process group.
"""

from __future__ import annotations

import os
import signal

__all__ = [
    "VISIBLE",
    "Seen",
    "below",
    "boot",
    "environment",
    "look",
    "look_at",
    "send",
    "signal_below",
    "start_of",
    "strays",
]

VISIBLE = os.path.exists("/proc/self/stat")  # noqa: PTH110 - pathlib would double the start of the shim
_LISTED = os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # noqa: PTH110 - see above; a kernel option
ROUNDS = 8  # passes over /proc for one signal; processes that fork while we look are caught by the next pass


class Seen:
    """One living process, as `/proc/PID/stat` showed it."""

    __slots__ = ("group", "parent", "pid", "session", "start", "state")

    def __init__(self, pid: int, fields: list[bytes]) -> None:
        self.pid = pid
        self.state = fields[0].decode()
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.start = int(fields[19])  # clock ticks since boot

    @property
    def name(self) -> tuple[int, int]:
        """What tells it from a later process with the same pid."""
        return self.pid, self.start


def _read(path: str) -> bytes:
    """The first bytes of a file of `/proc`, empty where the process is gone or not ours to look at."""
    try:
        opened = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        chunks = []
        while chunk := os.read(opened, 65536):
            chunks.append(chunk)
        return b"".join(chunks)
    except OSError:
        return b""
    finally:
        os.close(opened)


def _seen(pid: int) -> Seen | None:
    text = _read(f"/proc/{pid}/stat")
    # The command's name stands in parentheses and may itself hold any character.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20 or fields[0] in b"ZX":
        return None
    return Seen(pid, fields)


def look_at(pid: int) -> Seen | None:
    """One living process."""
    return _seen(pid) if VISIBLE else None


def start_of(pid: int) -> int | None:
    """The start time of a living process, None for a zombie or none at all."""
    seen = _seen(pid) if VISIBLE else None
    return seen.start if seen else None


def boot() -> str:
    """What names this boot of the machine: start times of another one mean nothing."""
    return _read("/proc/sys/kernel/random/boot_id").decode().strip()


def environment(pid: int, name: bytes) -> bytes | None:
    """The value that a process was started with for a variable; None where it had none or is not ours."""
    for entry in _read(f"/proc/{pid}/environ").split(b"\0"):
        key, _, value = entry.partition(b"=")
        if key == name:
            return value
    return None


def look() -> dict[int, Seen]:
    """Every living process of the machine, about 10 microseconds for each."""
    found: dict[int, Seen] = {}
    if VISIBLE:
        for name in os.listdir("/proc"):  # noqa: PTH208 - see above
            if name.isdigit():
                one = _seen(int(name))
                if one:
                    found[one.pid] = one
    return found


def below(root: int, seen: dict[int, Seen] | None = None) -> list[Seen]:
    """The living descendants of `root`, parents before their children; without `root` itself.

    When `root` is a child subreaper these are all that ever came from it, also after a double fork.
    What forks or loses its parent while we look may be missed: look again until nothing new is found.
    Without `seen` the time depends on the size of this tree only, not on all that the machine runs.
    """
    if seen is None and _LISTED:
        return _below_by_lists(root)
    children: dict[int, list[Seen]] = {}
    for one in (look() if seen is None else seen).values():
        children.setdefault(one.parent, []).append(one)
    found = list(children.get(root, ()))
    for one in found:  # grows while it is walked
        found.extend(children.get(one.pid, ()))
    return found


def _below_by_lists(root: int) -> list[Seen]:
    found: list[Seen] = []
    pids = [root]
    for pid in pids:  # grows while it is walked
        try:
            threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - see above
        except OSError:
            continue
        for thread in threads:
            for child in map(int, _read(f"/proc/{pid}/task/{thread}/children").split()):
                one = _seen(child)
                if one:
                    found.append(one)
                    pids.append(child)
    return found


def strays(token: str, session: int | None, since: int) -> list[Seen]:
    """What is left of a tree whose shim is gone: found by session, or by the token in the environment.

    `since` is the start time of the shim: nothing older can belong to it. A process that left the
    session *and* emptied its environment is not found.
    """
    return [
        one
        for one in look().values()
        if one.start >= since
        and one.pid != os.getpid()
        and (one.session == session or environment(one.pid, b"HERMES_PROCESS") == token.encode())
    ]


def send(one: Seen, number: int) -> bool:
    """Signal this very process; False where it lives and we may not. One that is gone is no failure."""
    try:
        handle = os.pidfd_open(one.pid)
    except (AttributeError, OSError):
        return _send_by_pid(one, number)
    try:
        # The handle holds the pid: if the start time still fits now, the signal cannot hit another.
        if start_of(one.pid) == one.start:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        pass
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _send_by_pid(one: Seen, number: int) -> bool:
    try:
        if start_of(one.pid) == one.start:
            os.kill(one.pid, number)
    except ProcessLookupError:
        pass
    except OSError:
        return False
    return True


def signal_below(root: int, number: int, sent: set[tuple[int, int]]) -> None:
    """Signal all descendants of `root` that are not in `sent`, until a look finds no new one.

    A stopped process is continued as well, so that it can act on the signal.
    """
    for _ in range(ROUNDS):
        fresh = [one for one in below(root) if one.name not in sent]
        if not fresh:
            return
        for one in fresh:
            sent.add(one.name)
            send(one, number)
            if one.state in "Tt" and number != signal.SIGKILL:
                send(one, signal.SIGCONT)
