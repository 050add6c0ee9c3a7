from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from hermes_core.adapter import Features
from hermes_core.messages import Address
from hermes_terminal.pipe import PipeAdapter
from hermes_terminal.plugin import TerminalPlugin
from hermes_terminal.seat import ANY_SIZE, Seat


def test_nothing_that_draws_is_imported_before_there_is_a_terminal() -> None:
    code = (
        "import sys; from hermes_terminal.plugin import TerminalPlugin;"
        "(factory,) = TerminalPlugin().hermes_adapters(); adapter = factory.open({});"
        "drawing = {'prompt_toolkit', 'rich', 'pygments', 'markdown_it'};"
        "print(type(adapter).__name__, *sorted(drawing & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, stdin=subprocess.DEVNULL, check=True
    )
    assert done.stdout == b"PipeAdapter\n"


def test_it_offers_one_adapter_whose_conversation_has_a_name() -> None:
    (factory,) = TerminalPlugin().hermes_adapters()
    assert factory.platform == "terminal"
    assert isinstance(factory.open({"name": "work"}), PipeAdapter)  # the tests run without a terminal


@pytest.mark.parametrize("name", ["main", "a:b", "日本", "two words"])
def test_the_address_holds_the_name_of_the_conversation(name: str) -> None:
    address = Seat.of(name).address
    assert address == Address("terminal", "local", name)
    assert Address.parse(str(address)) == address


def test_a_wrong_setting_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="colour"):
        msgspec.convert({"colour": True}, TerminalPlugin.Settings)
    assert msgspec.convert({}, TerminalPlugin.Settings) == TerminalPlugin.Settings(
        history=True, markdown=True
    )


def test_a_chat_claims_what_it_shows_and_not_that_a_later_process_knows_it() -> None:
    from hermes_terminal.chat import ChatAdapter

    shown = Features(drafts=True, status=True, receipts=True, local=True, max_file=ANY_SIZE)
    assert ChatAdapter.features == shown
