"""The pages about Slack say what the code does: the manifest, every setting, every scope."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hermes_core.testing.pages_contract import PagesContract
from hermes_slack.manifest import manifest
from hermes_slack.plugin import SlackPlugin

ROOT = Path(__file__).parents[3]


class TestPages(PagesContract):
    how_to = ROOT / "docs/how-to/slack.md"
    package = ROOT / "adapters/slack/hermes_slack"
    settings = SlackPlugin.Settings
    elsewhere = frozenset({"messages_tab_disabled", "not_in_channel"})  # of Slack

    def test_the_manifest_of_the_page_is_the_one_that_is_made(self) -> None:
        shown = re.search(r"^```json\n(.*?)^```$", self.page(), re.MULTILINE | re.DOTALL)
        assert shown is not None
        assert json.loads(shown[1]) == manifest().content

    def test_the_page_explains_every_scope(self) -> None:
        table = self.page().partition("| scope |")[2].partition("\n\n")[0]
        scopes = manifest().content["oauth_config"]["scopes"]["bot"]
        assert re.findall(r"^\| `([\w:]+)` \|", table, re.MULTILINE) == scopes
