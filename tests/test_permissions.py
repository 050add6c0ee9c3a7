"""What waits for a yes: whatever happens, each is answered once at most, and only by who may."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_core.errors import CommandError, NotAllowed
from hermes_core.messages import Address, Author, Role
from hermes_core.router.permissions import Permissions, Verdict, Waiting
from hermes_core.testing.virtual import run

PLACES = [Address("fake", "agent", "1"), Address("fake", "agent", "1", "t")]
PEOPLE = ["ann", "bob", "eve"]
ROLES = st.sampled_from([Role.USER, Role.ADMIN, Role.OWNER])


@dataclass
class Open:
    place: int
    people: frozenset[str] | None
    role: Role


@dataclass
class Decide:
    which: int
    place: int
    person: str
    role: Role
    allow: bool
    always: bool


@dataclass
class Close:
    which: int


STEPS = st.one_of(
    st.builds(
        Open,
        st.integers(0, 1),
        st.none() | st.frozensets(st.sampled_from(PEOPLE), min_size=1),
        ROLES,
    ),
    st.builds(
        Decide,
        st.integers(0, 5),
        st.integers(0, 1),
        st.sampled_from(PEOPLE),
        ROLES,
        st.booleans(),
        st.booleans(),
    ),
    st.builds(Close, st.integers(0, 5)),
)


def may(waiting: Waiting, step: Decide) -> bool:
    """Who may answer, said another way than the code does."""
    if step.role < waiting.role:
        return False
    if waiting.people is None:
        return step.role >= Role.ADMIN
    return step.person in waiting.people or (not step.allow and step.role >= Role.ADMIN)


@given(st.lists(STEPS, max_size=30))
def test_each_is_answered_once_at_most_and_only_by_who_may(steps: list[Open | Decide | Close]) -> None:
    async def story() -> None:
        permissions = Permissions()
        opened: list[Waiting] = []
        verdicts: dict[int, Verdict] = {}
        for step in steps:
            if isinstance(step, Open):
                text = f"text {len(opened) % 2}"
                opened.append(permissions.open(PLACES[step.place], "tool", text, step.people, step.role, 300))
            elif step.which < len(opened):
                waiting = opened[step.which]
                if isinstance(step, Close):
                    permissions.close(waiting, Verdict.ENDED)
                    verdicts.setdefault(step.which, Verdict.ENDED)
                    continue
                author, place = Author(step.person), PLACES[step.place]

                def decide(
                    waiting: Waiting = waiting,
                    place: Address = place,
                    author: Author = author,
                    step: Decide = step,
                ) -> None:
                    permissions.decide(
                        place,
                        waiting.permission.id,
                        author,
                        step.role,
                        allow=step.allow,
                        always=step.always,
                    )

                if step.which in verdicts or place != waiting.address:
                    with pytest.raises(CommandError):
                        decide()
                elif not may(waiting, step):
                    with pytest.raises(NotAllowed):
                        decide()
                else:
                    decide()
                    verdicts[step.which] = Verdict.ALLOWED if step.allow else Verdict.DENIED
                    assert waiting.answer.result() == (verdicts[step.which], author)
        for place in PLACES:
            ids = [one.id for one in permissions.waiting(place)]
            left = [
                one for number, one in enumerate(opened) if number not in verdicts and one.address == place
            ]
            assert ids == [one.permission.id for one in left]
        for number, waiting in enumerate(opened):
            answered = verdicts.get(number) in (Verdict.ALLOWED, Verdict.DENIED)
            assert waiting.answer.done() == answered

    run(story())


async def test_what_is_cancelled_cannot_be_answered_although_it_is_not_closed_yet() -> None:
    permissions = Permissions()
    waiting = permissions.open(PLACES[0], "tool", "text", None, Role.USER, 300)
    waiting.answer.cancel()
    with pytest.raises(CommandError, match="Nothing waits"):
        permissions.decide(
            PLACES[0], waiting.permission.id, Author("ann"), Role.OWNER, allow=True, always=True
        )
    assert not permissions.always(PLACES[0], "tool", "text", None)
    await asyncio.sleep(0)


async def test_what_ended_is_remembered_for_a_while_only() -> None:
    permissions = Permissions()
    first = permissions.open(PLACES[0], "tool", "text", None, Role.USER, 300)
    permissions.close(first, Verdict.EXPIRED)
    for _ in range(200):
        permissions.close(permissions.open(PLACES[0], "tool", "text", None, Role.USER, 300), Verdict.ENDED)
    with pytest.raises(CommandError, match="Nothing waits for an answer"):
        permissions.decide(PLACES[0], first.permission.id, Author("ann"), Role.OWNER, allow=True)
    await asyncio.sleep(0)
