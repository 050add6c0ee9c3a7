"""Files of the program's own: replaced whole, changed by one process at a time, never half read."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_core.errors import StateError
from hermes_core.state import StateFile

COUNT = """
import sys
from pathlib import Path
from hermes_core.state import StateFile
file = StateFile(Path(sys.argv[1]), "counts")
for _ in range(25):
    with file.editing() as table:
        table["count"] = table.get("count", 0) + 1
"""


def file_in(folder: Path) -> StateFile:
    return StateFile(folder / "state.toml", "What is known.")


def test_what_is_written_is_read_again_and_only_this_user_may(tmp_path: Path) -> None:
    file = file_in(tmp_path / "data")
    assert file.read() == {}
    assert file.signature() is None
    with file.editing() as table:
        table["people"] = {"telegram:42": {"name": 'Änn "x" \\ \'', "since": 7}}
    assert file.read() == {"people": {"telegram:42": {"name": 'Änn "x" \\ \'', "since": 7}}}
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert file.path.read_text(encoding="utf-8").startswith("# What is known.\n")


def test_a_change_is_seen_by_the_signature_and_an_edit_without_one_leaves_the_file(tmp_path: Path) -> None:
    file = file_in(tmp_path)
    seen = []
    for value in (1, 2, 2):
        with file.editing() as table:
            table["value"] = value
        seen.append(file.signature())
    assert seen[0] != seen[1]
    assert seen[1] == seen[2]


def test_an_edit_that_fails_changes_nothing(tmp_path: Path) -> None:
    file = file_in(tmp_path)
    with file.editing() as table:
        table["value"] = 1
    with pytest.raises(KeyError), file.editing() as table:
        table["other"] = (table.pop("value"), table["nothing"])
    assert file.read() == {"value": 1}


def test_two_processes_that_change_it_lose_nothing(tmp_path: Path) -> None:
    file = file_in(tmp_path)
    command = [sys.executable, "-c", COUNT, str(file.path)]
    both = [subprocess.Popen(command) for _ in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    assert file.read() == {"count": 50}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["state.toml", "state.toml.lock"]


@pytest.mark.parametrize("text", ["half = [1, 2", "\x00", "a = 1\na = 2"])
def test_a_broken_file_is_said_so_and_not_written_over(tmp_path: Path, text: str) -> None:
    file = file_in(tmp_path)
    file.path.write_text(text, encoding="utf-8")
    with pytest.raises(StateError, match=r"state\.toml in the data folder cannot be read"):
        file.read()
    with pytest.raises(StateError), file.editing() as table:
        table["value"] = 1
    assert file.path.read_text(encoding="utf-8") == text


def test_a_folder_that_cannot_be_written_is_said_so_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no folder", encoding="utf-8")
    assert file_in(tmp_path / "data").read() == {}
    with pytest.raises(StateError, match="cannot be written"), file_in(tmp_path / "data").editing() as table:
        table["value"] = 1


def test_what_another_process_wrote_over_it_is_complete_at_every_instant(tmp_path: Path) -> None:
    file = file_in(tmp_path)
    writer = subprocess.Popen([sys.executable, "-c", COUNT, str(file.path)])
    counts = [0]
    while writer.poll() is None:
        counts.append(file.read().get("count", 0))
    assert counts == sorted(counts)
    assert writer.wait(60) == 0
    assert json.dumps(file.read()) == '{"count": 25}'
    assert not [one for one in tmp_path.iterdir() if one.name.startswith(".")]
