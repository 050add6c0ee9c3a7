"""The memory files: edited by people and by the program, bounded, replaced as a whole, named after any address."""

from __future__ import annotations

import contextlib
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.errors import ToolError
from hermes_core.messages import Address
from hermes_memory.files import MemoryFile, MemoryFolder

# Root may write everywhere; without these capabilities (1: DAC_OVERRIDE, 2: DAC_READ_SEARCH) it may not.
HUMBLED = (
    "import ctypes, os, sys; [ctypes.CDLL(None).prctl(24, number, 0, 0, 0) for number in (1, 2)];"
    " os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
TRIES = """
import sys
from pathlib import Path
from hermes_core.errors import ToolError
from hermes_memory.files import MemoryFile
file = MemoryFile(Path(sys.argv[1]), 100)
try:
    file.add("more") if sys.argv[2] == "add" else print(file.text())
except ToolError as error:
    print(error)
"""


@pytest.fixture
def file(tmp_path: Path) -> MemoryFile:
    return MemoryFile(tmp_path / "memory" / "MEMORY.md", 60)


def test_what_is_not_there_is_empty_and_the_first_line_makes_it(file: MemoryFile) -> None:
    assert (file.text(), file.lines()) == ("", [])
    file.add("likes tea")
    file.add("  is\ncalled \u2028 Ann ")
    assert file.path.read_text() == "- likes tea\n- is called Ann\n"
    assert file.lines() == ["likes tea", "is called Ann"]


EDITED = "\n\n# Ann\r\n\r\n  - no line of memory\n- one\r\ntext between\n* nor this\n- two\n\ttail"


def test_what_people_wrote_by_hand_stays_as_it_stands(file: MemoryFile) -> None:
    file = MemoryFile(file.path, 1000)
    file.path.parent.mkdir()
    file.path.write_bytes(EDITED.encode())
    assert file.lines() == ["one", "two"]
    file.add("three")
    assert file.path.read_bytes().decode() == f"{EDITED}\n- three\n"
    assert file.forget(1) == "one"
    assert file.path.read_bytes().decode() == f"{EDITED}\n- three\n".replace("- one\r\n", "")
    assert file.lines() == ["two", "three"]


def test_a_first_line_with_a_blank_in_front_is_counted_nowhere(file: MemoryFile) -> None:
    file.path.parent.mkdir()
    file.path.write_text(" - indented\n- one\n")
    assert file.lines() == ["one"]
    assert file.forget(1) == "one"
    assert file.path.read_text() == " - indented\n"


def test_bytes_that_are_no_text_are_shown_with_a_mark_and_kept(file: MemoryFile) -> None:
    file.path.parent.mkdir()
    file.path.write_bytes(b"- caf\xe9\n")
    assert file.lines() == ["caf\ufffd"]
    file.add("more")
    assert file.path.read_bytes() == b"- caf\xe9\n- more\n"
    assert file.forget(1) == "caf?"
    assert file.path.read_bytes() == b"- more\n"


@pytest.mark.parametrize("number", [0, -1, 2, 10**9])
def test_a_number_that_no_line_has_forgets_nothing(file: MemoryFile, number: int) -> None:
    file.add("one")
    assert file.forget(number) is None
    assert file.lines() == ["one"]


def test_the_last_line_can_be_forgotten(file: MemoryFile) -> None:
    file.add("one")
    assert file.forget(1) == "one"
    assert (file.text(), file.path.read_text()) == ("", "")


@pytest.mark.parametrize("line", ["", "  \n\t"])
def test_nothing_is_not_remembered(file: MemoryFile, line: str) -> None:
    with pytest.raises(ToolError, match=r"^There is nothing to remember\. Give a line of text\.$"):
        file.add(line)
    assert not file.path.exists()


def test_half_a_character_is_kept_as_a_mark(file: MemoryFile) -> None:
    file.add("half \ud800")
    assert file.lines() == ["half ?"]


def test_a_full_memory_takes_nothing_more_and_says_what_to_do(file: MemoryFile) -> None:
    file.add("x" * 57)
    with pytest.raises(ToolError) as refused:
        file.add("y")
    assert str(refused.value) == (
        "The memory is full: it holds 60 characters. Forget something first, with /memory forget NUMBER"
    )
    assert file.lines() == ["x" * 57]
    assert file.forget(1) is not None
    file.add("y")
    assert file.lines() == ["y"]


def test_it_keeps_its_mode_and_a_link_stays_a_link(file: MemoryFile, tmp_path: Path) -> None:
    file.add("one")
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    file.path.chmod(0o644)
    real = tmp_path / "elsewhere.md"
    file.path.rename(real)
    file.path.symlink_to(real)
    file.add("two")
    assert file.path.is_symlink()
    assert real.read_text() == "- one\n- two\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o644


def test_it_is_replaced_as_a_whole(file: MemoryFile) -> None:
    file.add("one")
    with file.path.open() as old:
        file.add("two")
        assert old.read() == "- one\n", "who reads meanwhile reads one state or the other"
    assert [path.name for path in file.path.parent.iterdir()] == ["MEMORY.md"], "nothing is left beside it"


@contextlib.contextmanager
def no_room(size: int) -> Iterator[None]:
    """As on a full disk: no file grows beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_one_plain_line_and_the_file_stays_as_it_was(file: MemoryFile) -> None:
    file.add("one")
    with no_room(3), pytest.raises(ToolError) as refused:
        file.add("two")
    assert str(refused.value) == "The memory cannot be written: File too large. Nothing was changed."
    assert file.lines() == ["one"]
    assert [path.name for path in file.path.parent.iterdir()] == ["MEMORY.md"]


def humbled(path: Path, verb: str) -> str:
    """What a process says that may only do what the modes of files allow."""
    words = [sys.executable, "-c", HUMBLED, "-c", TRIES, str(path), verb]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="takes rights away as Linux does")
def test_a_read_only_folder_and_a_file_that_is_out_of_reach_are_one_plain_line(file: MemoryFile) -> None:
    file.add("one")
    file.path.parent.chmod(0o555)
    try:
        assert humbled(file.path, "add") == (
            "The memory cannot be written: Permission denied. Nothing was changed."
        )
        assert file.lines() == ["one"]
        file.path.chmod(0)
        assert (
            humbled(file.path, "read") == "The memory cannot be read: Permission denied. Nothing was changed."
        )
        assert (
            humbled(file.path, "add") == "The memory cannot be read: Permission denied. Nothing was changed."
        )
    finally:
        file.path.parent.chmod(0o755)


def test_a_file_where_the_folder_should_be_is_one_plain_line(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("in the way")
    with pytest.raises(
        ToolError, match=r"^The memory cannot be read: Not a directory\. Nothing was changed\.$"
    ):
        MemoryFile(tmp_path / "memory" / "MEMORY.md", 60).add("one")


# ---- names

PARTS = st.one_of(
    st.text(max_size=300), st.sampled_from(["", ".", "..", "/", "a/b", "CON", "-", "\ud800", "\0"])
)
ADDRESSES = st.builds(Address, PARTS, PARTS, PARTS, st.none() | PARTS)


@given(ADDRESSES)
def test_any_address_has_a_name_that_every_file_system_takes(address: Address) -> None:
    folder = MemoryFolder(Path("folder"), 60)
    path = folder.of(address).path
    assert path.parent == Path("folder/conversations")
    assert path.name.isascii()
    assert len(path.name) <= 100
    assert path.name.endswith(".md")
    assert path.name[0] not in ".-"
    assert not set(path.name) & set('/\\\0:*?"<>| \n')
    assert folder.of(address).path == path


@given(ADDRESSES, ADDRESSES)
def test_two_addresses_never_share_a_file(one: Address, other: Address) -> None:
    folder = MemoryFolder(Path("folder"), 60)
    same = folder.of(one).path.name.lower() == folder.of(other).path.name.lower()
    assert same == (one == other)


def test_addresses_that_differ_in_their_case_only_have_files_of_their_own(tmp_path: Path) -> None:
    folder = MemoryFolder(tmp_path, 60)
    folder.of(Address("fake", "agent", "ABC")).add("big")
    folder.of(Address("fake", "agent", "abc")).add("small")
    assert folder.of(Address("fake", "agent", "ABC")).lines() == ["big"]
    assert len({path.name.lower() for path in (tmp_path / "conversations").iterdir()}) == 2
