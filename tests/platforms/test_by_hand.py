"""The fakes by hand: what the page says one can type is answered, by `hermes run` as it is started there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes_core.errors import HermesError
from hermes_core.testing.platforms.hands import Line, read

PAGE = Path(__file__).parents[2] / "docs/how-to/try-it-by-hand.md"
NAMES = ("telegram", "slack", "discord")


class Fakes:
    """The program, with what it printed so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.printed = ""

    def type(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())

    async def prints(self, pattern: str, seconds: float = 40.0) -> re.Match[str]:
        """Read on until the pattern is there."""
        assert self.process.stdout is not None
        async with asyncio.timeout(seconds):
            while not (found := re.search(pattern, self.printed, re.MULTILINE)):
                more = await self.process.stdout.read(4096)
                assert more, f"it ended, and printed:\n{self.printed}"
                self.printed += more.decode(errors="replace")
        return found


@contextlib.asynccontextmanager
async def started(folder: Path, *names: str) -> AsyncIterator[Fakes]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hermes_core.testing.platforms", "--folder", str(folder), *names),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Fakes(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def served(line: str) -> AsyncIterator[None]:
    """Hermes, by the line that was printed."""
    words = shlex.split(line)
    tokens = dict(word.split("=", 1) for word in words[: words.index("hermes")])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hermes_core", *words[words.index("hermes") + 1 :]),
        env={**os.environ, **tokens, "HERMES__PLUGINS__DEMO__PACE": "0"},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        async with asyncio.timeout(20):
            await process.wait()


async def test_what_the_page_types_on_three_platforms_is_answered_there(tmp_path: Path) -> None:
    found = re.search(r"^```text\n(.+?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    async with started(tmp_path / "by hand") as fakes:
        line = (await fakes.prints(r"^  (\w+=.+hermes run .+)$"))[1]
        async with served(line):
            await fakes.prints("Ctrl")
            # Discord tells only those who are connected, and has one of each person and room
            while not re.search(r"^discord: Hello", fakes.printed, re.MULTILINE):
                fakes.type("discord hello\n")
                with contextlib.suppress(TimeoutError):
                    await fakes.prints(r"^discord: Hello", 2.0)
            fakes.type(found[1])
            for where, says in (
                ("telegram", "Hello"),
                ("slack", "Hello"),
                ("telegram to bob", "I do not know you yet"),
                ("discord/room", "Hello"),
                (r"slack.*", ".*Now: "),
            ):
                await fakes.prints(rf"^{where}(?: \(changed\))?: {says}")
        assert fakes.process.stdin is not None
        fakes.process.stdin.close()
        async with asyncio.timeout(20):
            assert await fakes.process.wait() == 0


async def test_what_cannot_be_typed_is_said_and_the_fakes_go_on(tmp_path: Path) -> None:
    async with started(tmp_path, "telegram") as fakes:
        fakes.type("slack hello\n\ntelegram\n")
        await fakes.prints(r"^hermes: 'slack' is no place .* the platform telegram\.$")
        await fakes.prints(r"^hermes: There is nothing to write\. Type telegram TEXT$")
    async with started(tmp_path, "teams") as fakes:
        await fakes.prints(r"^hermes: There is no fake of 'teams'\. There are: telegram, slack, discord\.$")
        assert await fakes.process.wait() == 2


@pytest.mark.parametrize(
    ("typed", "means"),
    [
        ("telegram hello", Line("telegram", "ann", False, "hello")),
        (" bob@slack/room  a  b \n", Line("slack", "bob", True, "a  b")),
        ("discord write to ann@slack", Line("discord", "ann", False, "write to ann@slack")),
    ],
)
def test_a_line_says_who_writes_where(typed: str, means: Line) -> None:
    assert read(typed, NAMES) == means


@pytest.mark.parametrize(
    "typed", ["teams hello", "eve@slack hello", "@slack x", "slack/den x", "slack/ x", "slack  "]
)
def test_a_line_that_fits_nowhere_is_refused(typed: str) -> None:
    with pytest.raises(HermesError):
        read(typed, NAMES)
