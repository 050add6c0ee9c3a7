"""A program that runs and the command line beside it, as real processes: what is wrong with plugins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .foreign import Foreign
from .test_run import Start, start, until

__all__ = ["start"]

PLUGIN = """
    class Plugin:
        @hookimpl
        def hermes_commands(self) -> list[Command]:
            @command("block", help="x")
            async def block(context: Context) -> str:
                time.sleep(1.0)
                return "done"

            return [block]
"""
OPTIONS = ("--set", "plugins.slow.enabled=true", "--set", "runtime.blocked_after=0.3")


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Foreign:
    one = Foreign(tmp_path / "installed", "slow")
    one.write(PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(one.folder))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    return one


def test_case_45_a_real_program_names_the_plugin_in_its_log_and_in_the_list_of_plugins(
    foreign: Foreign, start: Start, tmp_path: Path
) -> None:
    chat = start("chat", *OPTIONS)
    chat.type("/block")
    log = tmp_path / "data" / "hermes.log"
    until(lambda: log.exists() and "turns again" in log.read_text())
    assert "has been blocked for 0." in log.read_text()
    assert "by plugin slow, hermes_slow/__init__.py:" in log.read_text()
    listed = start("plugins", "list", "--json", *OPTIONS).end()
    problems = {one["name"]: one["problem"] for one in json.loads(listed)}
    assert problems["slow"].startswith("in the program that runs: blocked the event loop for ")
    assert [name for name, problem in problems.items() if problem] == ["slow"]
    assert "problem: in the program" in start("plugins", "list", *OPTIONS).end()
    assert "done" in chat.end()
    assert "in the program" not in start("plugins", "list", *OPTIONS).end(), "it does not run any more"


VERSION = """
    from . import helper

    class Plugin:
        @hookimpl
        def hermes_commands(self) -> list[Command]:
            @command("say", help="x")
            async def say(context: Context) -> str:
                return "WORD and " + helper.WORD

            return [say]
"""


def test_case_49_a_plugin_is_reloaded_in_the_program_that_runs_also_where_bytecode_looks_current(
    foreign: Foreign, start: Start
) -> None:
    def write(
        word: str,
    ) -> None:  # same length, same second: what was compiled looks as if it were of this text
        foreign.write(VERSION.replace("WORD", word, 1), helper=f'    WORD = "{word} of the helper"')

    write("one")
    chat = start("chat", *OPTIONS)
    for word, before in (("two", "one"), ("six", "two")):
        chat.type("/say")
        until(lambda before=before: f"{before} and {before} of the helper" in chat.output())  # type: ignore[misc]
        write(word)
        said = start("plugins", "reload", "slow", *OPTIONS).end()
        assert said == "slow 1.0 is reloaded: 2 modules.\n"
    foreign.write("import nothing_of_this_name")
    refused = start("plugins", "reload", "slow", *OPTIONS)
    assert refused.process.wait(20) == 1
    assert "plugin 'slow': not reloaded: ModuleNotFoundError (error " in refused.errors()
    assert "The old version goes on." in refused.errors()
    assert "six and six of the helper" in chat.end("/say")
    nobody = start("plugins", "reload", "slow", *OPTIONS)
    assert nobody.process.wait(20) == 1
    assert "No program runs with the data folder" in nobody.errors()
