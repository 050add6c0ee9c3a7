"""The shim: the process between the runtime and one command, which loses sight of no descendant.

Started as `python -I -S shim.py RECORD LINE LABEL TOKEN COMMAND …`; it never imports the runtime.

Theory of operation. The shim is a child subreaper (Linux): whatever the command forks, sets into a
session of its own or orphans becomes the shim's child in the end. So "`waitpid` says that there are
no children" is the kernel's own word that nothing of the tree is left; no look at a list of
processes can be as sure. The shim ends at that moment and no sooner.

LINE is a socket to the runtime. The shim writes `started PID`, `failed ERRNO`, `exit CODE`
(negative: a signal), `killed` and `end`; it reads `term` (send SIGTERM to all), `termed` (the runtime did) and
`until SECONDS` (then SIGKILL to all, again and again). The end of the line means that the runtime
is dead: the tree is then ended at once. When the leader has exited, what remains gets SIGTERM (if it
had none) and `LINGER` seconds.

RECORD is a file, always replaced by rename, with one `key value` a line: `boot`, `shim PID START`,
`leader PID START`, `token`, `label`, `exit CODE`. The next run of the runtime finds there what this
one could not end (see `records`). Other than by SIGKILL the shim cannot be ended by a signal.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

TYPE_CHECKING = False  # the name alone is enough for a type checker; importing `typing` takes 5 ms
if TYPE_CHECKING:
    from hermes_core.processes import tree
else:
    sys.path.append(os.path.dirname(__file__))  # noqa: PTH120 - pathlib would double the start
    import tree

__all__ = ["Shim", "main", "prepare"]

LINGER = 0.5  # seconds that remain to descendants when their leader exits by itself
ORPHANED = 0.3  # seconds between SIGTERM and SIGKILL when the runtime is dead
AGAIN = 0.005  # seconds between the first two rounds of SIGKILL, then twice as many each time
SELDOM = 1.0  # but never more: something that not even root can end may end by itself
_NEVER = float("inf")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


class Shim:
    """One command from its start to the end of its tree."""

    def __init__(self, record: str, line: int, label: str, token: str, command: list[str]) -> None:
        self.record = record
        self.line: int | None = line
        self.token = token
        self.command = command
        self.leader: int | None = None
        self.exited = False
        self.termed: set[tuple[int, int]] | None = None  # None: no SIGTERM was sent yet
        self.linger_at = self.until_at = _NEVER
        self.again = AGAIN
        self.heard = b""
        self.facts = {"boot": tree.boot(), "shim": _name(os.getpid()), "token": token, "label": label}
        self.wake, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self.wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def run(self) -> None:
        """All of it. Returns when nothing of the tree is left."""
        self.write_record()
        # Something to hear already: a stop, or the runtime died before we were here.
        if self.line is None or select.select([self.line], [], [], 0)[0]:
            self.tell(f"exit {-signal.SIGTERM}")
        elif self.start():
            self.watch()
        if not self.tell("end"):
            self.forget_record()

    def start(self) -> bool:
        """Start the command in a session of its own, with every signal at its default."""
        if tree.VISIBLE and not tree.environment(os.getpid(), b"LC_CTYPE"):
            os.environ.pop("LC_CTYPE", None)  # our own interpreter put it there (PEP 538)
        everything = set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}
        try:
            self.leader = os.posix_spawnp(
                self.command[0], self.command, os.environ, setsid=True, setsigdef=everything, setsigmask=()
            )
        except OSError as error:
            self.tell(f"failed {error.errno}")
            return False
        self.facts["leader"] = _name(self.leader)
        self.write_record()
        self.tell(f"started {self.leader}")
        return True

    def watch(self) -> None:
        """Reap, listen and kill until there are no children."""
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        poll.register(self.line or 0, select.POLLIN)
        while self.reap():
            now = time.monotonic()
            at = self.linger_at if self.until_at == _NEVER else self.until_at
            if now >= at:
                self.tell("killed")
                self.signal(signal.SIGKILL, set())
                at = now + self.again
                self.again = min(2 * self.again, SELDOM)
            events = poll.poll(None if at == _NEVER else max(0.0, at - now) * 1000)
            for ready, _ in events:
                if ready == self.wake:
                    os.read(self.wake, 4096)
                elif not self.listen():
                    poll.unregister(ready)

    def reap(self) -> bool:
        """Take the exit of every dead child; False when there is no child left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.leader and not self.exited:
                self.exited = True
                code = os.waitstatus_to_exitcode(status)
                self.facts["exit"] = str(code)
                self.write_record()
                self.tell(f"exit {code}")
                self.linger_at = time.monotonic() + LINGER
                if self.termed is None:
                    self.termed = set()
                    self.signal(signal.SIGTERM, self.termed)

    def listen(self) -> bool:
        """Act on what the runtime says; False at the end of the line."""
        assert self.line is not None
        try:
            text = os.read(self.line, 4096)
        except OSError:
            text = b""
        if not text:
            os.close(self.line)
            self.line = None
            self.obey(["term"])
            self.until_at = min(self.until_at, time.monotonic() + ORPHANED)
            return False
        *words, self.heard = (self.heard + text).split(b"\n")
        for word in words:
            self.obey(word.decode().split())
        return True

    def obey(self, words: list[str]) -> None:
        """Carry one word of the runtime out."""
        if words[0] == "until":
            self.until_at = min(self.until_at, time.monotonic() + float(words[1]))
        elif self.termed is None:
            self.termed = set()
            if words[0] == "term":
                self.signal(signal.SIGTERM, self.termed)

    def signal(self, number: int, sent: set[tuple[int, int]]) -> None:
        """Signal all that lives below; without `/proc` the leader's group."""
        if tree.VISIBLE:
            tree.signal_below(os.getpid(), number, sent)
        elif self.leader is not None:
            try:
                os.killpg(self.leader, number)
            except OSError:
                return

    def tell(self, word: str) -> bool:
        """Say one thing to the runtime; False where it is dead."""
        if self.line is None:
            return False
        try:
            os.write(self.line, word.encode() + b"\n")
        except OSError:
            return False  # the end of the line will be read in a moment
        return True

    def write_record(self) -> bool:
        """Replace the record, so that a reader finds the old one or the new one. Without a disk we go on."""
        draft = self.record + ".new"
        text = "".join(f"{key} {value}\n" for key, value in self.facts.items())
        try:
            with open(draft, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - see above
                file.write(text)
            os.replace(draft, self.record)  # noqa: PTH105 - see above
        except OSError:
            return False
        return True

    def forget_record(self) -> None:
        """Take the record away: the runtime that would do so is dead, and there is nothing to sweep."""
        try:
            os.unlink(self.record)  # noqa: PTH108 - see above
        except OSError:
            return


def _name(pid: int) -> str:
    return f"{pid} {tree.start_of(pid) or 0}"


def _become_subreaper() -> None:
    """Let orphans below come to us. Only Linux has it; elsewhere the leader's group is all we reach."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def main(arguments: list[str]) -> None:
    """Run the shim and leave at once: the end of this process is what the runtime waits for."""
    record, line, label, token, *command = arguments
    os.set_inheritable(int(line), False)
    prepare()
    Shim(record, int(line), label, token, command).run()
    os._exit(0)


def prepare() -> None:
    """Make this process deaf to signals, except for its own wake-up, and the parent of orphans below."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)  # a handler, because SIG_IGN would be inherited
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _become_subreaper()


if __name__ == "__main__":
    main(sys.argv[1:])
