"""The kit types every command with what its signature lets through, and finds what fails or says nothing (P5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_core.config import Config
from hermes_core.testing.kit import Hermes
from hermes_core.testing.package import Package, packages
from hermes_core.testing.review import Subject
from hermes_core.testing.review_commands import tried

ROOT = Path(__file__).parents[1]
OURS = sorted(
    file.parent for file in ROOT.glob("plugins/*/pyproject.toml") if file.parent.name != "httpmodel"
)
CODE = """
import random
from typing import Literal
from hermes_core.commands import Context, Rest, command
from hermes_core.errors import BadArguments
from hermes_core.hookspecs import hookimpl


class Plugin:
    @hookimpl
    def hermes_commands(self):
        return [command("checked")(checked)]


DEF checked(context: Context, TAKES):
    \"\"\"Do it.\"\"\"
    BODY
"""
LIMITED = (
    "if not (0 < dice < 100 and 0 < sides < 100): raise BadArguments('1 to 99', 'Type /checked 2 6')\n    "
)


def found(folder: Path, takes: str, body: str, kind: str = "def", untried: tuple[str, ...] = ()) -> list[str]:
    """What the kit finds of a plugin with this one handler."""
    space: dict[str, object] = {}
    exec(CODE.replace("DEF", kind).replace("TAKES", takes).replace("BODY", body), space)
    package = Package("checked", "hermes_core:nothing", {}, "", ())
    subject = Subject(package)
    assert isinstance(space["Plugin"], type)
    subject.problem, subject.loaded = "", space["Plugin"]
    subject.plugins.add("checked", space["Plugin"]())
    return [one.text for one in tried(Hermes(folder), subject, Config(), untried)]


@pytest.mark.parametrize(
    ("takes", "body", "says"),
    [
        ("dice: int = 1, sides: int = 6", LIMITED + "return str(random.randint(1, sides))", ""),
        ("dice: int = 1, sides: int = 6", "return str(random.randint(1, sides))", "ValueError"),
        (
            "dice: int = 1, sides: int = 6",
            "return 'x' * min(dice, 9)",
            "'0 1': it answers with an empty text",
        ),
        ("dice: int = 1", "return None", ""),
        ("*words: str", "return words[0]", "'': the handler raised IndexError"),
        ("it: Rest", "return it.encode('cp850').hex()", "UnicodeEncodeError"),
        ("it: Rest", "one, = it.splitlines(); return 'x'", "'one\\ntwo': the handler raised ValueError"),
        ("it: str", "return f'{it[0]} was first'", "'\"\"': the handler raised IndexError"),
        ("it: str", "return (it or str(1)) % ()", "TypeError"),
        ("it: float", "return str(int(it))", "'nan': the handler raised ValueError"),
        (
            "it: Literal['a', 'b'], on: bool",
            "return 'x' if on or it == 'a' else str(1 / 0)",
            "'b no': the handler",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_commands_are_typed_with_what_their_signatures_let_through(
    tmp_path: Path, takes: str, body: str, says: str, kind: str
) -> None:
    texts = found(tmp_path, takes, body, kind)
    assert len(texts) == (1 if says else 0), texts
    assert says in "".join(texts)


def test_a_command_that_is_left_out_does_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    body = f"open({str(mark)!r}, 'w').close(); return 'x'"
    assert found(tmp_path, "it: int = 1", body, untried=("checked",)) == []
    assert not mark.exists()
    assert found(tmp_path, "it: int = 1", body) == []
    assert mark.exists()


@pytest.mark.parametrize("folder", OURS, ids=lambda folder: folder.name)
def test_p5_our_own_commands_take_or_refuse_whatever_is_typed(folder: Path, tmp_path: Path) -> None:
    for package in packages(str(folder)):
        assert tried(Hermes(tmp_path), Subject(package), Config()) == []
