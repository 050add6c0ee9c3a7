"""The pages about Discord say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import discord as library

from hermes_core.testing.pages_contract import PagesContract
from hermes_discord.plugin import DiscordPlugin

ROOT = Path(__file__).parents[3]


class TestPages(PagesContract):
    how_to = ROOT / "docs/how-to/discord.md"
    package = ROOT / "adapters/discord/hermes_discord"
    settings = DiscordPlugin.Settings
    elsewhere = frozenset(
        {
            "403 50013 Missing Permissions",  # of Discord
            "403 50001 Missing Access",
            "403 50007 Cannot send messages to this user",
        }
    )
    unset = "Discord's"

    def test_the_link_asks_for_exactly_the_permissions_that_the_page_names(self) -> None:
        (number,) = re.findall(r"permissions=(\d+)", self.page())
        table = self.page().partition("| permission |")[2].partition("\n\n")[0]
        named = re.findall(r"^\| ([A-Z][\w ]+) \|", table, re.MULTILINE)
        spelled = {"View Channels": "read_messages"}
        wanted = {spelled.get(name, name.lower().replace(" ", "_")) for name in named}
        asked = {name for name, value in library.Permissions(int(number)) if value}
        assert asked == wanted
