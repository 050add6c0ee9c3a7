"""ApprovalContract: a tool call in a thread is approved with a button, by whose turn it is (case 40).

    class TestApproval(ApprovalContract):
        @pytest.fixture
        async def asker(self, …): ...    # an `Asker` on a whole runtime with `SCRIPT` and the plugin `Wiper`

For platforms with buttons, and for whatever answers for the plugin that takes the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from hermes_core.hookspecs import hookimpl
from hermes_core.messages import ToolCall
from hermes_core.testing.driver import until
from hermes_core.testing.model import Script
from hermes_core.tools import Tool, tool

__all__ = ["SCRIPT", "WORDS", "ApprovalContract", "Asker", "Wiper"]

PATH: Final = "/data/old"
WORDS: Final = "One moment, *please*."
SCRIPT: Final[tuple[Script, ...]] = ([WORDS, ToolCall("1", "wipe", f'{{"path": "{PATH}"}}')], "Done.")
"""What the model says: words that announce it, a call that needs a yes, and then the end."""


class Wiper:
    """A plugin as anybody writes it: a dangerous tool, and what it did."""

    def __init__(self) -> None:
        self.wiped: list[str] = []

    @hookimpl
    def hermes_tools(self) -> Sequence[Tool]:
        """The tool `wipe`."""

        @tool("wipe", approval=True)
        async def wipe(path: str) -> str:
            """Remove everything there."""
            self.wiped.append(path)
            return "gone"

        return [wipe]


class Asker(Protocol):
    """People on the platform: "ben", whose turn it will be, and "ann", who is served as well."""

    wiper: Wiper

    async def begin(self) -> None:
        """Ben asks the agent in a thread to wipe it."""

    def said(self) -> list[str]:
        """What the agent has said in that thread, oldest first."""

    def buttons(self) -> list[str]:
        """The labels of the buttons under the question."""

    async def press(self, name: str, label: str) -> None:
        """Press one of them. Where the platform waits for an acknowledgement it comes before this returns."""

    def elsewhere(self) -> list[str]:
        """What the agent has said in the same channel outside of the thread."""

    def requests(self) -> int:
        """How often the model was called."""


class ApprovalContract:
    """Give it a fixture `asker`."""

    async def test_case_40_a_call_is_approved_with_a_button_in_its_thread_by_whose_turn_it_is(
        self, asker: Asker
    ) -> None:
        """The question stays below the words that announce it, and the press of somebody else counts for nothing."""
        await asker.begin()
        await until(lambda: "May I run this?" in "".join(asker.said()), "the question is asked")
        announced, question = asker.said()
        for word in ("One moment", "please"):
            assert word in announced, "what announces it stands above it, whole"
        assert "May I run this?" in question
        assert asker.buttons() == ["Approve", "Always", "Deny"]
        await asker.press("ann", "Approve")
        await until(lambda: "is not yours to answer" in "".join(asker.said()), "it is not ann's")
        assert asker.wiper.wiped == []
        await asker.press("ben", "Approve")
        await until(lambda: "Done." in asker.said(), "the turn goes on")
        assert asker.wiper.wiped == [PATH]
        assert asker.elsewhere() == []
        assert asker.requests() == 2
