"""What `/status` knows of the latest turn: the hooks of turns and interrupts (I11)."""

from __future__ import annotations

from hermes_basics.latest import KEPT, Latest
from hermes_core.hookspecs import Interruption
from hermes_core.messages import Address, TurnEnd

HERE = Address("fake", "agent", "1")


def test_a_turn_is_told_with_its_time_and_its_reply() -> None:
    now = [10.0]
    latest = Latest(lambda: now[0])
    latest.started(HERE)
    now[0] = 12.34
    latest.ended(HERE, TurnEnd.COMPLETED, 7)
    assert latest.lines(HERE) == ["Last turn: completed after 2.3 s, reply 7"]


def test_an_interrupt_is_told_with_what_it_killed_skipped_and_kept() -> None:
    latest = Latest(lambda: 0.0)
    latest.started(HERE)
    latest.asked_to_stop(HERE)
    assert latest.lines(HERE) == ["Last interrupt: being stopped"]
    latest.stopped(Interruption(HERE, 1, killed=("run", "run"), skipped=("look",), kept=("add",)))
    latest.ended(HERE, TurnEnd.INTERRUPTED, None)
    assert latest.lines(HERE) == [
        "Last turn: interrupted after 0.0 s",
        "Last interrupt: killed run; skipped look; kept add",
    ]
    latest.stopped(Interruption(HERE, 2))
    assert latest.lines(HERE)[-1] == "Last interrupt: no tool ran"


def test_case_53_what_is_known_of_many_conversations_is_bounded() -> None:
    latest = Latest(lambda: 0.0)
    places = [Address("fake", "agent", str(number)) for number in range(KEPT + 5)]
    for place in places:
        latest.ended(place, TurnEnd.COMPLETED, 1)
    assert latest.lines(places[4]) == []
    assert latest.lines(places[5]) != []
