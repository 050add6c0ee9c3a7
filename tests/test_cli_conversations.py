"""`hermes conversations list`, `show` and `export`: beside a running Hermes, without one, and what they refuse."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hermes_after.plugin import AfterPlugin
from hermes_basics.plugin import BasicsPlugin
from hermes_busy.plugin import BusyPlugin
from hermes_core.hookspecs import hookimpl
from hermes_core.messages import ToolCall
from hermes_core.store.sqlite import SQLiteStore
from hermes_core.testing.bed import Bed
from hermes_core.testing.model import Hold
from hermes_core.tools import Tool, tool
from tests.test_cli import hermes

PLUGINS = (BasicsPlugin, BusyPlugin, AfterPlugin)


class Measures:
    @hookimpl
    def hermes_tools(self) -> list[Tool]:
        @tool
        def measure(town: str) -> str:
            """Measure."""
            return "12 degrees"

        return [measure]


def call(folder: Path, *words: str, code: int = 0) -> str:
    done = hermes(folder, "conversations", *words, "--set", f"runtime.data_dir={folder / 'data'}")
    assert done.code == code, done.out + done.err
    assert (done.err == "") is (code == 0)
    return done.out or done.err


async def story(folder: Path, look: Any) -> None:
    """Two conversations, one of them in the middle of a turn, with what waits and a note; then `look`."""
    hold = Hold()
    scripts: list[Any] = [
        [ToolCall("1", "measure", '{"town": "Oslo"}')],
        "It is 12 degrees.",
        "A new one.",
        ["Well, ", hold],
    ]
    (folder / "data").mkdir()
    store = await SQLiteStore.open(folder / "data")
    plugins = [Measures(), *(one() for one in PLUGINS)]
    async with Bed(folder / "data", scripts, plugins=plugins, store=store) as bed:
        await bed.say("how warm is it?", "7", id="m1")
        await bed.say("/new", "7", id="m2")
        await bed.say("\x1b[2Jand now?", "7", id="m3")
        await bed.platform.say("go on", "8", id="m4")
        await hold.reached.wait()
        await bed.platform.say("/queue later", "8")
        await bed.platform.say("/after 3 remember the umbrella", "8")
        while len(bed.platform.texts("8")) < 2:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(look)
        hold.release()
        await bed.platform.settled("8")
    await store.close()


async def test_what_was_said_is_shown_beside_a_program_that_has_the_data(tmp_path: Path) -> None:
    def look() -> None:
        lines = call(tmp_path, "list").splitlines()
        assert lines[0].endswith("  fake:agent:8  0 replies, a turn runs, 1 wait, 1 notes")
        assert lines[1].endswith("  fake:agent:7  2 replies")
        shown = call(tmp_path, "show", "fake:agent:7")
        assert "person: \\x1b[2Jand now?" in shown, "what others write does not steer the terminal"
        assert "\x1b" not in shown
        assert "agent: A new one." in shown
        assert "12 degrees" not in shown, "that was before /new"
        whole = call(tmp_path, "show", "fake:agent:7", "--all")
        assert 'tool measure: {"town": "Oslo"} → 12 degrees' in whole
        running = call(tmp_path, "show", "fake:agent:8")
        assert "turn 1, " in running
        assert ": runs" in running
        assert "Ann: later" in running
        assert "after reply 3, Ann: remember the umbrella" in running

    await story(tmp_path, look)
    assert call(tmp_path, "list").splitlines()[0].endswith("  fake:agent:8  2 replies, 1 notes"), (
        "and afterwards"
    )


async def test_as_json_every_message_has_its_id_and_its_turn(tmp_path: Path) -> None:
    def look() -> None:
        listed = {one["address"]: one for one in json.loads(call(tmp_path, "list", "--json"))}
        assert listed["fake:agent:8"]["running"] is True
        assert (listed["fake:agent:8"]["waiting"], listed["fake:agent:8"]["notes"]) == (1, 1)
        whole = json.loads(call(tmp_path, "export", "fake:agent:7", "--json"))
        turns = [
            (one["epoch"], one["number"], [entry["id"] for entry in one["entries"]]) for one in whole["turns"]
        ]
        assert turns == [(0, 1, ["m1"]), (1, 2, ["m3"])]
        assert whole["turns"][0]["items"][1]["results"][0]["text"] == "12 degrees"
        assert [(one["state"], one["id"]) for one in whole["aside"]] == [("handled", "m2")]
        latest = json.loads(call(tmp_path, "show", "fake:agent:7", "--all", "--limit", "1", "--json"))
        assert [one["number"] for one in latest["turns"]] == [2]

    await story(tmp_path, look)


async def test_an_export_is_markdown_from_the_beginning(tmp_path: Path) -> None:
    texts: list[str] = []
    await story(tmp_path, lambda: texts.append(call(tmp_path, "export", "fake:agent:7")))
    (text,) = texts
    assert text.startswith("# fake:agent:7\n")
    assert (
        text.index("## Turn 1: completed, reply 1")
        < text.index("A new conversation began here")
        < text.index("## Turn 2")
    )
    assert "**person**\n\nhow warm is it?" in text
    assert "**agent**\n\nIt is 12 degrees." in text


@pytest.mark.parametrize(
    ("address", "word"), [("fake:agent:9", "no conversation"), ("nonsense", "not an address")]
)
def test_what_is_not_there_is_said_so_and_nothing_is_made(tmp_path: Path, address: str, word: str) -> None:
    for command in ("show", "export"):
        assert word in call(tmp_path, command, address, code=1)
    assert call(tmp_path, "list") == "There are no conversations.\n"
    assert call(tmp_path, "list", "--json").strip() == "[]"
    assert not (tmp_path / "data").exists()
