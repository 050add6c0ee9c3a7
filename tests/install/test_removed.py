"""Removals that are cut off: whatever was done by then, the next call brings them to their end (P4)."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from .world import World, wheel

FILES = {"greeting/__init__.py": "", "greeting/words/__init__.py": "", "greeting/words/some.txt": "hello\n"}
CUT = "The removal of hermes-greet was cut off. To finish it: hermes plugins remove greet"


class Copy:
    """The environment and the data folder as they are now, to go back to."""

    def __init__(self, world: World, folder: Path) -> None:
        self._pairs = [
            (world.site, folder / "site"),
            (world.folder / "data", folder / "data"),
            (world.venv / ".hermes-install", folder / "journal"),
        ]
        for real, kept in self._pairs:
            shutil.copytree(real, kept, symlinks=True)

    def back(self) -> None:
        for real, kept in self._pairs:
            shutil.rmtree(real)
            shutil.copytree(kept, real, symlinks=True)


@pytest.fixture
def greet(world: World, tmp_path: Path) -> Copy:
    """An environment with a plugin that is installed and enabled, and with what kills."""
    (world.site / "killer.pth").write_text(
        "import os, runpy; os.environ.get('KILL_AT') and runpy.run_path(os.environ['KILLER'])\n"
    )
    made = wheel(tmp_path, "hermes-greet", plugin="greet", more=FILES)
    assert world.hermes("plugins", "install", str(made)).code == 0
    assert world.hermes("plugins", "enable", "greet", "--yes").code == 0
    return Copy(world, tmp_path / "kept")


def killed(world: World, tmp_path: Path, number: int, *words: str) -> bool:
    """Call `hermes` until its `number`-th change of the environment; False where it came to its end before."""
    killer = shutil.copy(Path(__file__).with_name("killer.py"), tmp_path)
    Path(killer).with_suffix(".count").unlink(missing_ok=True)
    done = world.hermes(*words, KILL_AT=f"{world.venv}:{number}", KILLER=str(killer))
    assert done.code in (0, -9), done.err
    return done.code != 0


def traces(world: World) -> set[str]:
    """What is left of the plugin: in the environment, and of what was approved."""
    left = {str(one.relative_to(world.site)) for one in world.site.rglob("*") if "pycache" not in str(one)}
    approved = (world.folder / "data/plugins.toml").read_text()
    return left - {"outer.pth", "killer.pth"} | ({"approved"} if "greet" in approved else set())


@pytest.mark.slow
def test_p4_a_removal_that_was_killed_at_any_step_is_finished_by_the_next(
    world: World, tmp_path: Path, greet: Copy
) -> None:
    begun = 0
    for number in itertools.count(1):
        greet.back()
        if not killed(world, tmp_path, number, "plugins", "remove", "greet"):
            break
        listed = world.hermes("plugins", "list")
        assert listed.code == 0
        cut = (world.venv / ".hermes-install/journal.json").exists()
        assert (CUT in listed.err) == cut
        if cut or traces(world):
            begun += cut
            done = world.hermes("plugins", "remove", "greet")
            assert (done.code, done.out) == (
                0,
                "hermes-greet is removed. What it needed is still installed.\n",
            )
        assert traces(world) == set(), number
        assert not (world.venv / ".hermes-install/journal.json").exists()
        assert "cut off" not in world.hermes("plugins", "list").err
    assert traces(world) == set()
    assert begun > 4  # the journal, and the places from which pip takes something away


@pytest.mark.slow
def test_p4_an_update_that_was_killed_at_any_step_leaves_nothing_of_the_version_before(
    world: World, tmp_path: Path, greet: Copy
) -> None:
    later = str(wheel(tmp_path, "hermes-greet", "2.0", plugin="greet", more={"greeting/__init__.py": ""}))
    assert world.hermes("plugins", "install", later).code == 0
    wanted = traces(world)
    begun = 0
    for number in itertools.count(1):
        greet.back()
        if not killed(world, tmp_path, number, "plugins", "install", later):
            break
        begun += (world.venv / ".hermes-install/journal.json").exists()
        assert world.hermes("plugins", "install", later).code == 0
        assert traces(world) == wanted, number
    assert begun > 4


@pytest.mark.slow
def test_p4_an_installation_finishes_a_removal_that_was_killed_and_the_plugin_comes_back_unapproved(
    world: World, tmp_path: Path, greet: Copy
) -> None:
    assert killed(world, tmp_path, 4, "plugins", "remove", "greet")
    other = world.hermes("plugins", "install", str(wheel(tmp_path, "hermes-two", plugin="two")))
    assert other.code == 0, other.err
    assert "Finished the removal of hermes-greet, which had been cut off." in other.err.splitlines()
    assert world.installed() == {"hermes_two": "1.0"}
    again = world.hermes("plugins", "install", str(tmp_path / "hermes_greet-1.0-py3-none-any.whl"))
    assert "It is not enabled." in again.out


@pytest.mark.slow
def test_p4_where_pip_refuses_a_removal_the_plugin_stays_as_it_was(world: World, greet: Copy) -> None:
    (world.site / "hermes_greet-1.0.dist-info" / "RECORD").unlink()
    before = traces(world)
    done = world.hermes("plugins", "remove", "greet")
    assert done.code == 1
    assert done.err.splitlines()[-1] == "Nothing was changed."
    assert traces(world) == before
    assert not (world.venv / ".hermes-install/journal.json").exists()
    assert world.hermes("chat", typed="/greet\n").out == "hello\n"
