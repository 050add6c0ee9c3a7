"""How far this machine's clock is ahead of a platform's (D8)."""

from __future__ import annotations

import logging

import pytest

from hermes_core.clock import Clock

AT_NOON = "Mon, 30 Nov 2026 12:00:00 GMT"
NOON = 1796040000.0


@pytest.mark.parametrize(
    ("ahead", "taken"), [(0.0, 0.0), (3.0, 0.0), (90.0, 90.0), (7200.0, 7200.0), (-7200.0, 0.0)]
)
def test_only_a_clock_that_is_ahead_counts_and_an_answers_way_does_not(ahead: float, taken: float) -> None:
    assert Clock("x", lambda: NOON + ahead).dated(AT_NOON) == taken


@pytest.mark.parametrize(
    "header", [None, "", "yesterday", "Mon, 99 Nov 2026", "0", "Fri, 31 Dec 99999 00:00:00 GMT"]
)
def test_what_is_no_date_changes_nothing(header: str | None) -> None:
    clock = Clock("x", lambda: NOON + 7200)
    assert clock.dated(AT_NOON) == 7200.0
    assert clock.dated(header) == 7200.0


def test_it_is_said_once_and_once_more_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    now = NOON + 7200
    clock = Clock("slack", lambda: now)
    with caplog.at_level(logging.INFO, "hermes"):
        for second in range(3):
            clock.dated(f"Mon, 30 Nov 2026 12:00:0{second} GMT")
        now = NOON + 10
        for second in range(7, 10):
            clock.dated(f"Mon, 30 Nov 2026 12:00:0{second} GMT")
    assert [one.getMessage() for one in caplog.records] == [
        "this machine's clock is 7200 s ahead of that of slack: set it",
        "this machine's clock agrees with that of slack again",
    ]
