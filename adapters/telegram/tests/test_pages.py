"""The pages about Telegram say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from hermes_telegram import limits
from hermes_telegram.plugin import TelegramPlugin
from hermes_telegram.render import CAPTION_ROOM, REPEAT, ROOM

ROOT = Path(__file__).parents[3]
HOW_TO = (ROOT / "docs/how-to/telegram.md").read_text(encoding="utf-8")
README = (ROOT / "adapters/telegram/README.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "adapters/telegram/hermes_telegram"


def test_every_setting_stands_on_the_page_with_its_default() -> None:
    settings = TelegramPlugin.Settings()
    listed = dict(re.findall(r"^\| `(\w+)` \| `([^|]+)` \|", HOW_TO, re.MULTILINE))
    given = {one.name: getattr(settings, one.name) for one in msgspec.structs.fields(settings)}
    del given["secrets"]
    assert listed == {name: msgspec.json.encode(value).decode() for name, value in given.items()}


def test_the_numbers_on_the_page_are_those_of_the_limits() -> None:
    assert f"Up to {ROOM:,} characters" in HOW_TO
    assert CAPTION_ROOM >= 1_000
    assert "up to 1,000 characters" in HOW_TO
    assert f"Telegram takes {limits.COMMANDS} of them" in HOW_TO
    assert f"up to {limits.UPLOAD // 10**6} MB from a bot and gives it files of up to" in HOW_TO
    assert f"up to {limits.DOWNLOAD // 2**20} MB." in HOW_TO
    assert f"up to\n{limits.UPLOAD_LOCAL // 10**9} GB" in HOW_TO
    assert f"pictures up to {limits.PHOTO // 10**6} MB" in HOW_TO
    assert all(limits.REACTIONS[kind] in HOW_TO for kind in ("queued", "steering", "interrupting"))
    assert f"`{REPEAT.strip()}`" in HOW_TO


def test_every_message_in_the_table_of_troubles_is_one_that_the_adapter_says() -> None:
    code = "".join(one.read_text(encoding="utf-8") for one in PACKAGE.glob("*.py"))
    code = re.sub(r'"\s*\n\s*f?"', "", code)  # texts that go over several lines
    table = HOW_TO.partition("## When something")[2]
    quoted = re.findall(r"^\| `([^`/]+)`", table, re.MULTILINE)
    assert len(quoted) >= 8
    of_telegram = {"bot was blocked by the user", "not enough rights"}
    unsaid = [one for one in quoted if one not in code and one not in of_telegram]
    assert unsaid == ["is larger than 20 MB"]  # made of the limit
    assert "is larger than {limits.DOWNLOAD // 2**20} MB" in code


def test_the_readme_names_every_module() -> None:
    modules = {one.stem for one in PACKAGE.glob("*.py")} - {"__init__"}
    assert set(re.findall(r"^\| `(\w+)` \|", README, re.MULTILINE)) == modules
