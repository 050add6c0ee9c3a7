"""Each example does what its page says, inside a whole runtime; and each can be loaded as an installed package."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hermes_catch_all import CatchAllPlugin, CatchAllSettings
from hermes_greet import GreetPlugin
from hermes_today import TodayPlugin
from hermes_worklog import WorklogPlugin

from hermes_core.messages import ToolCall
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Hold
from hermes_core.testing.virtual import run

EXAMPLES = Path(__file__).parents[1]
PACKAGES = sorted(path.parent for path in EXAMPLES.glob("*/pyproject.toml"))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("/greet 2 Ann Lee", "Hello, Ann Lee! Hello, Ann Lee!"),
        ("/HI 1 Bob", "Hello, Bob!"),
        ("/greet 99 Ann", "Hello, Ann! Hello, Ann! Hello, Ann!"),
        ("/greet Ann", "/greet: TIMES must be a whole number, not 'Ann'. Type /greet TIMES NAME"),
        ("/greet 2", "/greet: NAME is missing. Type /greet TIMES NAME"),
    ],
)
def test_greet_greets_and_says_what_to_type_instead(tmp_path: Path, text: str, answer: str) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[GreetPlugin()]) as bed:
            assert await bed.say(text) == answer
            assert bed.model.requests == []

    run(story())


def test_catch_all_answers_its_question_and_lets_everything_else_pass(tmp_path: Path) -> None:
    async def story() -> None:
        settings = CatchAllSettings(("office", "address"), "Example Street 1.")
        async with Bed(tmp_path, plugins=[CatchAllPlugin(settings)]) as bed:
            assert await bed.say("What is the ADDRESS of your office?") == "Example Street 1."
            assert bed.model.requests == []
            assert await bed.say("Where is the office?") == "you said: Where is the office?"
            assert bed.model.texts() == ["Where is the office?"], "the model never reads what was caught"

    run(story())


def test_catch_all_answers_in_the_middle_of_other_work_without_disturbing_it(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with Bed(tmp_path, [[hold, "done"]], plugins=[CatchAllPlugin(CatchAllSettings())]) as bed:
            await bed.platform.say("work")
            await hold.reached.wait()
            await bed.platform.say("your opening hours, please")
            hold.release()
            await bed.platform.settled()
            assert sorted(bed.platform.texts()) == [
                "We are open from nine to five, Monday to Friday.",
                "done",
            ]
            assert bed.model.cut == 0

    run(story())


def test_worklog_counts_turns_and_interrupts(tmp_path: Path) -> None:
    async def story() -> None:
        hold = Hold()
        async with Bed(tmp_path, ["one", ["so", hold], "two"], plugins=[WorklogPlugin()]) as bed:
            assert await bed.say("/worklog") == "Nothing yet."
            await bed.say("first")
            await bed.platform.say("second")
            await hold.reached.wait()
            await bed.say("third")
            assert await bed.say("/worklog") == (
                "started: 3, entries: 3, completed: 2, stops asked for: 1, tools killed: 0, interrupted: 1"
            )
            assert await bed.say("/worklog", channel="2") == "Nothing yet.", "each conversation has its own"

    run(story())


def test_worklog_counts_a_turn_whose_model_fails(tmp_path: Path) -> None:
    async def story() -> None:
        again = [ToolCall("c", "none", "{}")]
        one = {"conversation": {"max_steps": 1}}
        async with Bed(tmp_path, [again], plugins=[WorklogPlugin()], config=one) as bed:
            await bed.say("loop")
            assert await bed.say("/worklog") == "started: 1, entries: 1, failed: 1"

    run(story())


def test_today_tells_the_day_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    async def story() -> None:
        days = [datetime.date(2026, 12, 31)]
        async with Bed(tmp_path, plugins=[TodayPlugin(lambda: days[-1])]) as bed:
            await bed.say("hello")
            await bed.say("still there?")
            days.append(datetime.date(2027, 1, 1))
            await bed.say("happy new year")
            assert bed.model.texts() == [
                "Today is Thursday, 31 December 2026.",
                "hello",
                "still there?",
                "Today is Friday, 01 January 2027.",
                "happy new year",
            ]

    run(story())


def installed(folder: Path) -> str:
    """What `pip install` leaves behind of each example, in `folder`: its name and its entry points."""
    for package in PACKAGES:
        project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        )
        points = "".join(f"{name} = {value}\n" for name, value in project["entry-points"]["hermes"].items())
        (info / "entry_points.txt").write_text(f"[hermes]\n{points}")
    return os.pathsep.join([str(folder), *map(str, PACKAGES)])


def hermes(folder: Path, *words: str, typed: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-m", "hermes_core", *words],
        input=typed,
        text=True,
        capture_output=True,
        timeout=60,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": installed(folder),
            "HERMES__RUNTIME__DATA_DIR": str(folder / "data"),
        },
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout


def test_each_example_is_found_as_a_package_and_is_off_until_it_is_enabled(tmp_path: Path) -> None:
    listed = hermes(tmp_path, "plugins", "list")
    found = {line.split()[0]: line.split()[2:] for line in listed.splitlines() if not line.startswith(" ")}
    for package in PACKAGES:
        assert found[package.name] == ["off", f"hermes-{package.name.replace('_', '-')}"]


def test_each_example_works_when_it_is_enabled(tmp_path: Path) -> None:
    enabled = [word for package in PACKAGES for word in ("--set", f"plugins.{package.name}.enabled=true")]
    said = hermes(tmp_path, "chat", *enabled, typed="/greet 1 you\nopening hours?\n/worklog\n")
    assert said.splitlines() == [
        "Hello, you!",
        "We are open from nine to five, Monday to Friday.",
        "Nothing yet.",
    ]


def test_the_list_of_examples_names_each_one_with_its_true_length() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for package in PACKAGES:
        module = package / f"hermes_{package.name}.py"
        lines = len(module.read_text(encoding="utf-8").splitlines())
        row = next(line for line in page.splitlines() if line.startswith(f"| [{package.name}]"))
        assert row.endswith(f" | {lines} |")
    assert page.count("\n| [") == len(PACKAGES)
