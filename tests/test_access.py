"""Who is served: lists, the file of people, and how soon a change of it is seen (X1)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hermes_core.config import Config
from hermes_core.messages import Author, Role
from hermes_core.people import People
from hermes_core.router import Access

LISTS = {"owners": ["chat:1"], "admins": ["chat:2"], "allow": ["chat:3", "other:*"]}


def access(folder: Path, **lists: object) -> Access:
    return Access(Config.of({"access": lists or LISTS}), {}, People(folder))


@pytest.mark.parametrize(
    ("platform", "author", "role"),
    [
        ("chat", Author("1"), Role.OWNER),
        ("chat", Author("2"), Role.ADMIN),
        ("chat", Author("3"), Role.USER),
        ("chat", Author("3", bot=True), Role.USER),
        ("chat", Author("4"), Role.NOBODY),
        ("chat", Author("4", "1"), Role.NOBODY),
        ("other", Author("4"), Role.USER),
        ("other", Author("4", bot=True), Role.NOBODY),
        ("other", Author("1"), Role.USER),
        ("third", Author("1"), Role.NOBODY),
    ],
)
def test_x1_the_lists_say_who_is_served(tmp_path: Path, platform: str, author: Author, role: Role) -> None:
    assert access(tmp_path).role(platform, author) is role


def test_x1_the_file_goes_before_patterns_and_behind_owners_and_admins(tmp_path: Path) -> None:
    people = People(tmp_path)
    for person in ("chat:1", "chat:2", "chat:3", "other:4"):
        people.revoke(person)
    people.let_in("chat:5", Role.ADMIN)
    roles = [access(tmp_path).role("chat", Author(id_)) for id_ in "1235"]
    assert roles == [Role.OWNER, Role.ADMIN, Role.NOBODY, Role.ADMIN]
    assert access(tmp_path).role("other", Author("4")) is Role.NOBODY


def test_x1_who_is_let_in_is_served_at_once_and_who_is_put_out_is_out_in_a_moment(tmp_path: Path) -> None:
    door, elsewhere = access(tmp_path, allow=["chat:*"]), People(tmp_path)
    elsewhere.revoke("chat:9")
    assert door.role("chat", Author("9")) is Role.NOBODY
    assert door.role("chat", Author("7")) is Role.USER
    elsewhere.let_in("chat:9")
    assert door.role("chat", Author("9")) is Role.USER, "at once, though others were looked up a moment ago"
    elsewhere.revoke("chat:7")
    door.look_again()
    assert door.role("chat", Author("7")) is Role.NOBODY, "at once after a command"
    elsewhere.revoke("chat:8")
    end = time.monotonic() + 10
    while door.role("chat", Author("8")) is not Role.NOBODY:
        assert time.monotonic() < end
        time.sleep(0.001)
