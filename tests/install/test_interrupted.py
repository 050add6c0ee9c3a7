"""Installations that are cut off, hang, meet each other or find nobody: bounded, and the old state is kept."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from .world import World, wheel

pytestmark = pytest.mark.slow

BACKEND = """
import os, pathlib, sys, time, zipfile
def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    here = pathlib.Path(__file__).parent
    (here / "building").touch()
    while (here / "wait").exists():
        time.sleep(0.02)
    made = next(here.glob("*.whl"))
    (pathlib.Path(wheel_directory) / made.name).write_bytes(made.read_bytes())
    return made.name
build_editable = build_wheel
"""
PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def project(folder: Path, version: str = "1.0") -> Path:
    """A folder that builds without a network; while it has a file `wait`, its build does not end."""
    folder.mkdir()
    (folder / "backend.py").write_text(BACKEND)
    (folder / "pyproject.toml").write_text(PROJECT)
    wheel(folder, "hermes-greet", version, plugin="greet")
    return folder


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def start(world: World, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        world.words(*words),
        cwd=world.folder,
        env=world.environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def kill(child: subprocess.Popen[str]) -> None:
    """The program and everything that it started, at once."""
    family = [*psutil.Process(child.pid).children(recursive=True), psutil.Process(child.pid)]
    for one in family:
        one.kill()
    child.communicate()


def test_killed_while_it_builds_nothing_has_changed_and_the_next_one_works(
    world: World, tmp_path: Path
) -> None:
    folder = project(tmp_path / "greet")
    (folder / "wait").touch()
    before = world.files()
    child = start(world, "plugins", "install", str(folder))
    until((folder / "building").exists)
    second = world.hermes("plugins", "install", str(wheel(tmp_path, "hermes-two", plugin="two")))
    assert (second.code, second.err.splitlines()[0]) == (
        1,
        "hermes: Another installation is going on in this environment.",
    )
    os.kill(child.pid, signal.SIGKILL)
    assert world.files() == before
    (folder / "wait").unlink()
    child.communicate()
    assert world.hermes("plugins", "install", str(folder)).code == 0
    assert world.installed() == {"hermes_greet": "1.0"}


@pytest.mark.parametrize("pause", [0.0, 0.1, 0.3])
def test_killed_while_files_are_put_in_place_it_says_so_and_the_next_call_finishes_it(
    world: World, tmp_path: Path, pause: float
) -> None:
    world.hermes("plugins", "install", str(wheel(tmp_path, "hermes-greet", plugin="greet")))
    world.hermes("plugins", "enable", "greet", "--yes")
    kept = (world.folder / "data/plugins.toml").read_bytes()
    later = wheel(tmp_path, "hermes-greet", "2.0", plugin="greet")
    child = start(world, "plugins", "install", str(later))
    until((world.venv / ".hermes-install/journal.json").exists)
    time.sleep(pause)  # somewhere in the middle, another place each time: every place must do
    kill(child)
    assert (world.folder / "data/plugins.toml").read_bytes() == kept
    if (world.venv / ".hermes-install/journal.json").exists():
        listed = world.hermes("plugins", "list")
        assert (
            f"The installation of hermes-greet was cut off. To finish it: hermes plugins install {later}"
            in listed.err
        )
    done = world.hermes("plugins", "install", str(later))
    assert done.code == 0, done.err
    assert world.installed() == {"hermes_greet": "2.0"}
    assert world.hermes("chat", typed="/greet\n").out == "hello\n"


def test_what_pip_leaves_when_it_is_killed_does_not_keep_the_next_call_from_finishing(
    world: World, tmp_path: Path
) -> None:
    world.hermes("plugins", "install", str(wheel(tmp_path, "hermes-greet", plugin="greet")))
    (world.site / "hermes_greet-1.0.dist-info" / "RECORD").unlink()
    (world.site / "~ermes_greet-0.9.dist-info").mkdir()
    staged = world.venv / ".hermes-install/wheels-abc"
    staged.mkdir()
    made = wheel(staged, "hermes-greet", "2.0", plugin="greet")
    (world.venv / ".hermes-install/journal.json").write_text(
        '{"written": "hermes-greet", "package": "hermes-greet", "version": "2.0", "names": ["hermes-greet"],'
        f' "folder": "wheels-abc", "wheels": ["{made.name}"]}}'
    )
    other = world.hermes(
        "plugins", "install", str(wheel(tmp_path, "hermes-two", plugin="two", commands=["two"]))
    )
    assert "Finished the installation of hermes-greet 2.0, which had been cut off." in other.err
    assert world.installed() == {"hermes_greet": "2.0", "hermes_two": "1.0"}
    assert "cut off" not in world.hermes("plugins", "list").err


def test_an_index_that_hangs_is_given_up_in_time(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        index = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        began = time.monotonic()
        done = world.hermes(
            "plugins", "install", "hermes-greet", "--timeout", "3s", PIP_INDEX_URL=index, PIP_NO_INDEX="0"
        )
        assert time.monotonic() - began < 30
    assert done.code == 1
    assert "hermes-greet: it took longer than 3 s and was given up; nothing was changed." in done.err
    assert world.installed() == {}


def test_without_a_network_it_says_so(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        index = f"http://127.0.0.1:{taken.getsockname()[1]}/simple"
    done = world.hermes("plugins", "install", "hermes-greet", PIP_INDEX_URL=index, PIP_NO_INDEX="0")
    assert done.code == 1
    assert "hermes-greet: the package index cannot be reached." in done.err


def test_a_build_that_fails_is_told_by_its_last_line(world: World, tmp_path: Path) -> None:
    folder = project(tmp_path / "greet")
    (folder / "backend.py").write_text("raise RuntimeError('no compiler here')\n")
    done = world.hermes("plugins", "install", str(folder))
    assert done.code == 1
    assert "greet: it cannot be built: " in done.err
    assert "no compiler here" in done.err
    assert world.installed() == {}


def test_a_git_url_and_an_editable_folder_are_installed(world: World, tmp_path: Path) -> None:
    folder = project(tmp_path / "greet")
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    done = world.hermes("plugins", "install", f"git+file://{folder}")
    assert done.code == 0, done.err
    assert world.hermes("plugins", "remove", "greet").code == 0
    edited = world.hermes("plugins", "install", "--editable", str(folder))
    assert edited.code == 0, edited.err
    assert world.installed() == {"hermes_greet": "1.0"}
    assert (
        "only a folder can be installed as editable"
        in world.hermes("plugins", "install", "-e", "hermes-greet").err
    )


def test_without_pip_in_the_environment_uv_runs_one(world: World, tmp_path: Path) -> None:
    (world.site / "nopip.pth").write_text(
        "import os, sys; os.environ.get('WITHOUT_PIP') and sys.modules.__setitem__('pip', None)\n"
    )
    programs = tmp_path / "programs"
    programs.mkdir()
    made = str(wheel(tmp_path, "hermes-greet", plugin="greet"))
    none = world.hermes("plugins", "install", made, WITHOUT_PIP="1", PATH=str(programs))
    assert none.code == 1
    assert "There is no pip in this environment, and neither pip nor uv on the PATH." in none.err
    uv = programs / "uv"
    uv.write_text(
        '#!/bin/sh\n[ "$1 $2 $3" = "tool run pip" ] || exit 9\nshift 3\nunset WITHOUT_PIP\n'
        f'exec {sys.executable} -m pip "$@"\n'
    )
    uv.chmod(0o755)
    done = world.hermes("plugins", "install", made, WITHOUT_PIP="1", PATH=f"{programs}:{os.environ['PATH']}")
    assert done.code == 0, done.err
    assert world.installed() == {"hermes_greet": "1.0"}
