"""The pages about Telegram say what the code does."""

from __future__ import annotations

from pathlib import Path

from hermes_core.testing.pages_contract import PagesContract
from hermes_telegram import limits
from hermes_telegram.plugin import TelegramPlugin
from hermes_telegram.render import CAPTION_ROOM, REPEAT, ROOM

ROOT = Path(__file__).parents[3]


class TestPages(PagesContract):
    how_to = ROOT / "docs/how-to/telegram.md"
    package = ROOT / "adapters/telegram/hermes_telegram"
    settings = TelegramPlugin.Settings
    elsewhere = frozenset(
        {
            "adapters.telegram.base_url is no address",  # of the core, from the name of the key
            "bot was blocked by the user",  # of Telegram
            "not enough rights",
            f"is larger than {limits.DOWNLOAD // 2**20} MB",  # made of the limit
        }
    )

    def test_the_numbers_on_the_page_are_those_of_the_limits(self) -> None:
        page = self.page()
        assert f"Up to {ROOM:,} characters" in page
        assert CAPTION_ROOM >= 1_000
        assert "up to 1,000 characters" in page
        assert f"Telegram takes {limits.COMMANDS} of them" in page
        assert f"up to {limits.UPLOAD // 10**6} MB from a bot and gives it files of up to" in page
        assert f"up to {limits.DOWNLOAD // 2**20} MB." in page
        assert f"up to\n{limits.UPLOAD_LOCAL // 10**9} GB" in page
        assert f"pictures up to {limits.PHOTO // 10**6} MB" in page
        assert all(limits.REACTIONS[kind] in page for kind in ("queued", "steering", "interrupting"))
        assert f"`{REPEAT.strip()}`" in page
        assert "is larger than {limits.DOWNLOAD // 2**20} MB" in self.code()
