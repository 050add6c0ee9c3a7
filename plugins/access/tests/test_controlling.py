"""What owners change about commands and tools: here or everywhere, at once and for good."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hermes_access.plugin import AccessPlugin
from hermes_basics.plugin import BasicsPlugin
from hermes_core.commands import Command, Context, command
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import ToolCall
from hermes_core.rules import Rules
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Script
from hermes_core.testing.virtual import run
from hermes_core.tools import Tool, tool


class Echo:
    @hookimpl
    def hermes_commands(self) -> Sequence[Command]:
        @command("echo", aliases=("say",))
        def echo(context: Context, *words: str) -> str:
            """Say it again."""
            return " ".join(words) or "…"

        return [echo]

    @hookimpl
    def hermes_tools(self) -> Sequence[Tool]:
        @tool
        async def look() -> str:
            """Look."""
            return "a wall"

        return [look]


def bed_in(folder: Path, scripts: Sequence[Script] = (), **more: Any) -> Bed:
    return Bed(folder, scripts, plugins=[AccessPlugin(), BasicsPlugin(), Echo()], **more)


def offered(bed: Bed) -> list[str]:
    return [one.name for one in bed.model.requests[-1].tools]


def test_a_command_is_switched_off_and_on_here_and_elsewhere_it_stays(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed_in(tmp_path) as bed:
            assert await bed.say("/control disable /echo") == "/echo here: off."
            assert (
                await bed.say("/echo a") == "There is no command /echo. It was switched off or renamed here."
            )
            assert await bed.say("/say a") == "There is no command /say. It was switched off or renamed here."
            assert "/echo" not in await bed.say("/help")
            assert (await bed.say("/help echo")).startswith("There is no command /echo.")
            assert await bed.say("/echo a", "2") == "a"
            assert await bed.say("/control enable /echo") == "/echo here: on."
            assert await bed.say("/echo a") == "a"

    run(story())


def test_what_was_changed_outlives_a_restart_and_can_be_taken_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed_in(tmp_path) as bed:
            await bed.say("/control disable /echo everywhere")
            await bed.say("/control role look owner")
        async with bed_in(tmp_path) as bed:
            assert (await bed.say("/echo a", "7")).startswith("There is no command /echo.")
            assert await bed.say("/control enable /echo") == "/echo here: on."
            assert await bed.say("/echo a") == "a"
            assert await bed.say("/control") == (
                "- /echo everywhere: off\n- /echo here: on\n- look here: for owners\n\n"
                "Tools here: look (owners). Commands: /help"
            )
            assert await bed.say("/control reset /echo") == "/echo here: as its plugin made it."
            assert (await bed.say("/echo a")).startswith("There is no command /echo.")
            assert (
                await bed.say("/control reset /echo everywhere") == "/echo everywhere: as its plugin made it."
            )
            assert await bed.say("/echo a") == "a"
            assert await bed.say("/control reset /echo") == "/echo here: nothing was changed about it."

    run(story())


def test_a_command_is_renamed_and_takes_nobodys_name(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed_in(tmp_path) as bed:
            assert await bed.say("/control rename /echo /parrot") == "/echo here: named parrot."
            assert await bed.say("/parrot a b") == "a b"
            assert (await bed.say("/echo a")).startswith("There is no command /echo.")
            assert await bed.say("/parot a") == "There is no command /parot. Did you mean /parrot?"
            assert (await bed.say("/help parrot")).startswith("/parrot [WORDS …]: Say it again.")
            assert await bed.say("/control role /parrot admin") == "/echo here: named parrot, for admins."
            assert await bed.say("/parrot a", author="eve") == "/parrot is for admins."
            assert "/parrot" not in await bed.say("/help", author="eve")
            for taken in ("/help", "/commands", "say"):
                said = await bed.say(f"/control rename /echo {taken}")
                assert said == f"There is a command {taken} already. Choose another name."

    run(story())


def registered(bed: Bed) -> dict[str, bool]:
    """The names of which platforms are told, and whether that is how they are known."""
    gateway = bed.platform.gateway
    return {one.name: gateway.knows(one.name) for one in gateway.commands()}


def test_platforms_are_told_of_commands_as_they_are_called_everywhere(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed_in(tmp_path) as bed:
            before = registered(bed)
            assert before["echo"]
            await bed.say("/control rename /echo /parrot everywhere")
            await bed.say("/control rename /status /state everywhere")
            await bed.say("/control disable /pair everywhere")
            await bed.say("/control rename /help /aid")  # here only: elsewhere it is what it was
            names = registered(bed)
            assert all(names.values())
            assert {*names} ^ {*before} == {"echo", "parrot", "status", "state", "pair"}
            assert list(names).index("state") == list(before).index("status"), "as much needed as before"
            assert bed.platform.gateway.knows("aid"), "somewhere it is called so"
            assert not bed.platform.gateway.knows("nonsense")
            await bed.say("/control reset /echo everywhere")
            assert "echo" in registered(bed)

    run(story())


def test_a_name_that_a_plugin_brings_later_is_the_plugins(tmp_path: Path) -> None:
    async def story() -> None:
        Rules(tmp_path).change("*", "commands", "echo", name="status")
        Rules(tmp_path).change("*", "commands", "help", name="echo")
        async with bed_in(tmp_path) as bed:
            assert (await bed.say("/status")).startswith("- Now: ")
            assert await bed.say("/echo a") == "a"
            assert "/help" in await bed.say("/help")

    run(story())


def test_a_tool_is_switched_off_renamed_and_given_another_role(tmp_path: Path) -> None:
    async def story() -> None:
        scripts: list[Script] = ["1", "2", [ToolCall("c", "peek", "{}")], "3", "4", "5"]
        async with bed_in(tmp_path, scripts) as bed:
            await bed.say("hello")
            assert offered(bed) == ["look"]
            assert await bed.say("/control disable look") == "look here: off."
            await bed.say("hello")
            assert offered(bed) == []
            await bed.say("/control enable look")
            assert await bed.say("/control rename look peek") == "look here: on, named peek."
            await bed.say("hello")
            assert offered(bed) == ["peek"]
            assert "a wall" in str(bed.model.requests[-1].items)
            assert await bed.say("/control role peek admin") == "look here: on, named peek, for admins."
            await bed.say("hello", author="eve")
            assert offered(bed) == []
            await bed.say("hello")
            assert offered(bed) == ["peek"]

    run(story())


def test_a_change_from_another_process_holds_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed_in(tmp_path) as bed:
            assert await bed.say("/echo a") == "a"
            Rules(tmp_path).change(str(bed.platform.address()), "commands", "echo", role="owner")
            assert await bed.say("/echo a", author="eve") == "/echo is for owners."
            (tmp_path / "rules.toml").write_text("broken [")
            assert await bed.say("/echo a", author="eve") == "/echo is for owners."
            said = await bed.say("/control disable /echo")
            assert said.startswith("The file rules.toml in the data folder cannot be read")
            assert (tmp_path / "rules.toml").read_text() == "broken ["

    run(story())


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("/control disable /control", "/control stays as it is: nobody could change it back."),
        ("/control disable /control everywhere", "/control stays as it is: nobody could change it back."),
        ("/control disable /ecko", "There is no command /ecko here. Did you mean /echo?"),
        ("/control disable lok", "There is no tool lok here. Did you mean look?"),
        ("/control disable echo", "There is no tool echo here. The command is /echo."),
        (
            "/control rename /echo Ä",
            "'Ä' cannot be its name. Use a small letter, then small letters, digits and _.",
        ),
        ("/control rename look 1x", "'1x' cannot be its name. Use letters and digits."),
        ("/control role /echo king", "There is no role 'king'. There are user, admin and owner."),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(tmp_path: Path, typed: str, answer: str) -> None:
    async def story() -> None:
        async with bed_in(tmp_path) as bed:
            assert await bed.say(typed) == answer
            assert Rules(tmp_path).listing() == []

    run(story())


@pytest.mark.parametrize(
    "typed", ["/control disable", "/control rename /echo", "/control enable /echo /help"]
)
def test_what_is_missing_is_said(tmp_path: Path, typed: str) -> None:
    async def story() -> None:
        async with bed_in(tmp_path) as bed:
            assert (await bed.say(typed)).startswith(
                f"/control {typed.split()[1]}: that does not fit. Type /control"
            )

    run(story())


def test_only_owners_control(tmp_path: Path) -> None:
    async def story() -> None:
        async with bed_in(tmp_path, config={"access": {"admins": ["fake:bob"]}}) as bed:
            for person in ("bob", "eve"):
                assert await bed.say("/control disable /echo", author=person) == "/control is for owners."

    run(story())


@pytest.mark.parametrize(
    "text",
    [
        '["*".things.echo]\nenabled = false',
        '["*".commands.echo]\nrole = "king"',
        '["*".commands.echo]\nenbled = 1',
    ],
)
def test_a_file_that_is_wrong_changes_nothing_of_what_is_known(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with bed_in(tmp_path) as bed:
            assert await bed.say("/echo a", author="eve") == "a"
            (tmp_path / "rules.toml").write_text(text)  # by hand, beside the program; a start would refuse it
            bed.runtime.services.look_again()
            assert await bed.say("/echo b", author="eve") == "b"

    run(story())
    assert "the rules for commands and tools stay as they were" in caplog.text


def hermes(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES", "XDG_"))}
    command_ = [sys.executable, "-m", "hermes_core", *arguments, "--set", f"runtime.data_dir={folder}"]
    return subprocess.run(
        command_, cwd=folder, env=own | {"HOME": str(folder)}, capture_output=True, text=True, check=False
    )


def test_the_command_line_changes_lists_and_takes_back(tmp_path: Path) -> None:
    done = hermes(
        tmp_path, "control", "set", "/busy", "--enabled", "no", "--role", "admin", "--at", "fake:agent:1"
    )
    assert (done.returncode, done.stdout) == (0, "/busy at fake:agent:1: off, for admins\n")
    assert (
        hermes(tmp_path, "control", "set", "/help", "--name", "guide").stdout
        == "/help everywhere: named guide\n"
    )
    assert hermes(tmp_path, "control").stdout == (
        "/help everywhere: named guide\n/busy at fake:agent:1: off, for admins\n"
    )
    listed = json.loads(hermes(tmp_path, "control", "list", "--json").stdout)
    assert listed[1] == {
        "at": "fake:agent:1",
        "kind": "command",
        "of": "busy",
        "enabled": False,
        "name": None,
        "role": "admin",
    }
    assert hermes(tmp_path, "control", "reset", "/help").stdout == "/help everywhere: as its plugin made it\n"
    assert len(Rules(tmp_path).listing()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("set", "/halp", "--enabled", "no"), "There is no command /halp. Did you mean /help?"),
        (
            ("set", "get_job_statu", "--enabled", "no"),
            "There is no tool get_job_statu. Did you mean get_job_status?",
        ),
        (("set", "/help"), "Nothing is to be changed."),
        (("set", "/help", "--name", "status"), "There is a command /status already."),
        (("set", "/control", "--enabled", "no"), "/control stays as it is"),
        (("set", "/help", "--enabled", "no", "--at", "here"), "'here' is not an address."),
        (("reset", "/help"), "Nothing was changed about /help everywhere."),
    ],
)
def test_what_the_command_line_refuses(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = hermes(tmp_path, "control", *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in " ".join(done.stderr.split())
    assert not (tmp_path / "rules.toml").exists()
