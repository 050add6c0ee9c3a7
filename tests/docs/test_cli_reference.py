"""`docs/reference/command-line.md` has every command and option of `hermes --help`, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hermes_core.cli.parser import COMMANDS, GROUPS, parse

PAGE = (Path(__file__).parents[2] / "docs/reference/command-line.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
COMMON = "In every command"


def options_on_the_page(section: str) -> set[str]:
    return set(re.findall(r"^\| `(--[a-z-]+)", SECTIONS[section], re.MULTILINE))


def help_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as left:
        parse([*words, "--help"])
    assert left.value.code == 0
    return capsys.readouterr().out


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    assert {name.strip("`") for name in SECTIONS if name.startswith("`")} == {
        " ".join(("hermes", *command.NAME)) for command in COMMANDS
    }


@pytest.mark.parametrize("name", [command.NAME for command in COMMANDS], ids=" ".join)
def test_every_option_is_documented_and_every_documented_option_exists(
    capsys: pytest.CaptureFixture[str], name: tuple[str, ...]
) -> None:
    real = set(re.findall(r"--[a-z-]+", help_of(capsys, *name)))
    assert options_on_the_page(f"`{' '.join(('hermes', *name))}`") | options_on_the_page(COMMON) == real


def test_the_help_lists_every_command_with_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    top = " ".join(help_of(capsys).split())
    for command in COMMANDS:
        text = top if len(command.NAME) == 1 else " ".join(help_of(capsys, command.NAME[0]).split())
        assert f"{command.NAME[-1]} {command.HELP}" in text
    assert [group for group, help_ in GROUPS.items() if f"{group} {help_}" not in top] == []


def test_a_group_alone_means_its_first_command() -> None:
    for group in GROUPS.keys() - {"adapters"}:  # its first command wants a name
        command, options = parse([group, "--json"])
        assert command.NAME[0] == group
        assert options.json is True
