from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from hermes_core.adapter import KnownCommand
from hermes_terminal.typed import CommandCompleter, TypedHistory

COMMANDS = (KnownCommand("stop", "end", "/stop [JOB]", ("halt",)), KnownCommand("status", "say", "/status"))


def completed(text: str) -> list[str]:
    completer = CommandCompleter(lambda: COMMANDS)
    return [one.text for one in completer.get_completions(Document(text), CompleteEvent())]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("/", ["/stop ", "/status "]),
        ("/ST", ["/stop ", "/status "]),
        ("/ha", ["/halt "]),
        ("/sto", ["/stop "]),
        ("/stop ", []),
        ("/x", []),
        ("st", []),
        ("", []),
        ("text /s", []),
    ],
)
def test_the_name_of_a_command_is_completed_at_the_beginning_only(text: str, names: list[str]) -> None:
    assert completed(text) == names


def test_what_was_typed_is_there_after_a_restart_latest_first(tmp_path: Path) -> None:
    file = tmp_path / "terminal" / "typed.jsonl"
    for text in ("one", "two\nlines", "\ud800 日本"):
        TypedHistory(file).store_string(text)
    assert list(TypedHistory(file).load_history_strings()) == ["\ud800 日本", "two\nlines", "one"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@given(torn=st.binary(max_size=40))
def test_a_damaged_file_gives_what_can_be_read(tmp_path_factory: pytest.TempPathFactory, torn: bytes) -> None:
    file = tmp_path_factory.mktemp("typed") / "typed.jsonl"
    file.write_bytes(b'"first"\n' + torn.replace(b"\r", b"") + b'\n"last"\n')
    found = list(TypedHistory(file).load_history_strings())
    assert (found[0], found[-1]) == ("last", "first")


def test_a_long_file_is_cut_to_its_latest_entries(tmp_path: Path) -> None:
    file = tmp_path / "typed.jsonl"
    file.write_text("".join(f'"{number}"\n' for number in range(2500)))
    assert next(iter(TypedHistory(file).load_history_strings())) == "2499"
    assert len(file.read_text().splitlines()) == 1000
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_that_cannot_be_written_is_a_history_that_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = TypedHistory(tmp_path / "file" / "typed.jsonl")
    history.append_string("one")
    assert history.get_strings() == ["one"]
    assert list(TypedHistory(tmp_path / "file" / "typed.jsonl").load_history_strings()) == []
