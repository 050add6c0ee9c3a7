"""Who was let in: codes, their hour, their number, and the lock-out (X1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_core.messages import Role
from hermes_core.people import ALPHABET, ASKED, PENDING, WRONG, People, WrongCode, is_person
from hermes_core.state import StateFile


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def opened(folder: Path) -> tuple[People, Clock]:
    clock = Clock()
    return People(folder, clock), clock


def asked(people: People, person: str) -> str:
    code = people.ask(person)
    assert code is not None
    assert code != ASKED
    return code


def test_x1_a_code_lets_in_the_person_who_was_given_it_and_nobody_else(tmp_path: Path) -> None:
    people, _ = opened(tmp_path)
    first, second = asked(people, "telegram:42"), asked(people, "telegram:43")
    assert first != second
    assert len(first) == 8
    assert set(first) <= set(ALPHABET)
    assert people.approve(second).id == "telegram:43"
    assert (people.role("telegram:42"), people.role("telegram:43")) == (None, Role.USER)
    with pytest.raises(WrongCode):
        people.approve(second)
    assert people.approve(f" {first[:4].lower()}-{first[4:]} ", Role.OWNER).role is Role.OWNER
    assert people.role("telegram:42") is Role.OWNER


def test_x1_the_file_does_not_hold_the_code(tmp_path: Path) -> None:
    people, _ = opened(tmp_path)
    code = asked(people, "telegram:42")
    assert code not in (tmp_path / "people.toml").read_text(encoding="utf-8").upper()


def test_x1_a_code_holds_for_an_hour_and_is_not_given_twice_in_it(tmp_path: Path) -> None:
    people, clock = opened(tmp_path)
    code = asked(people, "telegram:42")
    clock.now += 3599
    assert people.ask("telegram:42") == ASKED
    clock.now += 2
    with pytest.raises(WrongCode):
        people.approve(code)
    assert asked(people, "telegram:42") != code


def test_x1_no_more_than_three_wait_on_one_platform(tmp_path: Path) -> None:
    people, clock = opened(tmp_path)
    for number in range(PENDING):
        asked(people, f"telegram:{number}")
    assert people.ask("telegram:99") is None
    asked(people, "discord:1")
    clock.now += 3601
    asked(people, "telegram:99")
    assert [one.id for one in people.listing()[1]] == ["telegram:99"]


def test_x1_after_wrong_codes_none_is_looked_at_not_even_the_right_one(tmp_path: Path) -> None:
    people, clock = opened(tmp_path)
    code = asked(people, "telegram:42")
    for _ in range(WRONG):
        with pytest.raises(WrongCode, match="Nobody was given this code"):
            people.approve("AAAAAAAA")
    with pytest.raises(WrongCode, match="Too many wrong codes"):
        people.approve(code)
    other, _ = People(tmp_path, clock), clock
    with pytest.raises(WrongCode, match="Too many wrong codes"):
        other.approve(code)
    assert people.role("telegram:42") is None
    assert people.listing()[2] == clock.now + 3600
    clock.now += 3601
    assert people.approve(asked(people, "telegram:42")).id == "telegram:42"


def test_x1_wrong_codes_far_apart_lock_nobody_out(tmp_path: Path) -> None:
    people, clock = opened(tmp_path)
    for _ in range(3 * WRONG):
        with pytest.raises(WrongCode, match="Nobody was given this code"):
            people.approve("AAAAAAAA")
        clock.now += 1800


def test_x1_who_was_put_out_is_out_whatever_else_is_known_until_let_in_again(tmp_path: Path) -> None:
    people, _ = opened(tmp_path)
    other, _ = opened(tmp_path)
    people.approve(asked(people, "telegram:42"))
    assert other.role("telegram:42") is Role.USER
    assert people.revoke("telegram:42") is Role.USER
    assert other.role("telegram:42") is Role.NOBODY
    assert people.revoke("telegram:43") is None
    people.let_in("telegram:42", Role.ADMIN)
    assert other.role("telegram:42") is Role.ADMIN
    assert other.role("telegram:43") is Role.NOBODY


@pytest.mark.parametrize("text", ["people = 3", 'people = ["telegram:42"]', "half = [", "[people]\nx = 1"])
def test_a_file_that_is_broken_by_hand_changes_nothing_of_what_is_known(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    people, _ = opened(tmp_path)
    people.let_in("telegram:42")
    assert people.role("telegram:42") is Role.USER
    (tmp_path / "people.toml").write_text(text, encoding="utf-8")
    for _ in range(3):
        assert people.role("telegram:42") is Role.USER
        assert people.role("telegram:43") is None
    assert len([one for one in caplog.records if "stays as it was" in one.getMessage()]) == 1


def test_a_role_that_there_is_not_lets_nobody_in(tmp_path: Path) -> None:
    with StateFile(tmp_path / "people.toml", "").editing() as table:
        table["people"] = {"telegram:42": {"role": "king"}, "telegram:43": {}}
    people, _ = opened(tmp_path)
    assert people.role("telegram:42") is people.role("telegram:43") is Role.NOBODY


@pytest.mark.parametrize(
    ("text", "true"),
    [("telegram:42", True), ("matrix:@ann:example.org", True), ("telegram:*", False), ("*", False)]
    + [(one, False) for one in ("telegram", "telegram:", ":42", "a:b c", "a:\n", "ABCDEFGH", "")],
)
def test_what_a_person_is(text: str, true: bool) -> None:
    assert is_person(text) is true
