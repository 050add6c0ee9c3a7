"""What owners changed about commands and tools: how rules of a conversation and of everywhere come together."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_core.commands import Context, Registry, command
from hermes_core.errors import HermesError, StateError
from hermes_core.messages import Address, Role
from hermes_core.rules import EVERYWHERE, Rules
from hermes_core.tools import Tool, tool

HERE = Address("fake", "agent", "1")
THERE = Address("fake", "agent", "2")


def registry() -> Registry:
    made = Registry()
    for name in ("echo", "help"):

        @command(name, help="Help.")
        def handler(context: Context) -> str:
            return ""

        made.add("test", handler)
    return made


def tools() -> dict[str, Tool]:
    @tool("look")
    async def look() -> str:
        """Look."""
        return ""

    @tool("peek", role=Role.ADMIN)
    async def peek() -> str:
        """Peek."""
        return ""

    return {"look": look, "peek": peek}


def test_where_nothing_is_changed_the_tables_are_those_of_the_plugins(tmp_path: Path) -> None:
    rules, commands, own = Rules(tmp_path), registry(), tools()
    assert rules.commands(HERE, commands) is commands
    assert rules.tools(HERE, own) is own
    rules.change(str(THERE), "commands", "echo", enabled=False)
    assert rules.commands(HERE, commands) is commands


def test_what_a_conversation_says_goes_before_everywhere_key_by_key(tmp_path: Path) -> None:
    rules = Rules(tmp_path)
    rules.change(EVERYWHERE, "commands", "echo", enabled=False, name="say", role="owner")
    assert rules.commands(HERE, registry()).get("say") is None
    rules.change(str(HERE), "commands", "echo", enabled=True)
    found = rules.commands(HERE, registry()).get("say")
    assert found is not None
    assert found.role is Role.OWNER
    rules.change(str(HERE), "commands", "echo", role="user")
    found = rules.commands(HERE, registry()).get("say")
    assert found is not None
    assert found.role is Role.USER
    assert rules.commands(THERE, registry()).get("say") is None


def test_a_new_name_takes_no_other_tool_away(tmp_path: Path) -> None:
    rules = Rules(tmp_path)
    rules.change(EVERYWHERE, "tools", "look", name="peek")
    assert {name: one.name for name, one in rules.tools(HERE, tools()).items()} == {
        "look": "look",
        "peek": "peek",
    }
    for name in ("look", "peek"):
        rules.change(EVERYWHERE, "tools", name, name="same")
    found = rules.tools(HERE, tools())
    assert {name: (one.name, one.role) for name, one in found.items()} == {
        "same": ("same", Role.USER),
        "peek": ("peek", Role.ADMIN),
    }


def test_whatever_names_were_given_each_command_has_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = Rules(tmp_path)
    rules.change(EVERYWHERE, "commands", "echo", name="help")
    rules.change(EVERYWHERE, "commands", "help", name="other")
    assert {one.name for one in rules.commands(HERE, registry()).all()} == {"help", "other"}
    more = registry()

    @command("other", help="Came with another plugin, later.")
    def handler(context: Context) -> str:
        return ""

    more.add("later", handler)
    assert {one.name for one in rules.commands(HERE, more).all()} == {"echo", "help", "other"}
    assert more.owner("other") == rules.commands(HERE, more).owner("other") == "later"
    assert "/help keeps its name" in caplog.text


def test_a_file_that_is_wrong_is_not_written_over(tmp_path: Path) -> None:
    rules, file = Rules(tmp_path), tmp_path / "rules.toml"
    rules.change(EVERYWHERE, "commands", "echo", enabled=False)
    assert rules.commands(HERE, registry()).get("echo") is None
    file.write_text(wrong := '["*".commands.help]\nrole = "king"\n')
    with pytest.raises(StateError, match="there is no role 'king'"):
        rules.change(EVERYWHERE, "commands", "help", enabled=False)
    assert file.read_text() == wrong
    assert rules.commands(HERE, registry()).get("echo") is None, "what was known stays"


def test_the_command_that_makes_rules_has_none(tmp_path: Path) -> None:
    with pytest.raises(HermesError, match="stays as it is"):
        Rules(tmp_path).change(str(HERE), "commands", "control", role="user")


def test_taking_the_last_rule_away_leaves_nothing(tmp_path: Path) -> None:
    rules = Rules(tmp_path)
    rules.change(str(HERE), "tools", "look", enabled=False)
    assert rules.reset(str(HERE), "tools", "look")
    assert not rules.reset(str(HERE), "tools", "look")
    assert rules.listing() == []
    assert [
        line for line in (tmp_path / "rules.toml").read_text().splitlines() if not line.startswith("#")
    ] == [""]


def test_p1_a_changed_registry_is_made_once_and_not_for_each_command_that_is_typed(tmp_path: Path) -> None:
    rules, commands = Rules(tmp_path), registry()
    rules.change(EVERYWHERE, "commands", "echo", name="say")
    first = rules.commands(HERE, commands)
    assert rules.commands(HERE, commands) is first
    assert rules.commands(THERE, commands) is first  # neither of them has rules of its own


def test_what_was_made_is_made_anew_when_a_rule_or_a_plugin_changes(tmp_path: Path) -> None:
    rules, commands = Rules(tmp_path), registry()
    rules.change(EVERYWHERE, "commands", "echo", name="say")
    assert rules.commands(HERE, commands).get("more") is None

    @command("more", help="Help.")
    def more(context: Context) -> str:
        return ""

    commands.add("other", more)
    assert rules.commands(HERE, commands).get("more") is not None
    commands.become(registry())
    assert rules.commands(HERE, commands).get("more") is None
    assert rules.commands(HERE, commands).get("say") is not None
    rules.change(str(HERE), "commands", "echo", name="tell")
    assert rules.commands(HERE, commands).get("tell") is not None
    assert rules.commands(THERE, commands).get("say") is not None
    rules.reset(EVERYWHERE, "commands", "echo")
    rules.reset(str(HERE), "commands", "echo")
    assert rules.commands(HERE, commands) is commands
