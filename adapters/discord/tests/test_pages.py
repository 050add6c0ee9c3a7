"""The pages about Discord say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import discord as library
import msgspec

from hermes_discord.plugin import DiscordPlugin

ROOT = Path(__file__).parents[3]
HOW_TO = (ROOT / "docs/how-to/discord.md").read_text(encoding="utf-8")
README = (ROOT / "adapters/discord/README.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "adapters/discord/hermes_discord"


def test_every_setting_stands_on_the_page_with_its_default() -> None:
    settings = DiscordPlugin.Settings()
    listed = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", HOW_TO, re.MULTILINE))
    given = {one.name: getattr(settings, one.name) for one in msgspec.structs.fields(settings)}
    del given["secrets"]
    assert list(listed) == [*sorted(given, key=list(listed).index)]
    for name, value in given.items():
        shown = f"{value:g}" if isinstance(value, float) else msgspec.json.encode(value).decode()
        assert listed[name] == (f"`{shown}`" if value != "" else "Discord's")


def test_the_link_asks_for_exactly_the_permissions_that_the_page_names() -> None:
    (number,) = re.findall(r"permissions=(\d+)", HOW_TO)
    table = HOW_TO.partition("| permission |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| ([A-Z][\w ]+) \|", table, re.MULTILINE)
    spelled = {"View Channels": "read_messages"}
    wanted = {spelled.get(name, name.lower().replace(" ", "_")) for name in named}
    asked = {name for name, value in library.Permissions(int(number)) if value}
    assert asked == wanted


def test_every_message_in_the_table_of_troubles_is_one_that_the_adapter_says() -> None:
    code = "".join(one.read_text(encoding="utf-8") for one in PACKAGE.glob("*.py"))
    quoted = re.findall(r"^\| `([A-Zac-z][^`]+)`", HOW_TO.partition("## When something")[2], re.MULTILINE)
    assert len(quoted) >= 5
    assert [one for one in quoted if one not in code] == []


def test_the_readme_names_every_module() -> None:
    modules = {one.stem for one in PACKAGE.glob("*.py")} - {"__init__"}
    assert set(re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE)) - {"module"} == modules
