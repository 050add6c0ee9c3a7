"""The kit as a pytest plugin: a test of a command is one line, and whoever does not use it does not load it (P5)."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = '''
import asyncio
import msgspec
from hermes_core.commands import Context, Rest, command
from hermes_core.hookspecs import Injection, hookimpl
from hermes_core.tools import async_tool, tool


class Settings(msgspec.Struct, frozen=True):
    greeting: str = "Hello"


class GreetPlugin:
    Settings = Settings

    def __init__(self, settings):
        self.settings = settings

    @hookimpl
    def hermes_commands(self):
        @command("greet")
        def greet(context: Context, name: Rest) -> str:
            """Greet NAME."""
            return f"{self.settings.greeting}, {name}!"
        return [greet]

    @hookimpl
    def hermes_tools(self):
        @tool
        async def add(a: int, b: int) -> int:
            """Add.

            Args:
                a: One.
                b: The other.
            """
            return a + b
        return [add]

    @hookimpl
    def hermes_async_tools(self):
        @async_tool
        async def nap(hours: float) -> str:
            """Sleep.

            Args:
                hours: How long.
            """
            await asyncio.sleep(3600 * hours)
            return "slept well"
        return [nap]
'''
TESTS = """
import asyncio
import pytest


async def test_it(hermes):
    assert await hermes("/greet Ada") == "Hello, Ada!"


@pytest.mark.hermes(config={"plugins": {"greet": {"greeting": "Hi"}}})
async def test_settings(hermes):
    assert await hermes("/greet Ada") == "Hi, Ada!"


@pytest.mark.hermes(model=["one", "two"])
async def test_the_model_says_what_it_is_told_and_then_echoes(hermes):
    assert [await hermes(text) for text in ("a", "b", "c")] == ["one", "two", "you said: c"]
    assert hermes.model.texts(0) == ["a"]


async def test_a_tool(hermes):
    assert await hermes.tool("add", a=1, b=2) == "3"
    assert "do not fit" in await hermes.tool("add", a="x")


async def test_a_job_takes_no_time(hermes):
    assert await hermes.job("nap", hours=0.4) == "slept well"


async def test_hours_take_no_time(hermes):
    await hermes.start()
    before = asyncio.get_running_loop().time()
    await asyncio.sleep(7200)
    assert asyncio.get_running_loop().time() - before >= 7200


@pytest.mark.hermes(real_time=True)
async def test_real_time(hermes):
    assert await hermes("/greet Ada") == "Hello, Ada!"
    assert asyncio.get_running_loop().time() > 0


@pytest.mark.hermes(plugins=[])
async def test_without_the_plugin(hermes):
    assert "no command /greet" in await hermes("/greet Ada")


class TestMethods:
    @pytest.mark.parametrize("name", ["Ada", "Ben"])
    async def test_it(self, hermes, name, tmp_path):
        assert await hermes(f"/greet {name}") == f"Hello, {name}!"


async def test_it_can_fail(hermes):
    assert await hermes("/greet Ada") == "Goodbye"
"""
PROJECT = """
[project]
name = "hermes-greet"
version = "0"
[project.entry-points.hermes]
greet = "greet_for_a_test:GreetPlugin"
[tool.pytest.ini_options]
addopts = "-p no:simcord -p no:cacheprovider"
filterwarnings = ["error", "ignore:'audioop' is deprecated:DeprecationWarning"]
"""


SCOPE = ("-o", "asyncio_default_fixture_loop_scope=function")


def test_the_plugin_is_installed() -> None:
    found = importlib.metadata.entry_points(group="pytest11", name="hermes")
    assert [one.value for one in found][:1] == ["hermes_core.testing.fixtures"], (
        "install it again: pip install -e ."
    )


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(("-p", "no:asyncio"), id="alone"),
        pytest.param((*SCOPE, "-o", "asyncio_mode=auto"), id="auto", marks=pytest.mark.slow),
        pytest.param((*SCOPE, "-o", "asyncio_mode=strict"), id="strict", marks=pytest.mark.slow),
    ],
)
def test_a_stranger_tests_a_plugin_where_it_stands_whatever_else_runs_coroutines(
    tmp_path: Path, mode: tuple[str, ...]
) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "greet_for_a_test.py").write_text(PLUGIN)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_greet.py").write_text(TESTS)
    said = run(tmp_path, *mode)
    assert said.splitlines()[-1].startswith("1 failed, 10 passed in "), said
    assert "AssertionError: assert 'Hello, Ada!' == 'Goodbye'" in said


def test_a_plain_function_that_leaves_it_running_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import asyncio\ndef test_it(hermes):\n    asyncio.run(hermes.start())\n"
    )
    assert "make the test a coroutine function" in run(tmp_path, "-p", "no:cacheprovider", "-p", "no:simcord")


def test_it_loads_nothing_of_hermes_until_it_is_used() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "import pytest; import hermes_core.testing.fixtures\n"
        "print(sorted(name for name in sys.modules if name.startswith(('hermes', 'msgspec', 'pluggy.hermes'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(["hermes_core", "hermes_core.testing", "hermes_core.testing.fixtures"])
