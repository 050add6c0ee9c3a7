"""`docs/reference/commands.md` has every command as the program loads it, and each refusal word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from hermes_core.commands import Registry
from hermes_core.config import Config
from hermes_core.messages import Role
from hermes_core.plugins import load
from hermes_core.testing.bed import Bed
from hermes_core.testing.virtual import run

PAGE = (Path(__file__).parents[2] / "docs/reference/commands.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## /(\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
FOR = {Role.USER: "everybody", Role.ADMIN: "owners and admins", Role.OWNER: "owners"}


@pytest.fixture(scope="module")
def registry() -> Registry:
    """The commands of all packages that are on where the config says nothing."""
    return load(Config.of({})).commands


def with_commands() -> list[object]:
    """The plugins that brought them, made anew."""
    names = [info.name for info in load(Config.of({})).infos.values() if info.commands]
    classes = [point.load() for name in names for point in entry_points(group="hermes", name=name)]
    return [one(one.Settings()) if hasattr(one, "Settings") else one() for one in classes]


def refusals() -> Iterator[tuple[str, str]]:
    for line in PAGE.splitlines():
        found = re.fullmatch(r"\| `(/.+?)` \| (.+) \|", line)
        if found:
            yield found[1], found[2].replace("\\|", "|")


def field(name: str, label: str) -> str | None:
    found = re.search(rf"^- {label}: (.+)$", SECTIONS[name], re.MULTILINE)
    return found[1] if found else None


def test_every_command_has_a_section_and_every_section_a_command(registry: Registry) -> None:
    assert sorted(SECTIONS) == [one.name for one in registry.all()]


@pytest.mark.parametrize("name", list(SECTIONS))
def test_what_the_page_says_of_a_command_is_what_the_program_knows(registry: Registry, name: str) -> None:
    command = registry.get(name)
    assert command is not None
    owner = registry.owner(name)
    assert field(name, "Usage") == f"`{command.usage}`"
    assert field(name, "Also") == (", ".join(f"`/{one}`" for one in command.aliases) or None)
    assert field(name, "For") == FOR[command.role]
    assert field(name, "Plugin") == f"[{owner}](../../plugins/{owner}/README.md)"
    assert field(name, "Help") == command.help


def test_every_command_shows_what_it_refuses() -> None:
    assert [name for name, text in SECTIONS.items() if "| you write | the answer |" not in text] == []


@pytest.mark.parametrize(("typed", "answer"), list(refusals()))
def test_every_refusal_on_the_page_is_the_answer_word_by_word(
    tmp_path: Path, typed: str, answer: str
) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=with_commands()) as bed:
            assert await bed.say(typed) == answer
            assert bed.model.requests == []

    run(story())
