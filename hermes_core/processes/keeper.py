"""The keeper: a shim that outlives the runtime, for one command that is a job.

Started as `python -I -S keeper.py RECORD OUTPUT LIMIT KILL_AFTER DEADLINE LABEL TOKEN SECRETS COMMAND …`.

Theory of operation. Like the shim it is a child subreaper and ends when nothing of its tree is left.
Unlike it, it has no line to the runtime: whoever runs the runtime later finds it by RECORD, waits for
the end of this process, and then reads in RECORD how the command ended.

RECORD is claimed before the command is started, by linking a finished file to that name, which fails
where the name is taken. A runtime that finds no record claims the name itself; a keeper that was
started and had not come so far then starts nothing. So a command is started once, or certainly not.

DEADLINE (seconds since 1970) is kept here, so it holds also while no runtime runs. SIGTERM asks for
the end: SIGTERM to the whole tree, SIGKILL after KILL_AFTER seconds. The record says what came first:
`stopped` is there only where the request was obeyed before the command had exited. OUTPUT takes at
most LIMIT bytes of stdout and stderr (see `spool`), without what the descriptor SECRETS names, a zero byte
between two (see `veil`); it is read before the command begins, which never has it.

Facts of the record: `boot`, `shim PID START`, `leader PID START`, `token`, `label`, `keep`; at the end
`exit CODE` or `failed ERRNO`, `stopped request|deadline`, `cut BYTES`, `ended TIME`, `end`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hermes_core import veil
    from hermes_core.processes import shim, spool
else:
    sys.path.append(os.path.dirname(__file__))  # noqa: PTH120 - pathlib would double the start
    import shim
    import spool

__all__ = ["main"]

CHUNK = 65536
ROUNDS = 64  # chunks that are taken from the pipe when all is over: something outside may hold it open
PAUSE = 0.001  # seconds between two chunks of a flood: what is not kept must not fill our time
PATIENCE = 10.0  # seconds in which a full disk may come to take the final record
_NEVER = float("inf")


class Keeper(shim.Shim):
    """One command from its start to the end of its tree, whether or not a runtime lives."""

    def __init__(
        self,
        record: str,
        output: str,
        limit: int,
        kill_after: float,
        label: str,
        token: str,
        secrets: bytes,
        command: list[str],
    ) -> None:
        super().__init__(record, -1, label, token, command)
        self.secrets = secrets
        self.line = None
        self.facts["keep"] = "yes"
        self.kill_after = kill_after
        self.output = output
        self.limit = limit
        self.deadline_at = _NEVER
        self.spool: spool.Spool
        self.veil: veil.ByteVeil
        self.pipe: int | None = None

    def run_until(self, deadline: float) -> None:
        """All of it; nothing where somebody else has the record."""
        if not self.claim():
            return
        if deadline > 0:
            self.deadline_at = time.monotonic() + deadline - time.time()
        try:
            self.spool = spool.Spool(self.output, self.limit)
        except OSError as error:
            self.facts["failed"] = str(error.errno)
        else:
            self.pipe, far = os.pipe()
            os.set_blocking(self.pipe, False)
            os.dup2(far, 1)
            os.dup2(far, 2)
            os.close(far)
            started = self.start()
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)  # from here on only the command has the pipe
            os.close(null)
            self.veil = _veil(self.secrets)
            if started:
                self.watch()
            self.read(ROUNDS)
            self.spool.add(self.veil.rest())
            self.spool.close()
            self.facts["cut"] = str(self.spool.cut)
        self.facts["ended"] = repr(time.time())
        self.facts["end"] = "yes"
        self.write_last()

    def claim(self) -> bool:
        """Take the record's name, once for ever; without a disk that can take it nothing is started."""
        draft = f"{self.record}.{os.getpid()}"
        try:
            with open(draft, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - see the shim
                file.write("".join(f"{key} {value}\n" for key, value in self.facts.items()))
            os.link(draft, self.record)
        except OSError:
            return False
        finally:
            self.forget(draft)
        return True

    def forget(self, draft: str) -> None:
        """Take the draft away, where there is one."""
        try:
            os.unlink(draft)  # noqa: PTH108 - see the shim
        except OSError:
            return

    def tell(self, word: str) -> bool:
        """There is nobody to tell; what matters stands in the record."""
        name, _, value = word.partition(" ")
        if name == "failed":
            self.facts["failed"] = value
        return True

    def watch(self) -> None:
        """Reap, keep the output, and end what is to be ended, until there are no children."""
        assert self.pipe is not None
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        poll.register(self.pipe, select.POLLIN)
        while self.reap():
            now = time.monotonic()
            if now >= self.deadline_at:
                self.stop("deadline")
            at = self.linger_at if self.until_at == _NEVER else self.until_at
            if now >= at:
                self.signal(signal.SIGKILL, set())
                at = now + self.again
                self.again = min(2 * self.again, shim.SELDOM)
            wait = min(at, self.deadline_at)
            events = poll.poll(None if wait == _NEVER else max(0.0, wait - now) * 1000 + 1)
            for ready, _ in events:
                if ready == self.wake:
                    if signal.SIGTERM in os.read(self.wake, 4096):
                        self.stop("request")
                elif not self.read(1):
                    poll.unregister(ready)
                elif self.spool.overflowing:
                    time.sleep(PAUSE)

    def stop(self, why: str) -> None:
        """Begin to end the tree; the first reason stands, and none once the command has exited."""
        self.deadline_at = _NEVER
        self.until_at = min(self.until_at, time.monotonic() + self.kill_after)
        # What exited a moment ago was not stopped, also if nobody has looked at it yet.
        if self.termed is None and self.reap() and not self.exited:
            self.facts["stopped"] = why
            self.write_record()
            self.obey(["term"])

    def read(self, rounds: int) -> bool:
        """Take what the command wrote; False when nobody has the pipe open any more."""
        assert self.pipe is not None
        for _ in range(rounds):
            try:
                data = os.read(self.pipe, CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.spool.add(self.veil.feed(data))
        return True

    def write_last(self) -> None:
        """The final record is all that tells of the end: a full disk is waited for."""
        until = time.monotonic() + PATIENCE
        while not self.write_record() and time.monotonic() < until:
            time.sleep(0.1)


def _veil(secrets: bytes) -> veil.ByteVeil:
    """Loaded when the command runs already: it reads what that takes no longer than it takes to write something."""
    if not TYPE_CHECKING:
        sys.path.append(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120 - as above
        import veil
    return veil.ByteVeil(one.decode("utf-8", "replace") for one in secrets.split(b"\0") if one)


def _read(number: int) -> bytes:
    """All that a descriptor gives; it is closed."""
    with os.fdopen(number, "rb") as file:
        return file.read()


def main(arguments: list[str]) -> None:
    """Keep one command, and leave at once."""
    record, output, limit, kill_after, deadline, label, token, number, *command = arguments
    secrets = _read(int(number))
    keeper = Keeper(record, output, int(limit), float(kill_after), label, token, secrets, command)
    shim.prepare()  # a signal before this ends us, and nothing was claimed; one after it is in the wake-up pipe
    keeper.run_until(float(deadline))
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
