"""`hermes plugins` on a terminal: it asks, it shows what it is at, and Ctrl+C ends it."""

from __future__ import annotations

from pathlib import Path

import pexpect
import pytest

from .test_interrupted import project, until
from .world import World, wheel

pytestmark = pytest.mark.slow


def terminal(world: World, *words: str) -> pexpect.spawn[str]:
    command, *arguments = world.words(*words)
    return pexpect.spawn(
        command, arguments, cwd=str(world.folder), env=world.environ(), encoding="utf-8", timeout=60
    )


def end(child: pexpect.spawn[str]) -> int:
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus is not None
    return child.exitstatus


@pytest.mark.parametrize(
    ("typed", "code", "says"),
    [
        ("y", 0, "greet is enabled"),
        ("n", 1, "greet stays off"),
        ("", 1, "greet stays off"),
        ("\x04", 1, "greet stays"),
    ],
    ids=["yes", "no", "Enter", "end of input"],
)
def test_p4_enabling_asks_and_only_yes_is_yes(
    world: World, tmp_path: Path, typed: str, code: int, says: str
) -> None:
    world.hermes("plugins", "install", str(wheel(tmp_path, "hermes-greet", plugin="greet")))
    child = terminal(world, "plugins", "enable", "greet")
    child.expect_exact("commands: greet")
    child.expect_exact("Enable greet? [y/N] ")
    child.send(typed if typed == "\x04" else f"{typed}\r")
    child.expect_exact(says)
    assert end(child) == code
    assert (world.folder / "data/plugins.toml").exists() == (code == 0)


def test_on_a_terminal_it_shows_what_pip_is_at_and_ctrl_c_leaves_everything_as_it_was(
    world: World, tmp_path: Path
) -> None:
    folder = project(tmp_path / "greet")
    (folder / "wait").touch()
    child = terminal(world, "plugins", "install", str(folder))
    child.expect_exact("Getting greet")
    child.expect(r"\r\x1b\[2K  \d+ s  Processing ")
    until((folder / "building").exists)
    child.sendintr()
    assert end(child) == 130
    assert world.installed() == {}
    (folder / "wait").unlink()
    assert world.hermes("plugins", "install", str(folder)).code == 0
