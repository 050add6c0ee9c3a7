"""What `hermes plugins new` and `hermes adapters new` write is as good as ours, and works at once (P5)."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hermes_core.errors import PackageError
from hermes_core.packages.scaffold import OURS, scaffold

from .world import World

ROOT = Path(__file__).parents[2]


def call(*words: str, cwd: Path, **environ: str) -> str:
    """Run a program of this environment, and give what it said; it has to succeed."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=cwd,
        env={**os.environ, "PYTEST_ADDOPTS": "-p no:simcord -p no:cacheprovider", **environ},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["abc", "zoo-keeper"])
@pytest.mark.parametrize("kind", ["plugin", "adapter"])
def test_what_is_written_has_no_placeholder_left_and_our_form(tmp_path: Path, kind: str, name: str) -> None:
    folder = scaffold(kind, name, tmp_path)
    plain = name.replace("-", "_")
    assert folder == tmp_path / plain
    for file in folder.rglob("*"):
        if file.is_file():
            assert "zz" not in file.read_text(encoding="utf-8").lower(), file
            assert "zz" not in file.name
    assert [one.name for one in tmp_path.iterdir()] == [plain], "nothing else is left there"
    settings = ("--config", str(ROOT / "pyproject.toml"))
    call("ruff", "format", "--check", "--quiet", *settings, ".", cwd=folder)
    ours = f"lint.isort.known-first-party=['hermes_core','hermes_{plain}']"
    call("ruff", "check", "--quiet", *settings, "--config", ours, ".", cwd=folder)
    call("ruff", "check", "--quiet", ".", cwd=folder)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plugin", "adapter"])
def test_what_is_written_has_strict_types(tmp_path: Path, kind: str) -> None:
    folder = scaffold(kind, "weather", tmp_path)
    paths = os.pathsep.join(map(str, (folder, folder / "tests")))
    settings = ("--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path / "cache"))
    call("mypy", *settings, "hermes_weather", "tests", cwd=folder, MYPYPATH=paths)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "passed"), [("plugin", 14), ("adapter", 57)])
def test_what_is_written_passes_its_own_tests_and_the_kit(tmp_path: Path, kind: str, passed: int) -> None:
    folder = scaffold(kind, "weather", tmp_path)
    said = call("pytest", "-q", cwd=folder).splitlines()[-1]
    count = int(said.split(" passed")[0])
    assert count >= passed, said
    assert "skipped" not in said
    assert call("hermes_core", "plugins", "check", ".", cwd=folder) == "weather: all is well\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (
            "except StoreUnwritable:\n",
            "except StoreUnwritable:\n                    break\n",
            "test_what_could_not_be_kept_comes_again",
        ),
        (
            "client = await Client.connect(",
            "gateway.ready()\n                client = await Client.connect(",
            "test_it_is_ready_when_it_is_connected_and_not_before",
        ),
        (
            "raise ConfigError(",
            "raise SendError(",
            "test_a_refused_token_is_a_fault_of_the_config_and_not_tried_again",
        ),
        ('f"{outgoing.key}/{number}"', 'f"{id(object())}/{number}"', "test_once_holds_also_after_a_restart"),
    ],
    ids=["acknowledged too early", "ready too early", "a token tried again", "another key each time"],
)
def test_the_suite_finds_what_is_broken_in_a_new_adapter(
    tmp_path: Path, old: str, new: str, found: str
) -> None:
    folder = scaffold("adapter", "pigeon", tmp_path)
    file = folder / "hermes_pigeon/adapter.py"
    code = file.read_text()
    assert code.count(old) == 1
    file.write_text(code.replace(old, new))
    call_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:simcord", "-p", "no:cacheprovider", "-k", found]
    done = subprocess.run(call_, cwd=folder, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 1, done.stdout
    assert f"FAILED tests/test_contract.py::TestPigeon::{found}" in done.stdout


@pytest.mark.slow
def test_a_new_plugin_is_installed_enabled_and_answers(world: World) -> None:
    made = world.hermes("plugins", "new", "weather", "--into", "mine")
    assert made.code == 0, made.err
    assert "mine/weather/hermes_weather/plugin.py" in made.out.splitlines()
    done = world.hermes("plugins", "install", "mine/weather", PIP_NO_BUILD_ISOLATION="0")
    assert done.code == 0, done.err
    enabled = world.hermes("plugins", "enable", "weather", "--yes")
    assert enabled.out.splitlines() == [
        "weather 0.1.0 registers:",
        "    commands: weather",
        "    tools: weather_words",
        "    async tools: start_weather_countdown",
        "    hooks: hermes_async_tools, hermes_commands, hermes_tools, hermes_turn_ended",
        "weather is enabled, from the next start on.",
    ]
    said = world.hermes("chat", typed="count to 2\n/weather Ada\n", HERMES__PLUGINS__DEMO__PACE="0")
    assert said.out.splitlines()[-1] == "Hello, Ada! Turns so far: 1."


@pytest.mark.slow
def test_a_new_adapter_is_installed_enabled_and_listed(world: World) -> None:
    assert world.hermes("adapters", "new", "pigeon", "--into", "mine").code == 0
    done = world.hermes("plugins", "install", "mine/pigeon", PIP_NO_BUILD_ISOLATION="0")
    assert done.code == 0, done.err
    assert "    adapters: pigeon" in world.hermes("plugins", "enable", "pigeon", "--yes").out.splitlines()
    assert world.hermes("plugins", "check", "pigeon").out == "pigeon: all is well\n"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a",
        "Greet",
        "1st",
        "class",
        "a b",
        "../x",
        "x" * 31,
        "busy",
        "core",
        "ü",
        "telegram",
        "help",
        "stop",
    ],
)
def test_a_name_that_cannot_be_one_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(PackageError):
        scaffold("plugin", name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_taken_are_called_so(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match=r"'help' is the name of a command .* of the plugin basics"):
        scaffold("plugin", "help", tmp_path)
    with pytest.raises(PackageError, match="'telegram' is the name of a package that comes with Hermes"):
        scaffold("adapter", "telegram", tmp_path)
    with pytest.raises(PackageError, match="cannot be the name of an adapter"):
        scaffold("adapter", "Pigeon", tmp_path)
    assert scaffold("adapter", "stop", tmp_path).name == "stop", "an adapter brings no command"


def test_the_names_of_ours_are_known(tmp_path: Path) -> None:
    folders = [
        file.parent.name for kind in ("plugins", "adapters") for file in ROOT.glob(f"{kind}/*/pyproject.toml")
    ]
    assert sorted(folders) == sorted(OURS)


def test_what_is_there_already_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "weather").mkdir()
    (tmp_path / "weather/mine.txt").write_text("mine")
    with pytest.raises(PackageError, match="this is there already"):
        scaffold("plugin", "weather", tmp_path)
    assert [one.name for one in (tmp_path / "weather").iterdir()] == ["mine.txt"]
    (tmp_path / "file").write_text("")
    with pytest.raises(PackageError, match="it cannot be written: "):
        scaffold("plugin", "weather", tmp_path / "file")


@pytest.mark.slow
def test_the_templates_are_in_the_wheel_of_hermes(tmp_path: Path) -> None:
    words = ("wheel", "--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(tmp_path), str(ROOT))
    call("pip", *words, cwd=tmp_path)
    (made,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(made).namelist())
    templates = ROOT / "hermes_core/packages/templates"
    for file in templates.rglob("*.txt"):
        assert file.relative_to(ROOT).as_posix() in names
