"""A terminal for tests: a program on a real pty, and the screen that a person would see.

It understands what the program under test writes and nothing more; a sequence that it does not know
is an error, so the test says so when the program starts to write others.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path

from wcwidth import wcwidth

_CSI = re.compile(r"\x1b\[([?0-9;]*)([ ]?[A-Za-z])")
_INCOMPLETE = re.compile(r"\x1b(\[[?0-9; ]*)?$")


class Screen:
    """The grid of one terminal, and all that scrolled off its top."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.above: list[str] = []
        self.bells = 0
        self._grid = [[" "] * columns for _ in range(rows)]
        self._x = self._y = 0
        self._rest = ""

    @property
    def lines(self) -> list[str]:
        """Everything that can be seen or scrolled back to, without the blank end."""
        lines = [*self.above, *("".join(row).rstrip() for row in self._grid)]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def feed(self, data: str) -> None:
        data, self._rest = self._rest + data, ""
        position = 0
        while position < len(data):
            if data[position] == "\x1b":
                if _INCOMPLETE.match(data, position):
                    self._rest = data[position:]
                    return
                sequence = _CSI.match(data, position)
                assert sequence, f"unknown escape sequence {data[position : position + 12]!r}"
                self._command(sequence[2], sequence[1])
                position = sequence.end()
            else:
                self._put(data[position])
                position += 1

    def _put(self, character: str) -> None:
        if character == "\n":
            self._down()
        elif character == "\r":
            self._x = 0
        elif character == "\b":
            self._x = max(min(self._x, self.columns - 1) - 1, 0)
        elif character == "\x07":
            self.bells += 1
        else:
            assert character >= " ", f"control character {character!r}"
            width = wcwidth(character)
            if self._x + width > self.columns:
                self._x = 0
                self._down()
            if width:
                self._grid[self._y][self._x] = character
                self._grid[self._y][self._x + 1 : self._x + width] = [""] * (width - 1)
            self._x += width

    def _down(self) -> None:
        self._y += 1
        if self._y == self.rows:
            self._y -= 1
            self.above.append("".join(self._grid.pop(0)).rstrip())
            self._grid.append([" "] * self.columns)

    def _command(self, name: str, arguments: str) -> None:
        amount = int(arguments) if arguments.isdecimal() else 1
        self._x = min(self._x, self.columns - 1) if name in "ABCD" else self._x
        if name == "A":
            self._y = max(self._y - amount, 0)
        elif name == "B":
            self._y = min(self._y + amount, self.rows - 1)
        elif name == "C":
            self._x = min(self._x + amount, self.columns - 1)
        elif name == "D":
            self._x = max(self._x - amount, 0)
        elif name in "JK" and arguments in ("", "0"):
            self._grid[self._y][self._x :] = [" "] * (self.columns - self._x)
            if name == "J":
                for row in range(self._y + 1, self.rows):
                    self._grid[row] = [" "] * self.columns
        else:
            assert name in ("m", "h", "l", " q"), f"unknown command {name!r} {arguments!r}"


class VirtualTerminal:
    """`program` on a pty of this size, in the folder `cwd`."""

    def __init__(self, program: list[str], cwd: Path, columns: int = 80, rows: int = 24) -> None:
        self.screen = Screen(columns, rows)
        self.raw = ""
        self._master, slave = pty.openpty()
        self._slave = slave
        self._size(columns, rows)
        self.before = termios.tcgetattr(slave)
        environment = {**os.environ, "TERM": "xterm-256color", "PYTHONWARNINGS": "error"}
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            program,
            stdin=slave,
            stdout=slave,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment,
            start_new_session=True,
        )

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, seen: Callable[[Screen], object], seconds: float = 20) -> Screen:
        """Read until `seen` holds; fails with the screen as it is when it does not in time."""
        deadline = time.monotonic() + seconds
        while not seen(self.screen):
            assert time.monotonic() < deadline, f"not seen in {seconds} s; the screen:\n{self.screen.text}"
            self._read(0.05)
        return self.screen

    def until_shown(self, text: str) -> Screen:
        return self.until(lambda screen: text in screen.text)

    def ended(self) -> int:
        """Wait for the end of the program; gives its exit code. Its stderr must be empty."""
        self.until(lambda _: self.process.poll() is not None)
        while self._read(0):
            pass
        assert self.process.stderr is not None
        error = self.process.stderr.read().decode()
        assert error == ""
        return self.process.wait()

    def resize(self, columns: int, rows: int) -> None:
        self.screen = Screen(columns, rows)
        self._size(columns, rows)
        os.kill(self.process.pid, signal.SIGWINCH)

    def attributes(self) -> list[object]:
        """The modes of the line, as `stty` would show them."""
        return list(termios.tcgetattr(self._slave))

    def hang_up(self) -> tuple[int, str]:
        """Take the terminal away; gives exit code and stderr of the program."""
        os.close(self._master)
        os.close(self._slave)
        self._master = self._slave = -1
        _, error = self.process.communicate(timeout=20)
        return self.process.returncode, error.decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()
        for end in (self._master, self._slave):
            if end >= 0:
                os.close(end)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        data = os.read(self._master, 1 << 16).decode("utf-8", "surrogateescape")
        self.raw += data
        self.screen.feed(data)
        return True

    def _size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
