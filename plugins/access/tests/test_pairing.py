"""How people are let in and put out, as they see it (X1, X4, E12, cases 51)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_access.plugin import AccessPlugin
from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import Author, Role
from hermes_core.people import People
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Hold
from hermes_core.testing.virtual import run
from hermes_core.tools import Tool, tool

NOBODY_ELSE: dict[str, Any] = {"access": {"allow": []}}
CODE = re.compile(r"hermes pair approve ([A-Z2-9]{8}) ")


class Tools:
    """One tool for everybody who is served, and one for admins."""

    @hookimpl
    def hermes_tools(self) -> Sequence[Tool]:
        @tool
        async def peek() -> str:
            """Look."""
            return "a wall"

        @tool("wipe", role=Role.ADMIN)
        async def wipe() -> str:
            """Remove everything."""
            return "gone"

        return [peek, wipe]


def hermes(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES", "XDG_"))}
    settings = ("--set", f"runtime.data_dir={folder}", "--set", "access.owners=fake:ann")
    command = [sys.executable, "-m", "hermes_core", *arguments, *settings]
    return subprocess.run(
        command, cwd=folder, env=own | {"HOME": str(folder)}, capture_output=True, text=True, check=False
    )


async def until(condition: Callable[[], object]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


async def told(bed: Bed, text: str, author: str, channel: str = "2", **more: Any) -> list[str]:
    """What is sent where a person writes who is not served."""
    before = len(bed.platform.texts(channel))
    await bed.platform.say(text, channel, author, **more)
    for _ in range(50):
        await asyncio.sleep(0)
    return bed.platform.texts(channel)[before:]


def code_of(line: str) -> str:
    found = CODE.search(line)
    assert found is not None, line
    return found[1]


def test_x1_a_stranger_gets_one_line_with_a_code_and_is_served_once_it_is_approved(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[AccessPlugin()], config=NOBODY_ELSE) as bed:
            (line,) = await told(bed, "hello", "eve")
            assert await told(bed, "hello?", "eve") == []
            assert bed.model.requests == []
            answer = await bed.say(f"/pair approve {code_of(line)}")
            assert answer == "fake:eve (Eve) is let in as user, from the next message on."
            assert await bed.say("hello", "2", "eve") == "you said: hello"
            assert len(bed.model.requests) == 1

    run(story())


async def test_x1_the_running_program_takes_up_what_the_command_line_says(tmp_path: Path) -> None:
    async with Bed(tmp_path, plugins=[AccessPlugin()], config=NOBODY_ELSE) as bed:
        await bed.platform.say("hello", "2", "eve")
        async with asyncio.timeout(20):
            while not bed.platform.texts("2"):
                await asyncio.sleep(0.01)
        code = code_of(bed.platform.texts("2")[0])
        done = await asyncio.to_thread(hermes, tmp_path, "pair", "approve", code)
        assert done.stdout == "fake:eve (Eve) is let in as user, from the next message on.\n"
        assert await bed.say("hello", "2", "eve") == "you said: hello"
        done = await asyncio.to_thread(hermes, tmp_path, "pair", "revoke", "fake:eve")
        assert done.stdout == "fake:eve is put out.\n"
        await bed.platform.say("still there?", "2", "eve")
        await bed.platform.settled("2")
        assert len(bed.model.requests) == 1


def test_x1_who_is_put_out_is_out_at_once_also_where_a_pattern_lets_everybody_in(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[AccessPlugin()]) as bed:
            assert await bed.say("hello", "2", "eve") == "you said: hello"
            assert await bed.say("/pair revoke fake:eve") == (
                "fake:eve was not let in here, and will not be served."
            )
            assert await told(bed, "hello", "eve") == ["You are not served here."]
            assert await told(bed, "hello", "eve") == []
            assert await bed.say("hello", "2", "bob") == "you said: hello"
            assert await bed.say("/pair approve fake:eve") == (
                "fake:eve is let in as user, from the next message on."
            )
            assert await bed.say("hello", "2", "eve") == "you said: hello"

    run(story())


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("/pair revoke fake:eve", set()), ("/pair approve fake:eve", {"peek"}), ("/help", {"peek", "wipe"})],
)
def test_x1_what_waited_is_answered_but_with_no_role_that_its_writer_has_lost(
    tmp_path: Path, typed: str, offered: set[str]
) -> None:
    async def story() -> None:
        People(tmp_path).let_in("fake:eve", Role.ADMIN)
        hold = Hold()
        plugins = [AccessPlugin(), BusyPlugin(), BasicsPlugin(), Tools()]
        async with Bed(tmp_path, [[hold, "one"]], plugins=plugins, config=NOBODY_ELSE) as bed:
            await bed.platform.say("first", "2", "eve")
            await hold.reached.wait()
            assert {one.name for one in bed.model.requests[0].tools} == {"peek", "wipe"}
            await bed.platform.say("/queue second", "2", "eve")
            await bed.say(typed)
            hold.release()
            await bed.platform.settled("2")
            assert bed.platform.texts("2")[-1] == "you said: second"
            assert {one.name for one in bed.model.requests[1].tools} == offered

    run(story())


def test_case_51_a_display_name_decides_nothing(tmp_path: Path) -> None:
    """Neither in the lists of the config nor for who was let in; ids with the same letters are others."""

    async def story() -> None:
        config = {"access": {"allow": ["fake:bob", "other:eve"], "owners": ["fake:ann"]}}
        async with Bed(tmp_path, plugins=[AccessPlugin()], config=config) as bed:
            People(tmp_path).let_in("fake:cid", Role.OWNER)
            for id_, name in (
                ("eve", "bob"),
                ("e2", "fake:bob"),
                ("e3", "ann"),
                ("BOB", "bob"),
                ("e4", "cid"),
            ):
                message = bed.platform.message("/pair approve fake:eve", "2", id_)
                await bed.platform.gateway.receive(msgspec.structs.replace(message, author=Author(id_, name)))
            for _ in range(100):
                await asyncio.sleep(0)
            assert bed.model.requests == []
            assert all(text.startswith("I do not know you yet") for text in bed.platform.texts("2"))
            assert await bed.say("hello", "3", "bob") == "you said: hello"
            assert (await bed.say("/pair", "4", "cid")).startswith("- fake:cid")

    run(story())


def test_x1_the_fourth_who_waits_gets_no_code_and_a_restart_repeats_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, config=NOBODY_ELSE) as bed:
            for number in range(3):
                (line,) = await told(bed, "hello", f"eve{number}")
                assert CODE.search(line)
            (line,) = await told(bed, "hello", "eve4")
            assert line.startswith("I do not know you yet, and enough people wait")
        async with Bed(tmp_path, config=NOBODY_ELSE) as bed:
            assert await told(bed, "hello", "eve1") == []

    run(story())


def test_x1_pairing_can_be_off_and_on_for_one_platform(tmp_path: Path) -> None:
    async def story() -> None:
        off = {"access": {"allow": [], "pairing": False}}
        async with Bed(tmp_path, config=off) as bed:
            (line,) = await told(bed, "hello", "eve")
            assert line == "I do not know you. The operator of this agent can let you in ([access] allow)."
        async with Bed(tmp_path, config={**off, "adapters": {"fake": {"pairing": True}}}) as bed:
            (line,) = await told(bed, "hello", "eve")
            assert CODE.search(line)

    run(story())


def test_e12_a_stranger_who_talks_to_others_in_a_group_gets_no_answer(tmp_path: Path) -> None:
    async def story() -> None:
        async with Bed(tmp_path, config=NOBODY_ELSE) as bed:
            assert await told(bed, "lunch, anybody?", "eve", group=True, addressed=False) == []
            assert len(await told(bed, "agent, hello", "eve", group=True)) == 1

    run(story())


def test_x4_a_bot_is_served_only_where_it_is_named_and_gets_no_answer_else(tmp_path: Path) -> None:
    async def story() -> None:
        config = {"access": {"allow": ["*", "fake:*", "fake:goodbot"]}}
        async with Bed(tmp_path, config=config) as bed:
            for id_ in ("badbot", "goodbot"):
                message = bed.platform.message("hello", id_)
                await bed.platform.gateway.receive(
                    msgspec.structs.replace(message, author=Author(id_, id_, True))
                )
                await bed.platform.settled(id_)
            assert (bed.platform.texts("badbot"), bed.platform.texts("goodbot")) == ([], ["you said: hello"])

    run(story())


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("/pair approve", "/pair approve: whom? Type /pair list, /pair approve CODE [user|admin|owner], or "),
        ("/pair let eve", "/pair: WHAT must be one of list, approve, revoke, not 'let'. Type /pair list | "),
        ("/pair revoke eve", "'eve' is no person. Type /pair list"),
        ("/pair revoke fake:ann", "fake:ann is named in the config. Take it out there, and start again."),
        ("/pair approve AAAAAAAA", "Nobody was given this code, or it is older than an hour."),
        ("/pair", "Nobody was let in, and nobody waits."),
    ],
)
def test_pair_says_what_to_type(tmp_path: Path, typed: str, answer: str) -> None:
    async def story() -> None:
        async with Bed(tmp_path, plugins=[AccessPlugin()]) as bed:
            assert (await bed.say(typed)).startswith(answer)

    run(story())


def test_the_address_of_a_chat_in_place_of_a_person_is_said_so(tmp_path: Path) -> None:
    async def story() -> None:
        people = People(tmp_path)
        people.let_in("fake:eve")
        async with Bed(tmp_path, plugins=[AccessPlugin()]) as bed:
            assert await bed.say("/pair revoke fake:agent:eve") == (
                "fake:agent:eve is an address and no person. Did you mean fake:eve?"
            )
            assert people.role("fake:eve") is Role.USER
            assert (await bed.say("/pair revoke fake:agent:bob")).startswith(
                "fake:agent:bob was not let in here"
            )
        done = hermes(tmp_path, "pair", "revoke", "fake:agent:eve:t1")
        assert done.returncode == 1
        assert "Did you mean fake:eve?" in done.stderr
        assert people.role("fake:eve") is Role.USER

    run(story())


def test_only_owners_let_people_in(tmp_path: Path) -> None:
    async def story() -> None:
        config = {"access": {"admins": ["fake:bob"]}}
        async with Bed(tmp_path, plugins=[AccessPlugin()], config=config) as bed:
            for person in ("bob", "eve"):
                assert await bed.say("/pair approve fake:mal owner", "2", person) == "/pair is for owners."
            assert People(tmp_path).role("fake:mal") is None

    run(story())


def test_the_list_of_the_command_line_has_everybody(tmp_path: Path) -> None:
    people = People(tmp_path)
    people.let_in("fake:bob", Role.ADMIN)
    people.revoke("fake:eve")
    people.ask("fake:cid", "Cid\nthe \x1b[1mGreat")
    done = hermes(tmp_path, "pair", "list", "--json")
    listed = json.loads(done.stdout)
    assert listed["config"] == {"owners": ["fake:ann"], "admins": [], "allow": []}
    assert [(one["id"], one["role"]) for one in listed["people"]] == [
        ("fake:bob", "admin"),
        ("fake:eve", "nobody"),
    ]
    assert [(one["id"], one["name"]) for one in listed["pending"]] == [("fake:cid", "Cid the [1mGreat")]
    assert listed["locked_until"] is None
    words = hermes(tmp_path, "pair").stdout
    assert re.search(r"^fake:bob  admin  since .*$", words, re.MULTILINE)
    assert re.search(r"^fake:eve  put out  since .*$", words, re.MULTILINE)
    assert re.search(r"^fake:cid  waits, code good until .*  Cid the \[1mGreat$", words, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("approve", "AAAAAAAA"), 1, "Nobody was given this code"),
        (("revoke", "eve"), 1, "'eve' is no person."),
        (("revoke", "fake:ann"), 1, "named in the config, [access] owners"),
        (("approve", "fake:eve", "--role", "king"), 2, "--role"),
    ],
)
def test_what_the_command_line_refuses(
    tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    done = hermes(tmp_path, "pair", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
