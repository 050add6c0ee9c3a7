"""What an installation is decided by: what a person wrote, what would break, what pip said, what a wheel says."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_core.errors import PackageError
from hermes_core.packages.conflicts import Change, Have, all_there, broken, needed_by, unmet
from hermes_core.packages.install import _name
from hermes_core.packages.pip import explained
from hermes_core.packages.targets import target
from hermes_core.packages.wheels import read_wheel

from .world import wheel


def have(*found: Have) -> dict[str, Have]:
    return {one.name.lower(): one for one in found}


@pytest.mark.parametrize(
    ("written", "kind", "spec"),
    [
        ("hermes-greet", "name", "hermes-greet"),
        (" hermes-greet[fast]>=1,<2 ", "name", "hermes-greet[fast]>=1,<2"),
        ("https://example.invalid/a/greet.git", "git", "git+https://example.invalid/a/greet.git"),
        ("https://example.invalid/greet.git@v1", "git", "git+https://example.invalid/greet.git@v1"),
        ("git+https://example.invalid/greet", "git", "git+https://example.invalid/greet"),
        ("git@example.invalid:a/greet.git", "git", "git+ssh://git@example.invalid/a/greet.git"),
    ],
)
def test_what_a_person_writes_is_known_for_what_it_is(written: str, kind: str, spec: str) -> None:
    found = target(written)
    assert (found.kind, found.spec) == (kind, spec)


def test_an_error_about_a_url_does_not_repeat_its_password() -> None:
    with pytest.raises(PackageError) as refused:
        target("https://ann:hunter2@example.invalid/greet.zip")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "other", "downgrade", "reasons"),
    [
        (Change("a", "2"), Have("b", "1", ("a<2",)), False, 0),  # new: it cannot break what was broken
        (Change("a", "2", "1"), Have("b", "1", ("a<2",)), False, 1),
        (Change("a", "2", "1"), Have("b", "1", ("a<2; extra == 'x'",)), False, 0),
        (Change("a", "2", "1"), Have("b", "1", ("a<2; python_version < '3'",)), False, 0),
        (Change("a", "2", "1"), Have("b", "1", ("a<1",)), False, 0),  # broken before
        (Change("A_a", "2", "1"), Have("b", "1", ("a.a<2",)), False, 1),
        (Change("a", "1", "2"), Have("b", "1"), False, 1),
        (Change("a", "1", "2"), Have("b", "1"), True, 0),
        (Change("a", "1", "1"), Have("b", "1", ("a>1",)), False, 0),
        (Change("hermes-switchboard-busy", "2", "1"), Have("b", "1"), True, 1),
    ],
)
def test_what_a_change_would_break_is_found(
    change: Change, other: Have, downgrade: bool, reasons: int
) -> None:
    assert len(broken("new", [change], have(other), downgrade)) == reasons


def test_what_changes_together_does_not_break_each_other() -> None:
    there = have(Have("a", "1"), Have("b", "1", ("a<2",)))
    assert broken("new", [Change("a", "2", "1"), Change("b", "2", "1")], there, False) == []


def test_needs_are_found_by_any_spelling_of_the_name() -> None:
    there = have(Have("b", "1", ("My_Package",)), Have("c", "1", ("other",)), Have("my-package", "1"))
    assert needed_by("my.package", there) == ["b 1"]


def test_what_is_needed_of_hermes_itself_is_compared_with_this_one() -> None:
    there = have(Have("hermes-switchboard", "0.1.0"))
    assert unmet("new 1", ["hermes-switchboard>=0.1", "other>9"], there) == []
    assert unmet("new 1", ["hermes-switchboard[http]>=0.2"], there) == [
        "new 1 needs hermes-switchboard>=0.2, and this Hermes has hermes-switchboard 0.1.0."
    ]


def test_the_resolver_is_left_out_only_where_nothing_is_open() -> None:
    there = have(Have("a", "1.5"))
    assert all_there(["a>=1", "b; extra == 'x'"], there)
    for open_ in ("b", "a>=2", "a[x]", "a @ file:///x", "a ???"):
        assert not all_there(["a", open_], there), open_


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["ERROR: something else"], "p: something else"),
        ([], "p: pip failed"),
        (
            ["ERROR: Package 'p' requires a different Python: 3.11.7 not in '>=3.14'"],
            "3.11.7 not in '>=3.14'",
        ),
        (
            [
                "The conflict is caused by:",
                "    p 1 depends on a>2",
                "    b depends on a<2",
                "",
                "To fix this",
            ],
            "what it needs does not go together: p 1 depends on a>2; b depends on a<2.",
        ),
        (["OSError: [Errno 28] No space left on device"], "the disk is full."),
        (["error: externally-managed-environment"], "belongs to the operating system"),
    ],
)
def test_what_pip_says_is_told_in_plain_words(lines: list[str], says: str) -> None:
    assert says in explained("p", lines).message


def test_a_wheel_is_read_and_what_is_none_is_refused(tmp_path: Path) -> None:
    found = read_wheel(wheel(tmp_path, "hermes-greet", plugin="Greet", requires=["a>1"]))
    assert (found.name, found.version, found.requires, found.plugins) == (
        "hermes-greet",
        "1.0",
        ("a>1",),
        ("Greet",),
    )
    assert read_wheel(wheel(tmp_path, "other")).plugins == ()
    (tmp_path / "x.whl").write_bytes(b"")
    with pytest.raises(PackageError, match="the wheel is broken"):
        read_wheel(tmp_path / "x.whl")


@pytest.mark.parametrize(
    ("written", "called"),
    [
        ("https://ann:hunter2@example.invalid/a/greet.git@v1#subdirectory=x", "greet"),
        ("git@example.invalid:a/greet.git", "greet"),
        ("hermes-greet>=1", "hermes-greet>=1"),
    ],
)
def test_what_is_said_of_a_url_is_its_last_part_and_no_password(written: str, called: str) -> None:
    assert _name(target(written)) == called
