"""The how-to says what the code has: the manifest, every setting, every scope."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hermes_slack.manifest import manifest
from hermes_slack.plugin import SlackPlugin

PAGE = (Path(__file__).parents[3] / "docs/how-to/slack.md").read_text(encoding="utf-8")


def test_the_manifest_of_the_page_is_the_one_that_is_made() -> None:
    shown = re.search(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert shown is not None
    assert json.loads(shown[1]) == manifest().content


def test_the_page_explains_every_setting_and_every_scope() -> None:
    rows = set(re.findall(r"^\| `([\w:]+)` \|", PAGE, re.MULTILINE))
    settings = set(SlackPlugin.Settings.__struct_fields__) - {"secrets"}
    scopes = set(manifest().content["oauth_config"]["scopes"]["bot"])
    assert rows - {"messages_tab_disabled"} == settings | scopes
